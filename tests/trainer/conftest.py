"""A tiny sealed dataset, written by MindSpore's own FileWriter: three classes of stripes, 32 px."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("GLOG_v", "3")

import numpy as np
import pytest
from PIL import Image

from schemas.dataset import Dataset, PixelStats, Shard, Split, file_sha256, load_dataset
from schemas.layout import DATASET, index_name, shard_name
from schemas.record import load_schema
from trainer.config import RunConfig
from trainer.device.context import InEffect, Machine, apply, decide

CLASSES = ("across", "down", "plain")
RUN_FILES = ["best.ckpt", "config.json", "curves.svg", "last.ckpt", "metrics.jsonl", "result.json"]
RUN_FILES += ["starts.jsonl", "steps.jsonl"]
SIDE = 32

Rows = list[tuple[bytes, int, str]]
Splits = dict[str, int | list[int]]  # how many rows, or the label of each


def picture(label: int, number: int, image_format: str = "JPEG") -> bytes:
    """Stripes across, stripes down, or none, with a little noise of its own."""
    noise = np.random.default_rng([label + 9, number]).normal(0, 8, (SIDE, SIDE, 3))
    stripes = 60.0 * ((np.arange(SIDE) // 4) % 2)
    lines = {0: stripes[:, None], 1: stripes[None, :]}.get(label, np.zeros((1, 1)))
    pixels = np.clip(noise + 90 + lines[..., None], 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, image_format)
    return buffer.getvalue()


def rows(split: str, labels: int | list[int]) -> Rows:
    """One row for each label; a number stands for so many, the classes in turn."""
    given = [i % 3 for i in range(labels)] if isinstance(labels, int) else labels
    return [(picture(label, i), label, f"{split}/{i}.jpg") for i, label in enumerate(given)]


def write_shard(path: Path, content: Rows) -> None:
    from mindspore.mindrecord import FileWriter

    writer = FileWriter(str(path), 1)
    writer.set_header_size(1 << 14)
    writer.set_page_size(1 << 15)
    writer.add_schema({"image": {"type": "bytes"}, "label": {"type": "int32"}, "key": {"type": "string"}}, "test")
    writer.add_index(["label", "key"])
    writer.write_raw_data([{"image": image, "label": label, "key": key} for image, label, key in content])
    writer.commit()


def seal(
    folder: Path, splits: Splits, shards: int = 1, classes: tuple[str, ...] = CLASSES, last_image: bytes | None = None
) -> Path:
    """Write and seal a dataset of these rows; `last_image` takes the place of each split's last image.

    A label that names no class is counted as class 0, as a liar would.
    """
    folder.mkdir(parents=True)
    sealed = {}
    for split, wanted in splits.items():
        content, entries = rows(split, wanted), []
        if last_image is not None:
            content[-1] = (last_image, *content[-1][1:])
        for number in range(shards):
            name, part = shard_name(split, number, shards), content[number::shards]
            write_shard(folder / name, part)
            data, index = folder / name, folder / index_name(name)
            sizes = data.stat().st_size, file_sha256(data), index.stat().st_size, file_sha256(index)
            entries.append(Shard(name, len(part), *sizes))
        labels = [label if 0 <= label < len(classes) else 0 for _, label, _ in content]
        sealed[split] = Split(tuple(labels.count(i) for i in range(len(classes))), tuple(entries))
    found = sum(split.rows for split in sealed.values())
    pixels = PixelStats((100.0, 100.0, 100.0), (30.0, 30.0, 30.0), found)
    dataset = Dataset(load_schema("classification"), classes, sealed, found, {}, {}, {}, {}, {}, pixels)
    (folder / DATASET).write_bytes(dataset.to_json())
    return folder


@pytest.fixture(autouse=True)
def unmarked_by_others() -> Iterator[None]:
    """A test begins as if it were the first: with the seeds of a new run and the path of a new process.

    Level O1 leaves MindSpore's own folders on sys.path (measured on 2.10), among them one with a math.py: a process
    that another test starts with this path could import nothing.
    """
    before = sys.path[:]
    if mindspore := sys.modules.get("mindspore"):
        mindspore.set_seed(0)
        mindspore.dataset.config.set_seed(0)
    yield
    sys.path[:] = before


@pytest.fixture(scope="session")
def stripes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 train rows in two shards, 13 val rows. Not to be changed: make_set makes one that may be."""
    return seal(tmp_path_factory.mktemp("data") / "stripes", {"train": 48, "val": 13}, shards=2)


@pytest.fixture
def make_set(tmp_path: Path) -> Callable[..., Path]:
    """Seals a dataset of the test's own in tmp_path/set."""

    def make(splits: Splits, classes: tuple[str, ...] = CLASSES, last_image: bytes | None = None) -> Path:
        return seal(tmp_path / "set", splits, classes=classes, last_image=last_image)

    return make


@pytest.fixture(scope="session")
def cpu() -> InEffect:
    """What is in effect on CPU, applied to this process."""
    effect = decide(RunConfig(dataset="", device="CPU", workers=1, prefetch=2), Machine(ascend=False, cores=2))
    apply(effect)
    return effect


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory, stripes: Path, cpu: InEffect) -> Path:
    """A checkpoint of the model tiny with random weights, for the classes and pixels of `stripes`."""
    import mindspore

    from trainer.feed.recipes import Pixels
    from trainer.nn.models.tiny import tiny
    from trainer.runs import checkpoint

    mindspore.set_seed(1)
    path = tmp_path_factory.mktemp("untrained") / "best.ckpt"
    meta = checkpoint.Meta(
        RunConfig(str(stripes)),
        CLASSES,
        load_dataset(stripes).digest,
        Pixels(32, (100.0,) * 3, (30.0,) * 3),
        1,
        1,
        None,
    )
    checkpoint.save(path, tiny(len(CLASSES)), meta)
    return path
