"""Reading: one epoch of random 224-pixel crops, flipped, normalised, in batches of 64."""

import argparse
import os
from pathlib import Path

from benchmarks.measure import module
from benchmarks.suite import Need, Suite, Way
from benchmarks.write import KEPT, RESIZED, STREAMING, WEBDATASET, shard

TORCH = Need("torch", "torch")
TORCHVISION = Need("torchvision", "torchvision")
OURS = "trainer, its own settings"
HAND = "MindDataset by hand"
DEFAULT_PREFETCH = 16  # MindSpore's


def read_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """Return the trainer's pipeline, hand-written ones with many settings, and other sources of the same batches."""
    images: Path = asked.images
    cores = len(os.sched_getaffinity(0))
    return Suite(
        "read",
        (
            Way(OURS, lambda out: _trainer(work / "sealed"), sets=("sealed",)),
            Way("trainer, set resized to 256", lambda out: _trainer(work / "resized"), sets=("resized",)),
            *(_by_hand(work / "sealed" / "set", *settings) for settings in _settings(cores)),
            Way("ImageFolderDataset", lambda out: _mindspore(images, "folder", cores, cores, DEFAULT_PREFETCH)),
            Way(
                "GeneratorDataset with Pillow",
                lambda out: _mindspore(images, "generator", cores, cores, DEFAULT_PREFETCH),
            ),
            _torch(work, "WebDataset, torch", "webdataset", WEBDATASET),
            _torch(work, "MDS (Streaming), torch", "mds", STREAMING),
        ),
        # CPU is that of the whole process less its start-up: workers of some pipelines end after the epoch.
        by=("epoch_s", "work_cpu_s"),
        sets={
            "sealed": (lambda folder: shard(images, folder, "--val", "0", *KEPT), ()),
            "resized": (lambda folder: shard(images, folder, "--val", "0", *RESIZED), ()),
            "webdataset": (lambda folder: module("benchmarks.peers.webdataset_write", images, folder), (WEBDATASET,)),
            "mds": (lambda folder: module("benchmarks.peers.mds_write", images, folder), (STREAMING,)),
        },
        extra={
            "epoch_s: trainer / best by hand": lambda seen: (
                seen[OURS]["epoch_s"] / min(found["epoch_s"] for name, found in seen.items() if name.startswith(HAND))
            )
        },
    )


def _settings(cores: int) -> list[tuple[int, int, int]]:
    """Return (reading workers, mapping workers, prefetch) that a careful user would try."""
    workers = sorted({1, max(1, cores // 2), cores})
    tried = [(1, mapping, DEFAULT_PREFETCH) for mapping in workers]
    return [*tried, (1, cores, 8), *((cores, cores, prefetch) for prefetch in (2, 8, DEFAULT_PREFETCH))]


def _by_hand(folder: Path, readers: int, mappers: int, prefetch: int) -> Way:
    name = f"{HAND}: {readers} reading, {mappers} mapping, prefetch {prefetch}"
    return Way(name, lambda out: _mindspore(folder, "mindrecord", readers, mappers, prefetch), sets=("sealed",))


def _trainer(folder: Path) -> list[str]:
    return module("benchmarks.peers.trainer_read", folder / "set")


def _mindspore(source: Path, kind: str, readers: int, mappers: int, prefetch: int) -> list[str]:
    return module("benchmarks.peers.mindspore_read", source, kind, readers, mappers, prefetch)


def _torch(work: Path, name: str, kind: str, need: Need) -> Way:
    command = module("benchmarks.peers.torch_read", work / kind, kind)
    return Way(name, lambda out: command, (need, TORCH, TORCHVISION), (kind,))
