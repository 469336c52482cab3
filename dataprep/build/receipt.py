"""What a worker is given and what it gives back."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.items import Reject
from dataprep.mindrecord.format import Geometry
from dataprep.plan.store import PlannedShard
from schemas.dataset import ROW_DIGEST_BYTES, Shard
from schemas.images.policy import Policy
from schemas.record import RecordSchema

ROWS = "rows.jsonl"  # a NotedRow a line, in an attempt folder and later beside the receipt
# How far a worker is: a JSON list of the key at hand and the files done, and behind it what is left of longer ones.
CURRENT = "current"
LATE = "late"  # not empty when the worker was ended because the key at hand took too long to decode


class NotedRow(NamedTuple):
    """What was noted of a row while it was written: sides in pixels; digests of the file, its pixels, the image, and
    of the stored row, see row_digest. Notes of earlier versions have none of the row.
    """

    key: str
    label: int
    width: int
    height: int
    file: str
    pixels: str
    image: str
    row: str = ""


def blob_digest(data: bytes) -> str:
    """The digest that NotedRow holds: 16 bytes of SHA-256, for which processors have instructions (measured here: 2.3
    times as fast as BLAKE2b).
    """
    return sha256(data).hexdigest()[:32]


def row_digest(blob: str, raw: bytes) -> bytes:
    """The digest of a stored row, from the digest of its blob part, see blob_digest, and its raw part."""
    return sha256(bytes.fromhex(blob) + raw).digest()[:ROW_DIGEST_BYTES]


def noted_rows(path: Path) -> Iterator[NotedRow]:
    """The rows that a ROWS file notes."""
    with path.open("rb") as file:
        for line in file:
            yield NotedRow(*json.loads(line))


Excluded = dict[str, tuple[str, str]]  # key -> reason, detail


@dataclass(frozen=True)
class Task:
    """One shard to build: picklable, and enough for a worker anywhere that sees the same folders.

    `attempts` is the folder in which the worker makes a folder of its own. `names` is the split's whole set.
    `excluded` are files found at fault after an earlier build, `mended` the size and time of files that were changed
    on purpose since the plan was made. `decoded_later` says that the shard's images will be decoded to prove it,
    `killable` that the process may be ended over an image that takes too long to decode.
    """

    shard: PlannedShard
    names: tuple[str, ...]
    plan: Path
    source: str
    attempts: Path
    schema: RecordSchema
    classes: int
    geometry: Geometry
    policy: Policy
    deadline_s: float
    excluded: Excluded = field(default_factory=dict)
    mended: dict[str, tuple[int, int]] = field(default_factory=dict)
    decoded_later: bool = False
    killable: bool = True


@dataclass
class Moments:
    """Sums over images of the mean and the mean square of each RGB channel."""

    images: int = 0
    mean: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    square: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def add(self, images: int, mean: Any, square: Any) -> None:
        """Add the sums over `images` more images."""
        self.images += images
        self.mean = [a + b for a, b in zip(self.mean, mean, strict=True)]
        self.square = [a + b for a, b in zip(self.square, square, strict=True)]


@dataclass
class Receipt:
    """Proof that a shard was built: its files' digests, what was rejected, and what was changed on the way.

    `warnings` counts written images by what is odd about them.

    `excluded` are the keys that were left out as found at fault before. `seconds` says what the worker's time went
    into: read, decode, encode, write; `all` is the whole. `attempt` is the folder where the files wait
    to be moved into place; it is not kept.
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
        """The receipt as it is kept."""
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
        """Read a kept receipt; raises ValueError, KeyError or TypeError when it is not one."""
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
