import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindspore import Tensor
from mindspore.dataset import vision

from tests.trainer.forged_sets import DATA, forge
from trainer.config import RunConfig
from trainer.device.context import InEffect, Machine, this_machine
from trainer.feed.mixing import scaled
from trainer.feed.pipeline import rows_of, train_batches
from trainer.plan.run_plan import RunPlan, plan_run
from trainer.training import lineage
from trainer.training.lineage import invalid_label

pytestmark = pytest.mark.slow


@pytest.fixture
def plan(stripes: Path, cpu: InEffect) -> RunPlan:
    config = RunConfig(
        str(stripes), device="CPU", workers=1, recipe="none", image_size=32, batch_size=8, epochs=3, log_every=1
    )
    return plan_run(config, Machine(ascend=False, cores=2))


def pictures(plan: RunPlan) -> dict[bytes, str]:
    """The key of each picture as training sees it."""
    columns = [plan.dataset.schema.column(role) for role in ("image", "key")]
    rows = rows_of(plan.folder, plan.dataset, "train", plan.effect, columns, shuffle=False)
    rows = rows.map(scaled([vision.Decode(), vision.Resize((32, 32))], plan.pixels.mean, plan.pixels.std), columns[0])
    return {image.tobytes(): str(key) for image, key in rows.create_tuple_iterator(num_epochs=1, output_numpy=True)}


def test_keys_are_those_of_the_batch_in_any_epoch(plan: RunPlan) -> None:
    known = pictures(plan)
    batches = train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, 8, plan.effect)
    iterator = batches.create_tuple_iterator(num_epochs=3, output_numpy=True)
    trained: list[Any] = [
        [(known[image.tobytes()], int(label)) for image, label in zip(images, labels, strict=True)]
        for _ in range(3)
        for images, labels in iterator
    ]
    assert len(trained) == 18
    for first, last in ((1, 1), (9, 9), (18, 18), (7, 12)):
        assert lineage.batch_rows(plan, first, last) == trained[first - 1 : last]


@pytest.mark.parametrize("sunk", [False, True])
def test_report_lists_every_image_and_the_value_range(sunk: bool, plan: RunPlan, tmp_path: Path) -> None:
    batch = Tensor(np.array([[1.0, np.nan], [-2.0, np.inf]], np.float32))
    told = lineage.write_nonfinite(tmp_path, plan, "lost", (9, 9), () if sunk else (batch,))
    report = json.loads((tmp_path / "nonfinite.json").read_text())
    assert [(image["key"], image["label"]) for image in report["images"]] == lineage.batch_rows(plan, 9, 9)[0]
    assert report["images"][0]["step"] == 9
    inputs = report["inputs"]
    assert inputs.startswith("inputs from -") if sunk else inputs == "inputs from -2 to 1 and 2 non-finite values"
    assert f"and 5 more; all are listed in {tmp_path / 'nonfinite.json'}" in told


def test_label_that_differs_from_the_index_is_found_after_a_failed_step(
    stripes: Path, tmp_path: Path, cpu: object
) -> None:
    folder = forge(stripes, tmp_path / "forged", DATA["raw_label_is_large"])
    plan = plan_run(RunConfig(str(folder), device="CPU", workers=1, batch_size=8), this_machine("CPU"))
    found = [said for step in range(plan.steps) if (said := invalid_label(plan, step))]
    assert len(found) == 1
    assert "train/0.jpg has the label 99" in found[0]
