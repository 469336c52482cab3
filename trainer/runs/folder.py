"""The run folder: names of all its files, locking and cleaning; and the scratch folder for MindSpore's own files."""

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
OLDER = "step-{:09d}.ckpt"  # with --keep above 1; the number is the step
RESULT = "result.json"  # written last: present means complete
NONFINITE = "nonfinite.json"
AUTOTUNE_CONFIG = "autotune.toml"  # for --config of the next run
AUTOTUNE_REPORT = "autotune.json"  # as MindSpore wrote it
EVALUATIONS = "eval"  # a folder per evaluated split, with the next five
EVALUATION, CLASSES, CONFUSION, WORST = "report.json", "classes.csv", "confusion.csv", "worst.csv"
PICTURES = "worst"  # a folder of thumbnails of the worst rows
PAGE = "report.html"
SCRATCH = ".scratch-"


def older_checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints that are stored under their step, oldest first."""
    return sorted(run.glob("step-*.ckpt"))


def partial_checkpoint(path: Path) -> Path:
    """Return the temporary name of a checkpoint while this process writes it."""
    return path.with_name(f".{path.stem}-{os.getpid()}.ckpt")


def next_run_folder(out: str | None, dataset_folder: Path) -> Path:
    """Return the folder of a new run: `out`, or runs/<dataset name>-<n> with the first free n. Create nothing."""
    if out is not None:
        return Path(out).resolve()
    number = 1
    while os.path.lexists(folder := RUNS / f"{dataset_folder.name or 'dataset'}-{number}"):
        number += 1
    return folder.resolve()


@contextlib.contextmanager
def run_folder(out: str | None, dataset_folder: Path) -> Iterator[Path]:
    """Create and lock the run's folder, or lock an existing one; yield it.

    A new folder is removed again if the run fails before its first step. Raise Busy if another process uses the
    folder, TrainerError if it contains anything but a run.
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
                    with contextlib.suppress(OSError):  # the error that ended the run is reported
                        _remove_start(folder)
    finally:
        with contextlib.suppress(OSError):  # rmdir removes only empty folders
            folder.rmdir()
            if out is None:
                folder.parent.rmdir()


def _remove_start(folder: Path) -> None:
    """Empty the folder of a run that logged no step and wrote no checkpoint."""
    paths = list(folder.iterdir())
    if all(path.name in (CONFIG, STARTS, BOARD) or (path.name == STEPS and not path.stat().st_size) for path in paths):
        shutil.rmtree(folder / BOARD, ignore_errors=True)
        for name in (STARTS, STEPS, CONFIG):
            (folder / name).unlink(missing_ok=True)


def check_out(out: str | None, dataset_folder: Path) -> Path:
    """Return next_run_folder; raise TrainerError if a run may not use that folder. Create nothing."""
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
            if out is not None:  # otherwise another run has just taken the number
                raise TrainerError(_taken(folder)) from None
        except OSError as error:
            raise disk_error(error, f"cannot create the run folder {folder}") from None


def contains_run(folder: Path) -> bool:
    """Return True if the folder contains a run."""
    return (folder / CONFIG).is_file()


def _taken(folder: Path) -> str:
    return f"{folder} already exists; give --out another name, or omit it"


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
    # The folder itself is locked: no lock file is left over, and the system unlocks it when the process ends.
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
    """Append a line to a file and return the length of the file in bytes.

    If `durable`, wait until the line is on disk. If an earlier process left an incomplete last line, a line end is
    added to it first.
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
    """Create a folder and make it the working directory; yield its absolute path and remove it at the end.

    MindSpore writes rank_0/, kernel_meta/, rewritten_network/ and images that it cannot decode to the working
    directory. `parent` None means the system's temporary folder.
    """
    before = os.getcwd()
    folder = os.path.abspath(tempfile.mkdtemp(prefix=SCRATCH, dir=parent))
    try:
        os.chdir(folder)
        yield Path(folder)
    finally:
        with contextlib.suppress(OSError):  # the folder was removed; nothing uses it any more
            os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
