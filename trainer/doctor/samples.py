"""Temporary copies of some rows: a dataset of resized images for a trial, or image files for a comparison."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from mindspore.dataset import Shuffle, vision
from mindspore.mindrecord import FileWriter

from schemas.dataset import Dataset, Shard, Split
from schemas.images.policy import Policy
from schemas.layout import REJECTS, shard_name
from schemas.storage.regular_file import read_regular
from trainer.feed.picture import Unreadable, read_picture
from trainer.feed.pipeline import rows_of
from trainer.plan.run_plan import RunPlan

MAX_REJECTS_BYTES = 4 << 30
MOST_BYTES = 256 << 20  # bytes of one copy on disk
PAGE_BYTES = 32 << 20


@dataclass(frozen=True)
class Row:
    """One stored row: the bytes of its image, and its label."""

    image: bytes
    label: int


def sample_rows(plan: RunPlan, count: int, seconds: float = math.inf) -> list[Row]:
    """Return up to `count` random rows of train, with at most about MOST_BYTES of images.

    After `seconds` the sample ends once it has a batch, so that slow storage leaves time for measurements.
    """
    until = time.monotonic() + seconds
    rows = rows_of(plan.folder, plan.dataset, "train", plan.effect, shuffle=Shuffle.GLOBAL, num_shards=1, shard_id=0)
    sample: list[Row] = []
    sample_bytes = 0
    for image, label in rows.create_tuple_iterator(num_epochs=1, output_numpy=True):
        sample.append(Row(image.tobytes(), int(label)))
        sample_bytes += len(sample[-1].image)
        late = time.monotonic() >= until and len(sample) >= plan.config.batch_size
        if len(sample) == count or sample_bytes >= MOST_BYTES or late:
            break
    return sample


def short_sides(rows: Sequence[Row]) -> list[int]:
    """Return the shorter side of each image in pixels."""
    sides = []
    for row in rows:
        height, width = vision.Decode()(np.frombuffer(row.image, np.uint8)).shape[:2]
        sides.append(min(int(height), int(width)))
    return sides


def resize_rows(rows: Sequence[Row], resize: int, plan: RunPlan, check: Callable[[], None]) -> list[Row]:
    """Return the rows as stored by `dataprep shard --resize`. `resize` is the shorter side in pixels."""
    policy: Mapping[str, Any] = {**plan.dataset.policy, "resize": resize}
    quality = Policy.from_dict(policy).quality

    def one(row: Row) -> Row:
        check()
        try:
            pixels = read_picture(row.image, policy)
        except Unreadable:  # the row stays unchanged, as in training
            return row
        return Row(vision.encode_jpeg(pixels, quality).tobytes(), row.label)

    with ThreadPoolExecutor(plan.effect.workers) as threads:
        return list(threads.map(one, rows))


def write_dataset(rows: Sequence[Row], folder: Path, plan: RunPlan) -> RunPlan:
    """Write the rows as one shard into `folder` and return the plan of a run on it."""
    schema = plan.dataset.schema
    name = shard_name("train", 0, 1)
    folder.mkdir(parents=True)
    writer = FileWriter(str(folder / name), 1)
    writer.set_page_size(PAGE_BYTES)
    writer.add_schema({field.name: {"type": field.type} for field in schema.fields}, "sample")
    writer.add_index([schema.column("label")])
    image, label = schema.column("image"), schema.column("label")
    rest = {field.name: "" for field in schema.fields if field.type == "string"}
    writer.write_raw_data([{**rest, image: row.image, label: row.label} for row in rows])
    writer.commit()
    size = (folder / name).stat().st_size
    shard = Shard(name, len(rows), size, "", 0, "")
    counts = [0] * len(plan.dataset.classes)
    for row in rows:
        counts[row.label] += 1
    dataset: Dataset = replace(plan.dataset, splits={"train": Split(tuple(counts), (shard,))})
    return replace(plan, folder=folder, dataset=dataset, steps=len(rows) // plan.config.batch_size)


def write_files(rows: Sequence[Row], folder: Path) -> None:
    """Write the rows as image files, one folder per class."""
    for number, row in enumerate(rows):
        class_folder = folder / f"{row.label:05d}"
        class_folder.mkdir(parents=True, exist_ok=True)
        (class_folder / f"{number:06d}.{_ending(row.image)}").write_bytes(row.image)


def rejected_files(dataset: Path) -> frozenset[str]:
    """Return the keys of the rejected files of a dataset: paths relative to the source folder."""
    try:
        lines = read_regular(dataset / REJECTS, MAX_REJECTS_BYTES).decode(errors="replace").splitlines()
    except FileNotFoundError:  # a copy of the dataset without the list
        return frozenset()
    return frozenset(str(json.loads(line)["key"]) for line in lines)


def _ending(image: bytes) -> str:
    return "png" if image.startswith(b"\x89PNG") else "jpg"
