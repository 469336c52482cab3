"""Throw-away copies of some rows: as a set of other sizes, to try `--resize` on, or as files, to compare with."""

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
MOST_BYTES = 256 << 20  # of one copy on the disk
PAGE_BYTES = 32 << 20


@dataclass(frozen=True)
class Row:
    """One stored row: the bytes of its image, and its label."""

    image: bytes
    label: int


def some_rows(plan: RunPlan, count: int, seconds: float = math.inf) -> list[Row]:
    """Up to `count` rows of train as they are stored, drawn over the whole split, fewer where they are large.

    After so many seconds a batch is enough: a slow storage must not take the time of all that is to be measured.
    """
    until = time.monotonic() + seconds
    rows = rows_of(plan.folder, plan.dataset, "train", plan.effect, shuffle=Shuffle.GLOBAL, num_shards=1, shard_id=0)
    found: list[Row] = []
    held = 0
    for image, label in rows.create_tuple_iterator(num_epochs=1, output_numpy=True):
        found.append(Row(image.tobytes(), int(label)))
        held += len(found[-1].image)
        late = time.monotonic() >= until and len(found) >= plan.config.batch_size
        if len(found) == count or held >= MOST_BYTES or late:
            break
    return found


def short_sides(rows: Sequence[Row]) -> list[int]:
    """The shorter side of each image in pixels."""
    sides = []
    for row in rows:
        height, width = vision.Decode()(np.frombuffer(row.image, np.uint8)).shape[:2]
        sides.append(min(int(height), int(width)))
    return sides


def shrunk(rows: Sequence[Row], resize: int, plan: RunPlan, check: Callable[[], None]) -> list[Row]:
    """The rows as `dataprep shard --resize` would have stored them; the shorter side in pixels."""
    policy: Mapping[str, Any] = {**plan.dataset.policy, "resize": resize}
    quality = Policy.from_dict(policy).quality

    def one(row: Row) -> Row:
        check()
        try:
            pixels = read_picture(row.image, policy)
        except Unreadable:  # it stays as it is, as training sees it
            return row
        return Row(vision.encode_jpeg(pixels, quality).tobytes(), row.label)

    with ThreadPoolExecutor(plan.effect.workers) as threads:
        return list(threads.map(one, rows))


def as_set(rows: Sequence[Row], folder: Path, plan: RunPlan) -> RunPlan:
    """Write the rows as one shard in `folder` and return the plan of a run on it."""
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


def as_files(rows: Sequence[Row], folder: Path) -> None:
    """Write the rows as image files, one folder a class."""
    for number, row in enumerate(rows):
        place = folder / f"{row.label:05d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:06d}.{_ending(row.image)}").write_bytes(row.image)


def refused_files(dataset: Path) -> frozenset[str]:
    """The keys of the files that the set has refused: their paths below the folder that was sharded."""
    try:
        lines = read_regular(dataset / REJECTS, MAX_REJECTS_BYTES).decode(errors="replace").splitlines()
    except FileNotFoundError:  # a copy of the set without it
        return frozenset()
    return frozenset(str(json.loads(line)["key"]) for line in lines)


def _ending(image: bytes) -> str:
    return "png" if image.startswith(b"\x89PNG") else "jpg"
