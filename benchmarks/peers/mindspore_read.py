"""Pipelines of MindSpore, written by hand, with the transforms of the trainer's recipe.

python -m benchmarks.peers.mindspore_read SOURCE mindrecord|folder|generator READERS MAPPERS PREFETCH
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers.epoch import epoch
from benchmarks.peers.folder import BATCH, MEAN, SIDE, STD, labelled


class Pictures:
    """The source that tutorials have their readers write: opened and decoded by Pillow, in Python workers."""

    def __init__(self, images: Path) -> None:
        self.files = labelled(images)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        import numpy as np
        from PIL import Image

        path, label = self.files[index]
        return np.array(Image.open(path).convert("RGB")), np.int32(label)


def transforms(decoded: bool = False) -> list[Any]:
    """The trainer's recipe, for bytes or for pixels: the fused operator wants bytes."""
    from mindspore.dataset import vision

    crop = vision.RandomResizedCrop if decoded else vision.RandomCropDecodeResize
    return [
        crop((SIDE, SIDE), scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)),
        vision.RandomHorizontalFlip(),
        vision.Normalize(mean=MEAN, std=STD),
        vision.HWC2CHW(),
    ]


def main() -> None:
    """Read an epoch."""
    import mindspore.dataset as ds

    source, kind = Path(sys.argv[1]), sys.argv[2]
    readers, mappers, prefetch = (int(value) for value in sys.argv[3:])

    def rows() -> Any:
        if kind == "folder":
            return ds.ImageFolderDataset(str(source), num_parallel_workers=readers, shuffle=True)
        if kind == "generator":
            return ds.GeneratorDataset(Pictures(source), ["image", "label"], num_parallel_workers=readers, shuffle=True)
        files = [str(path) for path in sorted(source.glob("train.mindrecord*")) if path.suffix != ".db"]
        return ds.MindDataset(files, ["image", "label"], num_parallel_workers=readers, shuffle=True)

    def batches() -> Iterable[Any]:
        ds.config.set_prefetch_size(prefetch)
        ds.config.set_num_parallel_workers(mappers)
        images = transforms(decoded=kind == "generator")
        mapped = rows().map(images, "image", num_parallel_workers=mappers).batch(BATCH, drop_remainder=True)
        iterator: Iterable[Any] = mapped.create_tuple_iterator(num_epochs=1, output_numpy=True)
        return iterator

    epoch(batches)


if __name__ == "__main__":
    main()
