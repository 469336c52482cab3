"""The folder of a run, what lies in it, and the scratch folder that keeps MindSpore's litter out of the user's way."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trainer.errors import TrainerError

RUNS = Path("runs")
CONFIG = "config.json"
METRICS = "metrics.jsonl"
STEPS = "steps.jsonl"
CURVES = "curves.svg"
BOARD = "tensorboard"
PROFILE = "profile"
BEST = "best.ckpt"
LAST = "last.ckpt"


def next_run_folder(out: str | None, dataset_folder: Path) -> Path:
    """Where a run will go: `out`, or runs/<dataset folder name>-<n> with the first n that is free. Creates nothing."""
    if out is not None:
        return Path(out).resolve()
    number = 1
    while os.path.lexists(folder := RUNS / f"{dataset_folder.name or 'dataset'}-{number}"):
        number += 1
    return folder.resolve()


@contextlib.contextmanager
def run_folder(out: str | None, dataset_folder: Path) -> Iterator[Path]:
    """Create the run's folder for what happens inside; taken away again when nothing was written to it.

    Raises TrainerError rather than touch an earlier run.
    """
    folder = _make(out, dataset_folder)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # rmdir takes away an empty folder only
            folder.rmdir()
            if out is None:
                folder.parent.rmdir()


def _make(out: str | None, dataset_folder: Path) -> Path:
    while True:
        folder = next_run_folder(out, dataset_folder)
        if folder.is_relative_to(dataset_folder):
            raise TrainerError(f"{folder} lies inside the dataset; give --out a folder elsewhere")
        try:
            folder.mkdir(parents=True, exist_ok=folder.is_dir() and not any(folder.iterdir()))
            return folder
        except FileExistsError:
            if out is not None:  # otherwise another run took the number in this moment
                raise TrainerError(f"{folder} is there already; give --out another name, or leave it out") from None
        except OSError as error:
            raise TrainerError(f"cannot make the run folder {folder}: {error.strerror}") from None


@contextlib.contextmanager
def throw_away_folder() -> Iterator[Path]:
    """A run's folder for a rank that writes nothing of its own; removed at the end."""
    with tempfile.TemporaryDirectory(prefix="trainer-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def scratch(parent: Path | None) -> Iterator[None]:
    """Work in a folder of its own, removed at the end: MindSpore drops rank_0/, kernel_meta/, rewritten_network/ and
    images it could not decode into the working directory. `parent` None means the system's temporary folder.
    """
    home = Path.cwd()
    folder = tempfile.mkdtemp(prefix=".scratch-", dir=parent)
    try:
        os.chdir(folder)
        yield
    finally:
        os.chdir(home)
        shutil.rmtree(folder, ignore_errors=True)
