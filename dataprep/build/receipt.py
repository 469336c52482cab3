"""Task and Receipt, the input and output of a worker, and the notes that it writes per row."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from dataprep.items import Reject
from dataprep.mindrecord.format import Geometry
from dataprep.plan.store import PlannedShard
from schemas.dataset import ROW_DIGEST_BYTES, Shard
from schemas.images.policy import Policy
from schemas.record import RecordSchema

ROWS = "rows.jsonl"  # one NotedRow per line, in an attempt folder and later beside the receipt
# First line: JSON list of the current key and the number of files done. The rest is left over from longer lines.
CURRENT = "current"
LATE = "late"  # not empty if the worker was killed because the current image took too long to decode


class NotedRow(NamedTuple):
    """Notes about a written row.

    The image size is in pixels. The digests are those of the source file, its pixels, the stored image and the stored
    row. The row digest (see row_digest) is empty in notes of earlier versions. `label` is a list for a row of several
    classes or none. `annotation` is the digest of the annotation; empty if there is none.
    """

    key: str
    label: int | list[int]
    width: int
    height: int
    file: str
    pixels: str
    image: str
    row: str = ""
    annotation: str = ""


def blob_digest(data: bytes) -> str:
    """Return 16 bytes of SHA-256 in hex. With processor support SHA-256 is 2.3 times as fast as BLAKE2b."""
    return sha256(data).hexdigest()[:32]


def row_digest(blob: str, raw: bytes) -> bytes:
    """Return the digest of a stored row, from the blob_digest of its blob part and its raw part."""
    return sha256(bytes.fromhex(blob) + raw).digest()[:ROW_DIGEST_BYTES]


def noted_rows(path: Path) -> Iterator[NotedRow]:
    """Yield the entries of a ROWS file."""
    with path.open("rb") as file:
        for line in file:
            yield NotedRow(*json.loads(line))


Excluded = dict[str, tuple[str, str]]  # key -> reason, detail


@dataclass(frozen=True)
class Task:
    """One shard to build.

    A task can be pickled. It is complete for a worker on any machine that sees the same folders. The worker creates its
    folder in `attempts`. `names` are all shards of the split. `excluded` are files rejected after an earlier build.
    `fixed` has size and time of files that the user changed since the plan was made. Images are `decoded_later` if a
    decode check follows. `killable` is True if the process may be ended at the decode deadline. `source` is the folder
    of SOURCE. For `boxes` and `ignore_value` see ShardOptions.
    """

    shard: PlannedShard
    names: tuple[str, ...]
    plan: Path
    source: str
    attempts: Path
    schema: RecordSchema
    classes: tuple[str, ...]
    geometry: Geometry
    policy: Policy
    deadline_s: float
    excluded: Excluded = field(default_factory=dict)
    fixed: dict[str, tuple[int, int]] = field(default_factory=dict)
    decoded_later: bool = False
    killable: bool = True
    boxes: str = "clip"
    ignore_value: int = 255


@dataclass
class Moments:
    """Sums over images of the mean and mean square of each RGB channel."""

    images: int = 0
    mean: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    square: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def add(self, images: int, mean: Iterable[float], square: Iterable[float]) -> None:
        """Add the sums of `images` more images."""
        self.images += images
        self.mean = [a + b for a, b in zip(self.mean, mean, strict=True)]
        self.square = [a + b for a, b in zip(self.square, square, strict=True)]


@dataclass
class Receipt:
    """Record of a built shard: digests of its files, rejected files, and changes to images.

    `warnings` counts written images per warning. `excluded` are the keys in Task.excluded. `seconds` is the worker's
    time per stage: read, decode, encode, write. `all` is the total. `attempt` is the folder with the files before the
    commit, and is not saved.
    """

    shard: Shard
    split: str
    geometry: Geometry
    class_rows: list[int]
    rejects: list[Reject]
    changed: Counter[str]
    moments: Moments
    warnings: Counter[str] = field(default_factory=Counter)
    excluded: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)
    attempt: Path | None = None

    def to_json(self) -> bytes:
        """Return the receipt as JSON, without `attempt`."""
        value = {
            "shard": vars(self.shard),
            "split": self.split,
            "geometry": [self.geometry.header_size, self.geometry.page_size],
            "class_rows": self.class_rows,
            "rejects": [reject.to_dict() for reject in self.rejects],
            "excluded": self.excluded,
            "changed": dict(self.changed),
            "warnings": dict(self.warnings),
            "moments": vars(self.moments),
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
        }
        return json.dumps(value).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Receipt":
        """Read a receipt. Raise ValueError, KeyError or TypeError if it is damaged."""
        value = json.loads(data)
        return cls(
            shard=Shard(**value["shard"]),
            split=value["split"],
            geometry=Geometry(*value["geometry"]),
            class_rows=value["class_rows"],
            rejects=[Reject(**reject) for reject in value["rejects"]],
            excluded=value["excluded"],
            changed=Counter(value["changed"]),
            warnings=Counter(value["warnings"]),
            moments=Moments(**value["moments"]),
            seconds=value["seconds"],
        )
