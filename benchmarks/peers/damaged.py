"""A sealed set of one shard of small images with one kind of damage, and the two commands that look at it.

python -m benchmarks.peers.damaged make FOLDER ROWS SIDE DAMAGE
python -m benchmarks.peers.damaged verify|salvage FOLDER NEW: its seconds without start-up, as JSON
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.tiny import CLASSES, VARIANTS, jpegs
from dataprep.build.row_digests import stored_digest
from dataprep.build.workdir import save_row_digests, write_whole
from dataprep.build.worker import describe_shard
from dataprep.mindrecord.format import HEADER_SIZES, PAGE_SIZES, PREFIX, Geometry
from dataprep.mindrecord.writer import ShardWriter
from dataprep.tools.salvage import salvage
from dataprep.tools.verify import verify
from schemas.dataset import Dataset, Split
from schemas.layout import DATASET, DUPLICATES, REJECTS, ROW_DIGESTS, index_name
from schemas.record import load_schema

SHARD = "train.mindrecord0"
# All rows that fit lie in one page of the largest size: what a damaged length costs grows with the rows of a page.
GEOMETRY = Geometry(HEADER_SIZES[0], PAGE_SIZES[1])
DAMAGES = ("sound", "a byte of an image", "a byte of a length", "a byte of an image and no index", "no row digests")


def make(folder: Path, rows: int, side: int, damage: str) -> None:
    """Write and seal the set, of images of `side` pixels, then damage its middle row."""
    folder.mkdir()
    images = jpegs(VARIANTS, side)
    with ShardWriter(folder, [SHARD], 0, load_schema("classification"), GEOMETRY) as writer:

        def digests() -> Iterator[bytes]:
            for row in range(rows):
                label = row % CLASSES
                values = {"image": images[row % VARIANTS], "label": label, "key": f"c{label}/{row:09d}.jpg"}
                yield stored_digest(writer.write(values))

        sealed = save_row_digests(folder, digests())
        writer.finish()
    class_rows = tuple(len(range(label, rows, CLASSES)) for label in range(CLASSES))
    dataset = Dataset(
        schema=load_schema("classification"),
        classes=tuple(f"c{label}" for label in range(CLASSES)),
        splits={"train": Split(class_rows, (describe_shard(writer.path, rows),))},
        found=rows,
        rejected={},
        ignored={},
        changed={},
        policy={},
        plan={},
        row_digests=sealed,
    )
    for name in (REJECTS, DUPLICATES):
        write_whole(folder / name, b"")
    write_whole(folder / DATASET, dataset.to_json())
    spoil(folder, damage, rows, images)


def spoil(folder: Path, damage: str, rows: int, images: list[bytes]) -> None:
    """Do one kind of damage to a set."""
    if damage == DAMAGES[0]:
        return
    row_bytes = [PREFIX.size + len(image) for image in images]
    in_page = min(rows, GEOMETRY.page_size * VARIANTS // sum(row_bytes))
    before = sum(row_bytes[row % VARIANTS] for row in range(in_page // 2))
    at = GEOMETRY.header_size + before + (1 if "length" in damage else PREFIX.size + 100)
    with (folder / SHARD).open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    if "no index" in damage:
        (folder / index_name(SHARD)).unlink()
    if "digests" in damage:
        (folder / ROW_DIGESTS).unlink()


def look(task: str, folder: Path, new: Path) -> None:
    """Run one command and print its seconds."""
    started = time.perf_counter()
    if task == "verify":
        verdict = verify(folder)
        print({name: len(rows) for name, rows in verdict.damaged.items()}, *verdict.problems)
    else:
        salvaged = salvage(folder, new)
        print(salvaged.lost, salvaged.unchecked)
    print(json.dumps({"task_s": time.perf_counter() - started}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        look(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
