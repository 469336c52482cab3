"""Large sets of tiny images, made without one file an image.

python -m benchmarks.peers.tiny rows FOLDER COUNT: a sealed set of so many rows, in FOLDER/set
python -m benchmarks.peers.tiny files FOLDER COUNT: so many files in class folders, hard links to a few
"""

import io
import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from PIL import Image

from dataprep.build.worker import describe_shard
from dataprep.mindrecord.writer import ShardWriter
from dataprep.plan import sizes
from schemas.dataset import Dataset, Shard, Split
from schemas.layout import DATASET, shard_name
from schemas.record import load_schema

VARIANTS = 256
LINKS = 50_000  # file systems allow some 65,000 names a file
CLASSES, CLASS_FOLDERS = 10, 1000
SIDE = 32


def jpegs(count: int, side: int = SIDE) -> list[bytes]:
    """Small JPEGs of `side` pixels, each different."""
    rng = random.Random(0)
    found = []
    for _ in range(count):
        buffer = io.BytesIO()
        Image.frombytes("RGB", (8, 8), rng.randbytes(192)).resize((side, side)).save(buffer, "JPEG")
        found.append(buffer.getvalue())
    return found


def make_rows(folder: Path, count: int) -> None:
    """A sealed set of `count` rows, with the shards and pages that `dataprep shard` would choose."""
    folder.mkdir()
    size = sum(map(len, jpegs(VARIANTS))) // VARIANTS * count
    shards = sizes.shard_count(size, size, sizes.shard_size(size), None)
    bounds = [count * number // shards for number in range(shards + 1)]
    with ProcessPoolExecutor() as pool:
        made = list(pool.map(_shard, *zip(*((folder, bounds, number) for number in range(shards)), strict=True)))
    rows = [len(range(label, count, CLASSES)) for label in range(CLASSES)]
    dataset = Dataset(
        schema=load_schema("classification"),
        classes=tuple(f"c{label}" for label in range(CLASSES)),
        splits={"train": Split(tuple(rows), tuple(made))},
        found=count,
        rejected={},
        ignored={},
        changed={},
        policy={},
        plan={},
    )
    (folder / DATASET).write_bytes(dataset.to_json())


def _shard(folder: Path, bounds: list[int], number: int) -> Shard:
    images = jpegs(VARIANTS)
    count = len(bounds) - 1
    names = [shard_name("train", each, count) for each in range(count)]
    rows = bounds[1]
    geometry = sizes.geometry(rows * (len(images[0]) + sizes.ROW_OVERHEAD), max(map(len, images)), count)
    with ShardWriter(folder, names, number, load_schema("classification"), geometry) as writer:
        for row in range(bounds[number], bounds[number + 1]):
            label = row % CLASSES
            writer.write({"image": images[row % VARIANTS], "label": label, "key": f"c{label}/{row:09d}.jpg"})
        writer.finish()
    return describe_shard(writer.path, writer.rows)


def make_files(folder: Path, count: int) -> None:
    """`count` files in CLASS_FOLDERS folders below `folder`/set, and what they are links to below `folder`/real."""
    real = folder / "real"
    real.mkdir()
    sources = [real / f"{number}.jpg" for number in range(max(VARIANTS, -(-count // LINKS)))]
    for source, image in zip(sources, jpegs(len(sources)), strict=True):
        source.write_bytes(image)
    for number in range(CLASS_FOLDERS):
        (folder / "set" / f"class{number:04d}").mkdir(parents=True)
    for number in range(count):
        name = f"class{number % CLASS_FOLDERS:04d}/{number:09d}.jpg"
        os.link(sources[number % len(sources)], folder / "set" / name)


if __name__ == "__main__":
    if sys.argv[1] == "rows":
        make_rows(Path(sys.argv[2]) / "set", int(sys.argv[3]))
    else:
        make_files(Path(sys.argv[2]), int(sys.argv[3]))
