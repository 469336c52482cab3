"""Progress notes of `trainer doctor` and `trainer bench` as data; cli/doctor_text.py has their text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Checking:
    """The dataset in `folder` is being checked."""

    folder: Path


@dataclass(frozen=True)
class Measuring:
    """The measurements start, for about `seconds`. `compiles` is True if a compilation comes first."""

    seconds: float
    compiles: bool = False


@dataclass(frozen=True)
class BottleneckFound:
    """The bottleneck (feed, compute or balanced) and the highest possible images/s of the loop."""

    bound: str
    images_per_s: float


@dataclass(frozen=True)
class Trying:
    """Trial of `flags`, on `rows` rows in `folder` if given, or in the whole loop if `in_loop` is True."""

    flags: tuple[str, ...]
    rows: int | None = None
    folder: Path | None = None
    in_loop: bool = False


@dataclass(frozen=True)
class WritingSample:
    """`rows` of `all_rows` rows are being written as files and as a shard, each of at most `most_bytes`."""

    rows: int
    all_rows: int
    most_bytes: int


@dataclass(frozen=True)
class SkippedFiles:
    """Number of files in `folder` that are not measured, by reason."""

    folder: Path
    counts: Mapping[str, int]


Note = Checking | Measuring | BottleneckFound | Trying | WritingSample | SkippedFiles
Tell = Callable[[Note], None]
