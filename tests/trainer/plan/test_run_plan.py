from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.device.context import Machine
from trainer.errors import TrainerError
from trainer.feed.recipes import IMAGENET_MEAN
from trainer.plan.run_plan import plan_run

CPU = Machine(ascend=False, cores=2)


def test_plan_resolves_pixels_rate_and_steps_from_dataset_recipe_and_optimizer(stripes: Path) -> None:
    plan = plan_run(RunConfig(str(stripes), optimizer="sgd", batch_size=20), CPU)
    assert (plan.pixels.size, plan.pixels.mean, plan.pixels.std) == (64, (100.0,) * 3, (30.0,) * 3)
    assert (plan.optimizer, plan.lr, plan.weight_decay, plan.steps) == ("sgd", 0.00781, 1e-4, 2)
    assert plan.used_splits == ("train", "val")


def test_rate_follows_the_images_of_an_update_over_all_ranks(stripes: Path) -> None:
    config = RunConfig(str(stripes), model="resnet18", batch_size=8, accumulate=2, ranks=2)
    assert plan_run(config, CPU).lr == 0.0125
    assert plan_run(replace(config, accumulate=1), CPU).lr == 0.00625


def test_requested_values_override_recipe_and_optimizer(stripes: Path) -> None:
    plan = plan_run(RunConfig(str(stripes), image_size=48, lr=0.5, weight_decay=0.0), CPU)
    assert (plan.pixels.size, plan.lr, plan.weight_decay) == (48, 0.5, 0.0)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"recipe": "imgenet"}, "unknown recipe 'imgenet'; did you mean 'imagenet'?"),
        ({"model": "tinny"}, "unknown model 'tinny'; did you mean 'tiny'?"),
        ({"profile": "5"}, "--profile 5 is not a range of steps; give the first and the last step, as in"),
        ({"profile": "0..3"}, r"--profile 0\.\.3 is not a range of steps"),
        ({"lr_scale": ("head",)}, "--lr-scale head: expected PREFIX=FACTOR"),
        ({"optimizer": "adam"}, "unknown optimizer 'adam'; did you mean 'adamw'?"),
        ({"batch_size": 49}, r"a batch of 49 is larger than the train split \(48 rows\); use --batch-size 48 or less"),
    ],
)
def test_invalid_request_is_rejected(stripes: Path, wrong: dict[str, object], sentence: str) -> None:
    config = replace(RunConfig(str(stripes)), **wrong)  # type: ignore[arg-type]
    with pytest.raises(TrainerError, match=sentence):
        plan_run(config, CPU)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"accumulate": 97}, "--accumulate 97 is more than the 96 batches of the run"),
        (
            {"image_size": 3000, "device": "Ascend"},
            r"too large for data sinking \(3295 MiB, .* use --batch-size 2 or --no-sink",
        ),
        ({"graph_kernel": True, "jit_level": "O2"}, "--graph-kernel is jit level O1, but --jit-level O2 was given too"),
    ],
)
def test_options_that_cannot_go_together_are_rejected(stripes: Path, wrong: dict[str, object], sentence: str) -> None:
    config = replace(RunConfig(str(stripes), batch_size=6), **wrong)  # type: ignore[arg-type]
    if "image_size" in wrong:
        config = replace(config, batch_size=32)
    with pytest.raises(TrainerError, match=sentence):
        plan_run(config, Machine(ascend=True, cores=8))


def test_patience_without_a_val_split_is_rejected(make_set: Callable[..., Path]) -> None:
    with pytest.raises(TrainerError, match="--patience needs a val split"):
        plan_run(RunConfig(str(make_set({"train": 40})), patience=2), CPU)


def test_optional_features_are_in_the_table(stripes: Path) -> None:
    config = RunConfig(str(stripes), batch_size=6, accumulate=4, clip_norm=1.0, ema=0.99, patience=3)
    shown = {one.setting: (one.effect, one.why) for one in plan_run(config, CPU).decisions}
    assert shown["accumulate"] == ("4 batches", "24 images per update")
    assert {"clip norm", "ema", "patience"} <= set(shown)


def test_dataset_without_train_rows_is_rejected(make_set: Callable[..., Path]) -> None:
    with pytest.raises(ContractError, match="no train split; its splits are val"):
        plan_run(RunConfig(str(make_set({"val": 3}))), CPU)


def test_dataset_of_one_class_is_rejected(make_set: Callable[..., Path]) -> None:
    folder = make_set({"train": 1}, classes=("across",))
    with pytest.raises(ContractError, match="a classifier needs two"):
        plan_run(RunConfig(str(folder), batch_size=1), CPU)


def test_dataset_without_statistics_gets_imagenets_mean(make_set: Callable[..., Path]) -> None:
    folder = make_set({"train": 3})
    unmeasured = replace(load_dataset(folder), pixels=None)
    (folder / "dataset.json").write_bytes(unmeasured.to_json())
    plan = plan_run(RunConfig(str(folder), batch_size=1), CPU)
    assert plan.pixels.mean == IMAGENET_MEAN
    assert plan.val_split is None


def test_edited_manifest_is_rejected(make_set: Callable[..., Path]) -> None:
    folder = make_set({"train": 3})
    manifest = folder / "dataset.json"
    manifest.write_text(manifest.read_text().replace('"across"', '"along"'))
    with pytest.raises(ContractError, match="edited after it was sealed"):
        plan_run(RunConfig(str(folder), batch_size=1), CPU)


@pytest.mark.parametrize(("ranks", "fits"), [(1, 10), (4, 2)])
def test_advised_batch_size_fits(ranks: int, fits: int, make_set: Callable[..., Path]) -> None:
    folder = make_set({"train": 10})
    with pytest.raises(TrainerError, match=f"use --batch-size {fits} or less"):
        plan_run(RunConfig(str(folder), batch_size=32, ranks=ranks), CPU)
    assert plan_run(RunConfig(str(folder), batch_size=fits, ranks=ranks), CPU).steps == 1


def test_fewer_rows_than_ranks_ask_for_fewer_ranks(make_set: Callable[..., Path]) -> None:
    with pytest.raises(TrainerError, match="use fewer --ranks"):
        plan_run(RunConfig(str(make_set({"train": 3})), batch_size=1, ranks=4), CPU)
