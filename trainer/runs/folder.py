"""The run folder (file names, locking, cleaning), and the scratch folder for files that MindSpore writes."""

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
OLDER = "step-{:09d}.ckpt"  # used if --keep is above 1; the number is the step
RESULT = "result.json"  # written last, so a run with this file is complete
NONFINITE = "nonfinite.json"
AUTOTUNE_CONFIG = "autotune.toml"  # file for --config of the next run
AUTOTUNE_REPORT = "autotune.json"  # MindSpore's report, unchanged
EVALUATIONS = "eval"  # has one folder per evaluated split, with the files of the next three lines
EVALUATION, CLASSES, CONFUSION, WORST = "report.json", "classes.csv", "confusion.csv", "worst.csv"
PICTURES = "worst"  # folder with thumbnails of the worst rows
PAGE = "report.html"
SCRATCH = ".scratch-"


def older_checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints whose file names contain the step, oldest first."""
    return sorted(run.glob("step-*.ckpt"))


def partial_checkpoint(path: Path) -> Path:
    """Return the temporary path under which this process writes the checkpoint `path`."""
    return path.with_name(f".{path.stem}-{os.getpid()}.ckpt")


def next_run_folder(out: str | None, dataset_folder: Path) -> Path:
    """Return the path of a new run: `out`, or runs/<dataset name>-<n> with the first free n. No folder is created."""
    if out is not None:
        return Path(out).resolve()
    number = 1
    while os.path.lexists(folder := RUNS / f"{dataset_folder.name or 'dataset'}-{number}"):
        number += 1
    return folder.resolve()


@contextlib.contextmanager
def run_folder(out: str | None, dataset_folder: Path) -> Iterator[Path]:
    """Create the run folder unless it exists, lock the folder, and yield its path.

    A new folder is removed again if the run fails before its first step. Raises Busy if another process uses the
    folder, and TrainerError if the folder contains anything but a run.
    """
    folder = _make(out, dataset_folder)
    try:
        with _locked(folder):
            _sweep(folder)
            existing = contains_run(folder)
            try:
                yield folder
            finally:
                if not existing:
                    with contextlib.suppress(OSError):  # the error that ended the run is reported instead
                        _remove_start(folder)
    finally:
        with contextlib.suppress(OSError):  # rmdir removes only empty folders
            folder.rmdir()
            if out is None:
                folder.parent.rmdir()


def _remove_start(folder: Path) -> None:
    """Remove the files of a run that logged no step and wrote no checkpoint."""
    paths = list(folder.iterdir())
    if all(path.name in (CONFIG, STARTS, BOARD) or (path.name == STEPS and not path.stat().st_size) for path in paths):
        shutil.rmtree(folder / BOARD, ignore_errors=True)
        for name in (STARTS, STEPS, CONFIG):
            (folder / name).unlink(missing_ok=True)


def check_out(out: str | None, dataset_folder: Path) -> Path:
    """Return the path from next_run_folder and create no folder. Raises TrainerError if a run may not use the path."""
    folder = next_run_folder(out, dataset_folder)
    if folder.is_relative_to(dataset_folder):
        raise TrainerError(f"{folder} is inside the dataset; give --out another folder")
    if os.path.lexists(folder) and not _may_enter(folder) and out is not None:
        raise TrainerError(_taken(folder))
    return folder


@until_uninterrupted
def _make(out: str | None, dataset_folder: Path) -> Path:
    while True:
        folder = check_out(out, dataset_folder)
        try:
            folder.mkdir(parents=True, exist_ok=_may_enter(folder))
            return folder
        except FileExistsError:
            if out is not None:  # without `out`, another run has just taken the number
                raise TrainerError(_taken(folder)) from None
        except OSError as error:
            raise disk_error(error, f"cannot create the run folder {folder}") from None


def contains_run(folder: Path) -> bool:
    """Return True if the folder contains a run."""
    return (folder / CONFIG).is_file()


def _taken(folder: Path) -> str:
    return f"{folder} already exists; give --out another name, or omit --out"


def _may_enter(folder: Path) -> bool:
    return folder.is_dir() and (contains_run(folder) or _is_vacant(folder))


def _is_vacant(folder: Path) -> bool:
    return all(_is_litter(path) for path in folder.iterdir())


def _is_litter(path: Path) -> bool:
    return path.name.startswith(".") and (path.name.startswith(SCRATCH) or path.suffix in (".ckpt", ".part", ".tmp"))


@until_uninterrupted
def _sweep(folder: Path) -> None:
    """Remove the temporary files of killed processes."""
    for path in [path for path in folder.iterdir() if _is_litter(path)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    # The folder itself is locked, so no lock file is left over. The system unlocks the folder when the process ends.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            with naming(folder):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another process is training in {folder}; try again when it has finished") from None
        yield
    finally:
        with contextlib.suppress(OSError):  # the lock ends with the process anyway
            os.close(descriptor)


def append_line(path: Path, line: str, durable: bool = True) -> int:
    """Append `line` to the file `path` and return the length of the file in bytes.

    If `durable` is True, the function waits until the line is on disk. If an earlier process left an incomplete last
    line, a newline is written first.
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
def temporary_folder() -> Iterator[Path]:
    """Yield a temporary run folder, for ranks that write no results."""
    with tempfile.TemporaryDirectory(prefix="trainer-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def scratch(parent: Path | None) -> Iterator[Path]:
    """Create a scratch folder in `parent`, make the folder the working directory, and yield its absolute path.

    The folder is removed when the `with` block ends. MindSpore writes rank_0/, kernel_meta/, rewritten_network/ and
    undecodable images to the working directory. If `parent` is None, the system's temporary folder is the parent.
    """
    before = os.getcwd()
    folder = os.path.abspath(tempfile.mkdtemp(prefix=SCRATCH, dir=parent))
    try:
        os.chdir(folder)
        yield Path(folder)
    finally:
        with contextlib.suppress(OSError):  # the previous working directory was removed
            os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
