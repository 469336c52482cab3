"""Writing: images to a dataset on disk, and the cost of the decode check."""

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import module
from benchmarks.suite import Medians, Need, Suite, Way

WEBDATASET = Need("webdataset", "webdataset")
STREAMING = Need("streaming", "mosaicml-streaming")
TFRECORD = Need("tfrecord", "tfrecord")
FFCV = Need("ffcv", "ffcv")
SIMPLEJPEG = Need("simplejpeg", "simplejpeg")

KEPT = ("--prove", "off", "--check", "header")
RESIZED = ("--resize", "256", "--quality", "90", "--prove", "off")
PARALLEL_TIMEOUT_S = 180.0  # FileWriter's parallel mode waits for ever for a worker that has died
COPY = 'cp -r -- "$0" "$1/copy" && find "$1" -type f -exec sync {} +'


def shard(images: Path, out: Path, *options: str) -> list[str]:
    """Return the command that shards all images, however many are rejected."""
    anything = ("--max-rejects", "100%", "--max-class-loss", "100%")
    return [*module("dataprep", "shard", images, out / "set"), *options, *anything, "--quiet"]


def ours(name: str, images: Path, *options: str) -> Way:
    """Return `dataprep shard` with some options."""
    return Way(name, lambda out: shard(images, out, *options))


def peer(name: str, script: str, images: Path, *extra: str, needs: tuple[Need, ...] = ()) -> Way:
    """Return a script of benchmarks/peers, with the images and an output folder as arguments."""
    return Way(name, lambda out: module(f"benchmarks.peers.{script}", images, out, *extra), needs)


def decoder(name: str, kind: str, images: Path, needs: tuple[Need, ...] = ()) -> Way:
    """Return one decode of each image."""
    return Way(name, lambda out: module("benchmarks.peers.decode", kind, images, out), needs)


def write_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """Return our writer, its peers, and the lower bound for any writer. All end with synced files."""
    images: Path = asked.images
    parallel = peer("FileWriter, parallel, 16 shards", "file_writer", images, "16", "parallel")
    return Suite(
        "write",
        (
            ours("shard, bytes kept, headers checked", images, *KEPT),
            ours("shard, bytes kept, headers checked, one worker", images, *KEPT, "--workers", "1"),
            ours("shard, as it comes: decoded and proved", images),
            ours("shard, resized to 256", images, *RESIZED),
            peer("FileWriter, 16 shards", "file_writer", images, "16"),
            peer("FileWriter, 1 shard", "file_writer", images, "1"),
            Way(parallel.name, parallel.command, rounds=1, timeout_s=PARALLEL_TIMEOUT_S),
            peer("WebDataset", "webdataset_write", images, needs=(WEBDATASET,)),
            peer("MDS (Streaming)", "mds_write", images, needs=(STREAMING,)),
            peer("TFRecord", "tfrecord_write", images, needs=(TFRECORD,)),
            peer("FFCV", "ffcv_write", images, needs=(FFCV,)),
            Way("limit: cp -r and sync", lambda out: ["sh", "-c", COPY, str(images), str(out)]),
            decoder("limit: one decode by Pillow", "pillow", images),
            decoder("limit: one decode by libjpeg-turbo", "simplejpeg", images, (SIMPLEJPEG,)),
            decoder("limit: decode small, resize to 256, encode", "resize", images),
        ),
    )


def prove_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """Return sharding with each kind of --prove, and one full decode of the same images."""
    images: Path = asked.images
    return Suite(
        "prove",
        (
            ours("prove off", images, "--prove", "off"),
            ours("prove rows", images, "--prove", "rows"),
            ours("prove decode", images, "--prove", "decode"),
            decoder("one decode by Pillow", "pillow", images),
            decoder("one decode by MindSpore", "mindspore", images),
        ),
        extra={
            f"{by}: (prove decode - prove off) / {way}": gate(by, way)
            for way in ("one decode by Pillow", "one decode by MindSpore")
            for by in ("wall_s", "cpu_s")
        },
    )


def gate(by: str, way: str) -> Callable[[Medians], float]:
    """Return the cost of the decode check, in decodes."""
    return lambda seen: (seen["prove decode"][by] - seen["prove off"][by]) / seen[way][by]
