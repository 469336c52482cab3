"""The folder of a run, what lies in it, and the scratch folder that keeps MindSpore's litter out of the user's way."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from schemas.storage.files import naming, until_uninterrupted
from trainer.errors import Busy, TrainerError, disk_error

RUNS = Path("runs")
CONFIG = "config.json"
STARTS = "starts.jsonl"
METRICS = "metrics.jsonl"
STEPS = "steps.jsonl"
CURVES = "curves.svg"
BOARD = "tensorboard"
PROFILE = "profile"
BEST = "best.ckpt"
LAST = "last.ckpt"
RESULT = "result.json"  # written last: where it is, the run is complete
NONFINITE = "nonfinite.json"
EVALUATIONS = "eval"  # a folder for each split that was evaluated
SCRATCH = ".scratch-"


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
    """Create the run's folder for what happens inside; taken away again when nothing was written to it, or nothing but
    how it began: a run that failed before its first step does not stand in the way of the command that is right.

    A folder that holds a run is entered as it is; Busy is raised when a process works in it. Raises TrainerError for
    a folder that holds anything else.
    """
    folder = _make(out, dataset_folder)
    try:
        with _locked(folder):
            _sweep(folder)
            begun = holds_run(folder)
            try:
                yield folder
            finally:
                if not begun:
                    with contextlib.suppress(OSError):  # what ended the run is told
                        _forget_beginning(folder)
    finally:
        with contextlib.suppress(OSError):  # rmdir removes an empty folder only
            folder.rmdir()
            if out is None:
                folder.parent.rmdir()


def _forget_beginning(folder: Path) -> None:
    """Empty a folder in which a run has come to nothing: no step was noted and no checkpoint written."""
    paths = list(folder.iterdir())
    if all(path.name in (CONFIG, STARTS, BOARD) or (path.name == STEPS and not path.stat().st_size) for path in paths):
        shutil.rmtree(folder / BOARD, ignore_errors=True)
        for name in (STARTS, STEPS, CONFIG):
            (folder / name).unlink(missing_ok=True)


def check_place(out: str | None, dataset_folder: Path) -> Path:
    """Where a run will go, see next_run_folder. Raises TrainerError when it may not go there. Creates nothing."""
    folder = next_run_folder(out, dataset_folder)
    if folder.is_relative_to(dataset_folder):
        raise TrainerError(f"{folder} lies inside the dataset; give --out a folder elsewhere")
    if os.path.lexists(folder) and not _may_enter(folder) and out is not None:
        raise TrainerError(_taken(folder))
    return folder


@until_uninterrupted
def _make(out: str | None, dataset_folder: Path) -> Path:
    while True:
        folder = check_place(out, dataset_folder)
        try:
            folder.mkdir(parents=True, exist_ok=_may_enter(folder))
            return folder
        except FileExistsError:
            if out is not None:  # otherwise another run took the number in this moment
                raise TrainerError(_taken(folder)) from None
        except OSError as error:
            raise disk_error(error, f"cannot make the run folder {folder}") from None


def holds_run(folder: Path) -> bool:
    """Whether a run was begun in the folder."""
    return (folder / CONFIG).is_file()


def _taken(folder: Path) -> str:
    return f"{folder} is there already; give --out another name, or leave it out"


def _may_enter(folder: Path) -> bool:
    return folder.is_dir() and (holds_run(folder) or _is_vacant(folder))


def _is_vacant(folder: Path) -> bool:
    return all(_is_litter(path) for path in folder.iterdir())


def _is_litter(path: Path) -> bool:
    return path.name.startswith(".") and (path.name.startswith(SCRATCH) or path.suffix in (".ckpt", ".part", ".tmp"))


@until_uninterrupted
def _sweep(folder: Path) -> None:
    """Take away what a killed process has left half done."""
    for path in [path for path in folder.iterdir() if _is_litter(path)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    # The folder itself is locked: no file that could be left over, and the system unlocks it when the process dies.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            with naming(folder):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another process is training in {folder}; try again when it has ended") from None
        yield
    finally:
        with contextlib.suppress(OSError):  # the lock is gone with the process at the latest
            os.close(descriptor)


def append_line(path: Path, line: str, durable: bool = True) -> int:
    """Append a line and, where it must be `durable`, wait until it is on the disk; return the length of the file.

    A line that an earlier process could not write whole gets its end first, so that it costs no other.
    """
    with naming(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        with open(descriptor, "ab", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            broken = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            left = (b"\n" if broken else b"") + line.encode() + b"\n"
            while left:
                left = left[file.write(left) or 0 :]
            if durable:
                os.fsync(descriptor)
            return os.fstat(descriptor).st_size


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
    folder = tempfile.mkdtemp(prefix=SCRATCH, dir=parent)
    try:
        os.chdir(folder)
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder is gone; nothing is done there any more
            os.chdir(home)
        shutil.rmtree(folder, ignore_errors=True)
