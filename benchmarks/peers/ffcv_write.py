"""FFCV's DatasetWriter with JPEGs kept: python -m benchmarks.peers.ffcv_write IMAGES OUT."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.folder import labelled, started, sync, tell


class Images:
    """The indexed dataset that its writer asks for: a JPEG's bytes as an array, and its label."""

    def __init__(self, images: Path) -> None:
        self.files = labelled(images)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.files[index]
        return np.frombuffer(path.read_bytes(), np.uint8), label


def main() -> None:
    """Write all images, bytes as they are, with a worker a core."""
    from ffcv.fields import BytesField, IntField
    from ffcv.writer import DatasetWriter

    begun = started()
    images, out = Path(sys.argv[1]), Path(sys.argv[2])
    # Its image field would decode each picture; the bytes field keeps it, as the others do.
    fields = {"image": BytesField(), "label": IntField()}
    writer = DatasetWriter(str(out / "train.beton"), fields, num_workers=os.cpu_count())
    writer.from_indexed_dataset(Images(images))
    sync(out)
    tell(begun)


if __name__ == "__main__":
    main()
