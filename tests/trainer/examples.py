"""Helpers of the trainer's tests: striped images, and small sealed datasets written by MindSpore's FileWriter."""

import io
import os
from pathlib import Path

os.environ.setdefault("GLOG_v", "3")

import numpy as np
from PIL import Image

from schemas.dataset import Dataset, PixelStats, Shard, Split, file_sha256
from schemas.layout import DATASET, index_name, shard_name
from schemas.record import load_schema

CLASSES = ("across", "down", "plain")
RUN_FILES = ["best.ckpt", "config.json", "curves.svg", "last.ckpt", "metrics.jsonl", "result.json"]
RUN_FILES += ["starts.jsonl", "steps.jsonl"]
SIDE = 32

Rows = list[tuple[bytes, int, str]]
Splits = dict[str, int | list[int]]  # the number of rows, or the label of each


def picture(label: int, number: int, image_format: str = "JPEG") -> bytes:
    """Return an encoded image: stripes across (label 0), stripes down (1) or none, with a little random noise."""
    noise = np.random.default_rng([label + 9, number]).normal(0, 8, (SIDE, SIDE, 3))
    stripes = 60.0 * ((np.arange(SIDE) // 4) % 2)
    lines = {0: stripes[:, None], 1: stripes[None, :]}.get(label, np.zeros((1, 1)))
    pixels = np.clip(noise + 90 + lines[..., None], 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, image_format)
    return buffer.getvalue()


def rows(split: str, labels: int | list[int]) -> Rows:
    """Return one row per label; a number n stands for n rows with the labels 0, 1, 2, 0, ..."""
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
    """Write and seal a dataset of these rows; `last_image` replaces the last image of each split.

    A label outside the classes is counted as class 0, as in a forged dataset.
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
