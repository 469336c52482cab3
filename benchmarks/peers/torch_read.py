"""Pipelines of torch: python -m benchmarks.peers.torch_read FOLDER webdataset|mds. FOLDER is what its writer wrote."""

import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers.epoch import epoch
from benchmarks.peers.folder import BATCH, MEAN, SIDE, STD

BUFFER = 1000  # rows that WebDataset shuffles among


def transform() -> Any:
    """torchvision's counterpart of the trainer's recipe, after Pillow's decoder."""
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIDE, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([value / 255 for value in MEAN], [value / 255 for value in STD]),
        ]
    )


def webdataset(folder: Path, workers: int) -> Iterable[Any]:
    """Its fluid interface, with a worker a core."""
    import webdataset as wds

    shards = [str(path) for path in sorted(folder.glob("*.tar"))]
    rows = wds.WebDataset(shards, shardshuffle=len(shards)).shuffle(BUFFER).decode("pil").to_tuple("jpg", "cls")
    rows = rows.map_tuple(transform(), int).batched(BATCH, partial=False)
    loader: Iterable[Any] = wds.WebLoader(rows, batch_size=None, num_workers=workers)
    return loader


def mds(folder: Path, workers: int) -> Iterable[Any]:
    """A StreamingDataset on local files in a DataLoader, with a worker a core."""
    from PIL import Image
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    class Images(StreamingDataset):
        """Rows as pixels."""

        def __init__(self) -> None:
            super().__init__(local=str(folder), shuffle=True, batch_size=BATCH)
            self.transform = transform()

        def __getitem__(self, index: Any) -> Any:
            row = super().__getitem__(index)
            return self.transform(Image.open(io.BytesIO(row["image"])).convert("RGB")), row["label"]

    loader: Iterable[Any] = DataLoader(Images(), batch_size=BATCH, num_workers=workers, drop_last=True)
    return loader


def main() -> None:
    """Read an epoch."""
    import torchvision  # noqa: F401 - part of the start-up

    kind = {"webdataset": webdataset, "mds": mds}[sys.argv[2]]
    epoch(lambda: kind(Path(sys.argv[1]), os.cpu_count() or 1))


if __name__ == "__main__":
    main()
