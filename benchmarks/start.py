"""Start-up time of the programs, and memory of a worker."""

import argparse
import shutil
import sys
from pathlib import Path

from benchmarks.measure import module
from benchmarks.suite import Suite, Way
from benchmarks.write import shard

IMAGES = 10


def start_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """Return help texts, a job of ten images, and a larger one whose workers are watched."""
    few = _few(asked.images, work / "few")
    return Suite(
        "start",
        (
            Way("python alone", lambda out: [sys.executable, "-c", "pass"]),
            Way("dataprep --help", lambda out: module("dataprep", "--help")),
            Way("dataprep shard --help", lambda out: module("dataprep", "shard", "--help")),
            Way("trainer --help", lambda out: module("trainer", "--help")),
            Way("import mindspore", lambda out: [sys.executable, "-c", "import mindspore"]),
            Way("shard ten images, --prove off", lambda out: shard(few, out, "--prove", "off")),
            Way("shard ten images", lambda out: shard(few, out)),
            Way("shard all, --prove off", lambda out: shard(asked.images, out, "--prove", "off"), watch=True),
            Way("shard all", lambda out: shard(asked.images, out), watch=True),
        ),
        by=("wall_s", "peak_mb"),
    )


def _few(images: Path, folder: Path) -> Path:
    """Return a folder with ten of the images, in two classes."""
    files = sorted(path for path in images.rglob("*") if path.is_file())[:IMAGES]
    for number, path in enumerate(files):
        target = folder / f"class{number % 2}" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return folder
