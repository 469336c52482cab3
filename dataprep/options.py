"""The options of `dataprep shard` as a frozen dataclass. Each field is a command-line option."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from schemas.dataset import file_sha256
from schemas.images.policy import Policy
from schemas.record import Field, RecordSchema, load_schema, parse_field


@dataclass(frozen=True)
class SourceOptions:
    """Options of a scan.

    `ignore` are patterns (see IgnorePatterns). `follow_links` follows links to folders. `needs` is the
    annotation that the rows need, see RecordSchema. `fields` are additional columns whose values the source
    supplies. `root` is the folder of paths in a table; None is the folder of the table. `path_column`, `label_column`,
    `split_column` and `group_column` name columns; None means a common name. `encoding` is that of text files.
    `annotations` is a file or folder of annotations; None means its usual place. `image_field` is the column of the
    image in a record file. `classes` and `ignore_value` are those of ShardOptions. `scan_workers` is the number of
    threads that read the status of files. `work` is a folder for unpacked data; None unpacks nothing, as in a dry run.
    """

    ignore: tuple[str, ...] = ()
    follow_links: bool = False
    needs: str | None = "class"
    fields: tuple[Field, ...] = ()
    root: Path | None = None
    path_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    encoding: str = "utf-8"
    annotations: Path | None = None
    image_field: str | None = None
    scan_workers: int = 1
    classes: tuple[str, ...] | None = None
    ignore_value: int = 255
    work: Path | None = None


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
        "root",
        "scan_workers",
    }
)


# Options that the first version did not have.
LATER = frozenset(
    {
        "path_column",
        "label_column",
        "split_column",
        "encoding",
        "field",
        "annotations",
        "image_field",
        "split_by",
        "split_file",
        "group_by",
        "boxes",
        "ignore_value",
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
    `dask_scheduler_file` the engine dask starts a local cluster. For `depth_*` see Policy, for `root`, `encoding`,
    `annotations`, `image_field` and `*_column` see SourceOptions. `field` are additional columns, written name:type.
    `split_by` assigns splits by class (a fraction of each class) or hash (of the key), unless the source or
    `split_file` (a table of keys and splits) gives them. `group_by` is a regular expression on keys, or a column:
    images of a group get the same split. `boxes` is the action for invalid boxes: clip or reject. `ignore_value` is the
    mask value of pixels without a class.
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
    scan_workers: int = 1
    root: Path | None = None
    path_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    encoding: str = "utf-8"
    field: tuple[str, ...] = ()
    annotations: Path | None = None
    image_field: str | None = None
    split_by: str = "class"
    split_file: Path | None = None
    group_by: str | None = None
    boxes: str = "clip"
    ignore_value: int = 255

    @property
    def policy(self) -> Policy:
        """The pixel policy."""
        names = {field.name for field in fields(Policy)} & {field.name for field in fields(self)}
        return Policy(**{name: getattr(self, name) for name in names})

    def record_schema(self) -> RecordSchema:
        """Return the schema of the rows, with the columns of --field. Raises ContractError if it is invalid."""
        return load_schema(self.schema).with_fields(tuple(map(parse_field, self.field)))

    def source_options(self, work: Path | None = None) -> SourceOptions:
        """Return the options of the scan; `work` is the folder for unpacked data."""
        schema = self.record_schema()
        names = {field.name for field in fields(SourceOptions)} & {field.name for field in fields(self)}
        return SourceOptions(
            **{name: getattr(self, name) for name in names},
            needs=schema.needs,
            fields=schema.additional_fields,
            group_column=self.group_by,
            work=work,
        )

    def deciding(self) -> dict[str, Any]:
        """Return the options that determine the bytes of the result, as JSON values.

        Options that came after the first version are left out at their defaults, so the same images and options give
        the same dataset.json in all versions.
        """
        values = {
            name: value
            for name, value in asdict(self).items()
            if name not in BEHAVIOUR and (name not in LATER or value != DEFAULTS[name])
        }
        # The path of an option file depends on the working directory; its name and content do not.
        if self.split_file is not None:
            values["split_file"] = f"{self.split_file.name} {file_sha256(self.split_file)[:16]}"
        if self.annotations is not None:
            values["annotations"] = self.annotations.name
        decided: dict[str, Any] = json.loads(json.dumps(values, default=str))
        return decided


DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(ShardOptions)}


def json_value(name: str) -> Any:
    """Return the default of an option as a JSON value."""
    return json.loads(json.dumps(DEFAULTS[name], default=str))
