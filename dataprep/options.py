"""The options of `dataprep shard` as a frozen dataclass. Each field is a command-line option."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from schemas.images.policy import Policy


@dataclass(frozen=True)
class WalkOptions:
    """Options of the scan: `ignore` patterns (see IgnorePatterns), and whether to follow links to folders."""

    ignore: tuple[str, ...] = ()
    follow_links: bool = False


# Options that do not change the bytes of the result: they may change when a job is resumed.
BEHAVIOUR = frozenset(
    {
        "workers",
        "engine",
        "dask_address",
        "dask_scheduler_file",
        "max_rejects",
        "max_class_loss",
        "deadline",
        "quarantine",
    }
)


@dataclass(frozen=True)
class Budget:
    """A limit on rejected files: a number, or a fraction of the candidate files."""

    limit: float
    is_share: bool

    def allows(self, rejects: int, candidates: int) -> bool:
        """Return True if `rejects` of `candidates` files are within the limit."""
        return rejects <= (self.limit * candidates if self.is_share else self.limit)

    def __str__(self) -> str:
        return f"{100 * self.limit:g}%" if self.is_share else f"{self.limit:.0f}"


@dataclass(frozen=True)
class ShardOptions:
    """Options of a shard job.

    Sizes are in bytes, sides in pixels. `val` and `test` are fractions of each class. If `workers` is None, there is
    one per core. If `shard_size` is None, it is 512 MiB, or less for small datasets (see plan.sizes). `num_shards` is
    for train; shards of other splits have about the same size. `prove` is the decode check: decode, rows (only read) or
    off. `warnings` is the action for images that the decoder accepts with a warning: reject, or keep (write and count).
    `deadline` is the limit in seconds for reading a file or decoding an image. Without `dask_address` and
    `dask_scheduler_file` the engine dask starts a local cluster. For `depth_*` see Policy.
    """

    layout: str = "auto"
    schema: str = "classification"
    classes: tuple[str, ...] | None = None
    val: float = 0.1
    test: float = 0.0
    seed: int = 0
    shard_size: int | None = None
    num_shards: int | None = None
    check: str = Policy.check
    prove: str = "decode"
    warnings: str = "reject"
    image_format: str = Policy.image_format
    quality: int = Policy.quality
    resize: int | None = Policy.resize
    icc: str = Policy.icc
    animation: str = Policy.animation
    strip_metadata: bool = Policy.strip_metadata
    min_side: int = Policy.min_side
    max_aspect: float | None = Policy.max_aspect
    max_pixels: int = Policy.max_pixels
    max_bytes: int = Policy.max_bytes
    depth_bits: int = Policy.depth_bits
    depth_range: tuple[float, float] | None = Policy.depth_range
    ignore: tuple[str, ...] = ()
    follow_links: bool = False
    empty_classes: str = "warn"
    duplicates: str = "report"
    workers: int | None = None
    engine: str = "process"
    dask_address: str | None = None
    dask_scheduler_file: Path | None = None
    max_rejects: Budget = Budget(0.01, True)
    max_class_loss: Budget = Budget(0.2, True)
    deadline: float = 60.0
    quarantine: Path | None = None

    @property
    def policy(self) -> Policy:
        """The pixel policy."""
        names = {field.name for field in fields(Policy)} & {field.name for field in fields(self)}
        return Policy(**{name: getattr(self, name) for name in names})

    @property
    def walk(self) -> WalkOptions:
        """The options of the scan."""
        return WalkOptions(self.ignore, self.follow_links)

    def deciding(self) -> dict[str, Any]:
        """Return the options that determine the bytes of the result, as JSON values."""
        values = {name: value for name, value in asdict(self).items() if name not in BEHAVIOUR}
        decided: dict[str, Any] = json.loads(json.dumps(values))
        return decided
