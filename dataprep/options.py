"""What a user asks of `dataprep shard`, as one frozen dataclass; cli.py offers each field as an option."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from schemas.images.policy import Policy


@dataclass(frozen=True)
class WalkOptions:
    """`ignore` holds patterns, see IgnorePatterns; `follow_links` is about folders."""

    ignore: tuple[str, ...] = ()
    follow_links: bool = False


# These do not change a byte of the result, so they may differ when a job is run again.
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
    """How many files may be refused: a number, or a share of the files that were to become rows."""

    limit: float
    is_share: bool

    def allows(self, rejects: int, candidates: int) -> bool:
        """Whether `rejects` of `candidates` files may be refused."""
        return rejects <= (self.limit * candidates if self.is_share else self.limit)

    def __str__(self) -> str:
        return f"{100 * self.limit:g}%" if self.is_share else f"{self.limit:.0f}"


@dataclass(frozen=True)
class ShardOptions:
    """Options of a shard job. Sizes are in bytes, sides in pixels, `val` and `test` are shares of each class.

    `workers` None means one per core. `shard_size` None means 512 MiB, less for small sets, see place.shard_size.
    `num_shards` counts the train split's shards; the other splits get shards of about the same size.
    `prove` is what MindSpore does with a built shard: decode, rows (it is read only) or off. `warnings` is what becomes
    of images that its decoder reads but says are damaged: reject, or keep (they are written and counted). `deadline`
    is the seconds that reading one file, or decoding one image, may take. `dask_address` or `dask_scheduler_file` say
    where the engine dask finds its scheduler; without either it starts a cluster on this machine. `depth_bits`
    and `depth_range` are those of Policy.
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
        """What is asked of images and done to their pixels."""
        names = {field.name for field in fields(Policy)} & {field.name for field in fields(self)}
        return Policy(**{name: getattr(self, name) for name in names})

    @property
    def walk(self) -> WalkOptions:
        """How folders are walked."""
        return WalkOptions(self.ignore, self.follow_links)

    def deciding(self) -> dict[str, Any]:
        """The options that decide the bytes of the result, as JSON holds them."""
        values = {name: value for name, value in asdict(self).items() if name not in BEHAVIOUR}
        decided: dict[str, Any] = json.loads(json.dumps(values))
        return decided
