"""dataset.json: the sealed manifest of a dataset folder, written last.

The file is deterministic (no clock, no host name), so its sha256 is the identity of the data.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas import layout
from schemas.errors import PASSING_ERRORS, ContractError, MissingFolder
from schemas.parse import loads, only, take, take_all
from schemas.record import RecordSchema
from schemas.storage.regular_file import open_regular

FORMAT = "mindrecord-dataset"
VERSION = 1
ROW_DIGEST_BYTES = 16
MAX_LOG_LINE_BYTES = 1 << 16
MAX_MANIFEST_BYTES = 256 << 20  # more than a million shards need


@dataclass(frozen=True)
class Shard:
    """One MindRecord file and its index. Sizes are in bytes."""

    name: str
    rows: int
    bytes: int
    sha256: str
    index_bytes: int
    index_sha256: str

    def __post_init__(self) -> None:
        if self.name != Path(self.name).name or self.name in ("", ".", ".."):
            raise ContractError(f"shard name {self.name!r} is outside the dataset folder")

    @classmethod
    def from_dict(cls, value: Mapping[str, object], where: str) -> "Shard":
        """Read one entry of `shards`. Raises ContractError if it is malformed."""
        only(value, set(cls.__dataclass_fields__), where)
        return cls(
            name=take(value, "name", str, where),
            rows=take(value, "rows", int, where),
            bytes=take(value, "bytes", int, where),
            sha256=take(value, "sha256", str, where),
            index_bytes=take(value, "index_bytes", int, where),
            index_sha256=take(value, "index_sha256", str, where),
        )


@dataclass(frozen=True)
class Split:
    """One split: its shards in order, and the rows of each class in the order of Dataset.classes.

    A row of several classes counts in each of them.
    """

    class_rows: tuple[int, ...]
    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        """Number of rows in all shards."""
        return sum(shard.rows for shard in self.shards)

    @classmethod
    def from_dict(cls, value: Mapping[str, object], where: str) -> "Split":
        """Read one split. Raises ContractError if it is malformed or its numbers of rows differ."""
        only(value, {"rows", "class_rows", "shards"}, where)
        shards = take_all(value, "shards", dict, where)
        split = cls(
            class_rows=take_all(value, "class_rows", int, where),
            shards=tuple(Shard.from_dict(shard, f"{where}, shard {i}") for i, shard in enumerate(shards)),
        )
        if take(value, "rows", int, where) != split.rows:
            raise ContractError(f"{where}: 'rows' differs from the sum of the shards' rows")
        return split

    def to_dict(self) -> dict[str, object]:
        """Return the split as in dataset.json."""
        return {"rows": self.rows, "class_rows": list(self.class_rows), "shards": [dict(vars(s)) for s in self.shards]}


@dataclass(frozen=True)
class PixelStats:
    """Mean and standard deviation per RGB channel on the scale 0..255; each image of the sample has equal weight."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    images: int

    @classmethod
    def from_dict(cls, value: Mapping[str, object], where: str) -> "PixelStats":
        """Read the statistics. Raises ContractError if they are malformed."""
        only(value, {"mean", "std", "images"}, where)
        mean = take_all(value, "mean", float, where)
        std = take_all(value, "std", float, where)
        if len(mean) != 3 or len(std) != 3:
            raise ContractError(f"{where}: mean and std must have three values each")
        return cls((mean[0], mean[1], mean[2]), (std[0], std[1], std[2]), take(value, "images", int, where))


@dataclass(frozen=True)
class RowDigestsFile:
    """The file of row digests: its size in bytes and its sha256."""

    bytes: int
    sha256: str

    @classmethod
    def from_dict(cls, value: Mapping[str, object], where: str) -> "RowDigestsFile":
        """Read the entry. Raises ContractError if it is malformed."""
        only(value, set(cls.__dataclass_fields__), where)
        return cls(take(value, "bytes", int, where), take(value, "sha256", str, where))


@dataclass(frozen=True)
class Dataset:
    """Contents of dataset.json.

    `rejected` counts files by reason, `ignored` by rule; found = written + rejected + ignored. `policy` is the pixel
    policy. `changed` counts images by the step of the policy that changed them, `warnings` by warning. `duplicates`
    counts groups of equal images. `plan` is the layout and options of the job. `pixels` is None if no train image was
    measured. `row_digests` is None if the dataset was sealed before that file was introduced.
    """

    schema: RecordSchema
    classes: tuple[str, ...]
    splits: Mapping[str, Split]
    found: int
    rejected: Mapping[str, int]
    ignored: Mapping[str, int]
    changed: Mapping[str, int]
    policy: Mapping[str, Any]
    plan: Mapping[str, Any]
    pixels: PixelStats | None = None
    duplicates: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)
    row_digests: RowDigestsFile | None = None

    @property
    def written(self) -> int:
        """Number of rows in all splits."""
        return sum(split.rows for split in self.splits.values())

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards of all splits, in order."""
        return tuple(shard for split in self.splits.values() for shard in split.shards)

    @property
    def digest(self) -> str:
        """Hex sha256 of dataset.json: the identity of the data."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def to_json(self) -> bytes:
        """Return the bytes of dataset.json. The key `seal` is the sha256 of the rest, so that an edit is detected."""
        body: dict[str, object] = {
            "format": FORMAT,
            "version": VERSION,
            "schema": self.schema.to_dict(),
            "classes": list(self.classes),
            "found": self.found,
            "written": self.written,
            "rejected": dict(sorted(self.rejected.items())),
            "ignored": dict(sorted(self.ignored.items())),
            "changed": dict(sorted(self.changed.items())),
            "warnings": dict(sorted(self.warnings.items())),
            "duplicates": dict(self.duplicates),
            "policy": dict(self.policy),
            "plan": dict(self.plan),
            "pixels": None if self.pixels is None else vars(self.pixels),
            "splits": {name: split.to_dict() for name, split in self.splits.items()},
        }
        if self.row_digests is not None:
            body["row_digests"] = vars(self.row_digests)
        return (json.dumps(body | {"seal": _seal(body)}, indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes, where: str = layout.DATASET) -> "Dataset":
        """Parse and check dataset.json. Raises ContractError if it is malformed, inconsistent or was edited."""
        body = loads(data, where)
        if body.get("format") != FORMAT or body.get("version") != VERSION:
            raise ContractError(f"{where} is not a {FORMAT} of version {VERSION}; shard again with this version")
        if body.pop("seal", None) != _seal(body):
            raise ContractError(_edited(where))
        dataset = cls._from_body(body, where)
        if dataset.to_json() != data:  # the same values in other bytes would have another sha256
            raise ContractError(_edited(where))
        return dataset

    @classmethod
    def _from_body(cls, body: dict[str, object], where: str) -> "Dataset":
        schema = RecordSchema.from_dict(take(body, "schema", dict, where), f"{where}: schema")
        schema.require_roles()
        splits = take(body, "splits", dict, where)
        pixels, digests = body.get("pixels"), body.get("row_digests")
        dataset = cls(
            schema=schema,
            classes=take_all(body, "classes", str, where),
            splits={name: Split.from_dict(take(splits, name, dict, where), f"{where}: {name}") for name in splits},
            found=take(body, "found", int, where),
            rejected=take(body, "rejected", dict, where),
            ignored=take(body, "ignored", dict, where),
            changed=take(body, "changed", dict, where),
            duplicates=take(body, "duplicates", dict, where),
            warnings=take(body, "warnings", dict, where),
            policy=take(body, "policy", dict, where),
            plan=take(body, "plan", dict, where),
            pixels=None
            if pixels is None
            else PixelStats.from_dict(take(body, "pixels", dict, where), f"{where}: pixels"),
            row_digests=None
            if digests is None
            else RowDigestsFile.from_dict(take(body, "row_digests", dict, where), f"{where}: row_digests"),
        )
        dataset._check_sums(where)
        return dataset

    def _check_sums(self, where: str) -> None:
        for name in ("rejected", "ignored", "changed", "duplicates", "warnings"):
            for key in getattr(self, name):
                take(dict(getattr(self, name)), key, int, f"{where}: {name}")
        if self.found != self.written + sum(self.rejected.values()) + sum(self.ignored.values()):
            raise ContractError(f"{where}: 'found' differs from written + rejected + ignored")
        if self.row_digests is not None and self.row_digests.bytes != ROW_DIGEST_BYTES * self.written:
            raise ContractError(f"{where}: row_digests must have {ROW_DIGEST_BYTES} bytes per row")
        for name, split in self.splits.items():
            if name not in layout.SPLITS or len(split.class_rows) != len(self.classes):
                raise ContractError(f"{where}: split '{name}' does not fit the classes")
            if self.schema.classes == "one" and sum(split.class_rows) != split.rows:
                raise ContractError(f"{where}: split '{name}': the rows of its classes do not add up to its rows")


def _edited(where: str) -> str:
    return f"{where} was edited after it was sealed; restore it from a copy, or shard again"


def _seal(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def load_dataset(folder: Path) -> Dataset:
    """Read OUT/dataset.json.

    Raises ContractError if the folder is not a sealed dataset or is being replaced. Raises OSError for a temporary disk
    error.
    """
    path = folder / layout.DATASET
    if (folder / layout.WORK / layout.SWAP).is_file():
        raise ContractError(_being_replaced(folder))
    try:
        with open_regular(path) as file:
            data = file.read(MAX_MANIFEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir():
            problem = f"{folder} is not a folder; give the OUT of 'dataprep shard SOURCE OUT'"
            raise MissingFolder(problem) from None
        raise ContractError(_unsealed(folder)) from None
    except OSError as error:
        if error.errno == errno.EINTR or error.errno in PASSING_ERRORS:
            raise
        raise ContractError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_MANIFEST_BYTES:
        raise ContractError(f"{path} is larger than {MAX_MANIFEST_BYTES} bytes, so it is not a dataset manifest")
    return Dataset.from_json(data, str(path))


def _being_replaced(folder: Path) -> str:
    return f"{folder} is being replaced by a new dataset; if that job was killed, run 'dataprep verify {folder}'"


def _unsealed(folder: Path) -> str:
    if (folder / layout.WORK).is_dir():
        return f"{folder} is not sealed: {_rejection(folder / layout.WORK) or _UNFINISHED}"
    return f"{folder} contains no {layout.DATASET}; create a dataset with 'dataprep shard SOURCE OUT'"


_UNFINISHED = "its job has not finished; run the same 'dataprep shard' command to resume it"


def _rejection(work: Path) -> str | None:
    """Return why the last job was rejected and what to do; None if it was not rejected or its log is unreadable."""
    try:
        with (work / layout.RUN_LOG).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_LOG_LINE_BYTES))
            last = loads(file.read().splitlines()[-1], layout.RUN_LOG)
        if last["event"] != layout.REFUSED:
            return None
        listed = work / layout.REJECTS
        retry = f"The rejected files are listed in {listed}; fix them and use --retry-rejects to check them again"
        return f"its job was rejected: {last['problem']}" + (f". {retry}" if listed.stat().st_size else "")
    except (OSError, IndexError, KeyError, ContractError):
        return None


def file_problems(folder: Path, shards: Iterable[Shard]) -> list[str]:
    """Return one sentence per wrong file size or index digest of the shards; an empty list if all are right.

    Reads the indexes but no rows. Call it before opening a dataset: MindDataset crashes with SIGSEGV on an index with
    too few rows (measured on 2.10).
    """
    problems: list[str] = []
    for shard in shards:
        index = layout.index_name(shard.name)
        of_shard = size_problems(folder, shard)
        try:
            if not of_shard and file_sha256(folder / index) != shard.index_sha256:
                of_shard.append(f"{index} does not match its sealed sha256")
        except OSError as error:
            of_shard.append(f"{index} cannot be read: {error.strerror}")
        problems += of_shard
    return problems


def size_problems(folder: Path, shard: Shard) -> list[str]:
    """Return one sentence per missing file or wrong file size of the shard. Reads neither file."""
    index = layout.index_name(shard.name)
    problems = [_size_problem(folder / shard.name, shard.bytes), _size_problem(folder / index, shard.index_bytes)]
    return [problem for problem in problems if problem]


def _size_problem(path: Path, size: int) -> str | None:
    if not path.is_file():
        return f"{path.name} is missing"
    actual = path.stat().st_size
    return None if actual == size else f"{path.name} has {actual} bytes, expected {size}"


def file_sha256(path: Path) -> str:
    """Return the hex sha256 of a file. Reads 1 MiB at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
