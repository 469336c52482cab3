"""Five constructed situations for `trainer doctor`: images, the options of a run, and the expected verdict.

Pictures are noise under soft colours. Few are encoded; the others are copies with a comment of their own, so that
large sets are made in seconds and no two files are equal.
"""

import io
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.measure import ROOT, module

CLASSES = 4
ENCODED = 8  # different pictures; the rest are copies of them
RECIPE = '''"""A recipe with an operator in Python, as users write them."""

import numpy as np
from mindspore.dataset import vision

from trainer.feed.recipes import Recipe, central_crop, random_crop


def median(image):
    """Smooth over 9 x 9 neighbours, in NumPy."""
    shifts = range(-4, 5)
    return np.median([np.roll(image, (y, x), (0, 1)) for y in shifts for x in shifts], axis=0).astype(np.uint8)


def make():
    return Recipe(64, lambda size: [*random_crop(size), median], central_crop)
'''


@dataclass(frozen=True)
class Situation:
    """A run with a known bottleneck. `side` is that of the `count` stored images in pixels (width, height).

    `bound` is the expected verdict, `slowest` the expected part of the feed (None: any), `remedy` the prefix of the
    recommended flags (None: no recommendation). `slow_disk` is in bytes per second. The first `warm_steps` of a run
    are not timed: their batches were prefetched while the first step compiled.
    """

    name: str
    side: tuple[int, int]
    count: int
    options: tuple[str, ...]
    bound: str
    slowest: str | None
    remedy: str | None
    batch_size: int
    quality: int = 90
    slow_disk: int | None = None
    warm_steps: int = 12


SITUATIONS = (
    Situation(
        "large images", (4000, 3000), 240, ("--model", "tiny", "--recipe", "imagenet", "--image-size", "64"),
        "feed", "decode", "dataprep shard ... --resize", 8,
    ),
    Situation(
        "large model on small images", (64, 64), 800, ("--model", "resnet50", "--image-size", "32"),
        "compute", None, None, 8, warm_steps=3,
    ),
    Situation("Python operator", (160, 120), 24000, ("--recipe", "own:make"), "feed", "augment", "--recipe", 32),
    Situation(
        "O2 on CPU", (64, 64), 800, ("--model", "resnet18", "--amp-level", "O2", "--image-size", "32"),
        "compute", None, "--amp-level O0", 16, warm_steps=3,
    ),
    # More than the 2 GiB up to which a run hashes every byte first, and so reads the set into the cache.
    Situation(
        "slow disk", (600, 500), 5600, ("--recipe", "imagenet", "--image-size", "64"),
        "feed", "read", "copy the shards", 4, quality=98, slow_disk=2_000_000,
    ),
)  # fmt: skip


def build(situation: Situation, folder: Path) -> Path:
    """Make the images and the dataset of a situation in `folder`, unless they exist; return the dataset."""
    sealed = folder / "set"
    if not sealed.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        draw(folder / "images", situation)
        shard(folder / "images", sealed)
    (folder / "own.py").write_text(RECIPE)
    return sealed


def shard(images: Path, out: Path, *options: str) -> None:
    """Shard the images without a val split. Raises CalledProcessError."""
    command = [*module("dataprep", "shard", images, out, "--val", "0", "--prove", "off", "--quiet"), *options]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)


def draw(folder: Path, situation: Situation) -> None:
    """Write the images of a situation in class folders, the same ones each time."""
    pictures = [_jpeg(number, situation) for number in range(min(ENCODED, situation.count))]
    for number in range(situation.count):
        place = folder / f"c{number % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        comment = f"picture {number}".encode()
        marked = b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment
        data = pictures[number % len(pictures)]
        (place / f"{number:05d}.jpg").write_bytes(data[:2] + marked + data[2:])


def _jpeg(seed: int, situation: Situation) -> bytes:
    width, height = situation.side
    random = np.random.default_rng(seed)
    soft = Image.fromarray(random.integers(0, 255, (6, 8, 3), dtype=np.uint8)).resize((width, height), Image.BICUBIC)
    noise = random.normal(0, 12 if situation.slow_disk is None else 40, (height, width, 3))
    pixels = np.clip(np.asarray(soft) + noise, 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=situation.quality)
    return buffer.getvalue()


class SlowDisk:
    """A control group (version 1, blkio) that limits the reads of its processes, in bytes per second."""

    def __init__(self, folder: Path, bytes_per_s: int) -> None:
        """Create the group; raise OSError if this machine does not allow it."""
        device = os.stat(folder).st_dev
        self.group = Path("/sys/fs/cgroup/blkio") / f"doctor_situation_{os.getpid()}"
        self.group.mkdir()
        limit = f"{os.major(device)}:{os.minor(device)} {bytes_per_s}"
        (self.group / "blkio.throttle.read_bps_device").write_text(limit)

    def enter(self) -> None:
        """Put this process into the group. Called in the child before it runs."""
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def close(self) -> None:
        """Remove the group; its processes have ended."""
        self.group.rmdir()


def forget(folder: Path) -> None:
    """Drop the files of a folder from the cache of the system."""
    for path in folder.iterdir():
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def with_remedy(flags: str, folder: Path, fast: Path) -> tuple[Path, Sequence[str]]:
    """Apply the recommendation of the doctor; return the dataset to train on and further options of the run.

    `fast` is a folder on another disk, for a copy.
    """
    sealed = folder / "set"
    if flags.startswith("dataprep shard ..."):
        other = folder / "resized"
        shutil.rmtree(other, ignore_errors=True)
        shard(folder / "images", other, *flags.removeprefix("dataprep shard ...").split())
        return other, ()
    if flags.startswith("copy the shards"):
        shutil.rmtree(fast / "set", ignore_errors=True)
        return shutil.copytree(sealed, fast / "set"), ()
    return sealed, flags.split()
