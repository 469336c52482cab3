"""Schema of a record: its fields, their MindRecord types and their roles.

The *role* of a field is its meaning (image, label, key), its *name* is the MindRecord column. Both programs look
columns up by role, so a user's schema file may rename every field. A field without a role is an additional column.
"""

import functools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.errors import ContractError
from schemas.parse import loads, only, take, take_all

TYPES = ("int32", "int64", "float32", "float64", "string", "bytes")
NUMERIC = ("int32", "int64", "float32", "float64")
SCALARS = (*NUMERIC, "string")
SCHEMAS = Path(__file__).parent / "records"  # <kind>.json: the schema of each record kind


@dataclass(frozen=True)
class Field:
    """A column. `shape` makes a numeric field an array; -1 is a free dimension."""

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    role: str | None = None
    index: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-zA-Z_]+", self.name):
            raise ContractError(f"field name '{self.name}' must be letters, digits and underscores")
        if self.type not in TYPES:
            raise ContractError(f"field '{self.name}' has type '{self.type}', expected one of {', '.join(TYPES)}")
        if self.shape is not None:
            self._check_shape(self.shape)
        if self.index and (self.is_blob or self.name[0].isdigit()):
            raise ContractError(
                f"field '{self.name}' cannot be indexed: only scalars whose name does not start with a digit can"
            )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        valid = shape and shape.count(-1) <= 1 and all(size == -1 or size > 0 for size in shape)
        if self.type not in NUMERIC or not valid:
            raise ContractError(
                f"field '{self.name}' has shape {list(shape)}: "
                "only numeric fields can have a shape, of positive sizes and at most one -1"
            )

    @property
    def is_blob(self) -> bool:
        """True for a field in blob pages (bytes and arrays), False for a field in raw pages (scalars)."""
        return self.type == "bytes" or self.shape is not None

    @property
    def description(self) -> str:
        """Type and shape, as in `float32 [-1, 4]`."""
        return self.type if self.shape is None else f"{self.type} {list(self.shape)}"

    def to_dict(self) -> dict[str, object]:
        """Return the field as in JSON, without defaults."""
        value: dict[str, object] = {"name": self.name, "type": self.type}
        if self.shape is not None:
            value["shape"] = list(self.shape)
        if self.role is not None:
            value["role"] = self.role
        if self.index:
            value["index"] = True
        return value

    @classmethod
    def from_dict(cls, value: dict[str, object], where: str) -> "Field":
        """Read one field of a schema's JSON. Raises ContractError if it is malformed."""
        only(value, {"name", "type", "shape", "role", "index"}, where)
        return cls(
            name=take(value, "name", str, where),
            type=take(value, "type", str, where),
            shape=take_all(value, "shape", int, where) if "shape" in value else None,
            role=take(value, "role", str, where) if "role" in value else None,
            index=take(value, "index", bool, where) if "index" in value else False,
        )


@dataclass(frozen=True)
class RecordSchema:
    """Columns of every row in a dataset. `kind` is the task, which determines the required roles."""

    name: str
    kind: str
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        if not self.fields:
            raise ContractError(f"schema '{self.name}' has no field")
        # SQLite column names ignore case, so two indexed fields may not differ in case only.
        names = [field.name.lower() for field in self.fields]
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            raise ContractError(f"schema '{self.name}' has two fields named '{duplicates[0]}' (case is ignored)")

    def require_roles(self) -> None:
        """Raise ContractError unless each role of the schema's kind has one field of the right type."""
        if self.kind not in schema_names():
            raise ContractError(f"schema '{self.name}' is of kind '{self.kind}'; known: {', '.join(schema_names())}")
        roles = [field.role for field in self.fields if field.role]
        known = []
        for allowed in _kind_fields(SCHEMAS / f"{self.kind}.json"):
            known += [str(field.role) for field in allowed]
            found = [field for field in self.fields if field.role in [one.role for one in allowed]]
            fits = len(found) == 1 and any(
                (one.role, one.type, one.shape) == (found[0].role, found[0].type, found[0].shape) for one in allowed
            )
            if not fits:
                wanted = " or ".join(f"of role '{one.role}', {one.description}" for one in allowed)
                raise ContractError(f"schema '{self.name}' needs exactly one field {wanted}")
        unknown = [role for role in roles if role not in known]
        if unknown:
            raise ContractError(f"schema '{self.name}': role '{unknown[0]}' is unknown, known are {', '.join(known)}")

    @property
    def classes(self) -> str:
        """Number of classes of a row: one, many or none. The kind determines it."""
        return str(_kind_json(SCHEMAS / f"{self.kind}.json").get("classes", "one"))

    @property
    def needs(self) -> str | None:
        """The annotation that rows need besides the image: class, classes, boxes, mask or captions; None if none."""
        needed = _kind_json(SCHEMAS / f"{self.kind}.json").get("needs")
        return None if needed is None else str(needed)

    @property
    def additional_fields(self) -> tuple[Field, ...]:
        """Fields without a role: their values come from columns of the source."""
        return tuple(field for field in self.fields if field.role is None)

    def with_fields(self, fields: tuple[Field, ...]) -> "RecordSchema":
        """Return the schema with these fields added; raises ContractError if a name is used twice."""
        return replace(self, fields=self.fields + fields) if fields else self

    def has_role(self, role: str) -> bool:
        """Return True if a field has this role."""
        return any(field.role == role for field in self.fields)

    def column(self, role: str) -> str:
        """Return the name of the column with `role`. Raises ContractError if there is none."""
        for field in self.fields:
            if field.role == role:
                return field.name
        raise ContractError(f"schema '{self.name}' has no field of role '{role}'")

    @property
    def blob_fields(self) -> tuple[Field, ...]:
        """Fields stored in blob pages, in MindRecord's order: sorted by name."""
        return tuple(sorted((f for f in self.fields if f.is_blob), key=lambda f: f.name))

    @property
    def raw_fields(self) -> tuple[Field, ...]:
        """Scalar fields, in MindRecord's order: sorted by name."""
        return tuple(sorted((f for f in self.fields if not f.is_blob), key=lambda f: f.name))

    @property
    def index_fields(self) -> tuple[Field, ...]:
        """Indexed fields in the order of the schema, which MindRecord keeps."""
        return tuple(field for field in self.fields if field.index)

    def to_dict(self) -> dict[str, object]:
        """Return the schema as in JSON."""
        return {"name": self.name, "kind": self.kind, "fields": [field.to_dict() for field in self.fields]}

    @classmethod
    def from_dict(cls, value: dict[str, object], where: str) -> "RecordSchema":
        """Read a schema from parsed JSON. Raises ContractError, which names `where`, if it is malformed."""
        only(value, {"name", "kind", "fields"}, where)
        fields = take_all(value, "fields", dict, where)
        return cls(
            name=take(value, "name", str, where),
            kind=take(value, "kind", str, where),
            fields=tuple(Field.from_dict(field, f"{where}, field {i}") for i, field in enumerate(fields)),
        )


def schema_names() -> list[str]:
    """Return the names of the built-in schemas."""
    return sorted(path.stem for path in SCHEMAS.glob("*.json"))


def load_schema(name_or_path: str) -> RecordSchema:
    """Return a built-in schema by name, or the schema in a JSON file. Raises ContractError if there is none."""
    schema = _read_schema(name_or_path)
    schema.require_roles()
    return schema


def _read_schema(name_or_path: str) -> RecordSchema:
    names = schema_names()
    if name_or_path in names:
        kind = dict(_kind_json(SCHEMAS / f"{name_or_path}.json"))
        return RecordSchema.from_dict({name: kind[name] for name in ("name", "kind", "fields")}, name_or_path)
    try:
        data = Path(name_or_path).read_bytes()
    except OSError as error:
        raise ContractError(
            f"'{name_or_path}' is neither a schema ({', '.join(names)}) nor a readable JSON file ({error.strerror})"
        ) from None
    return RecordSchema.from_dict(loads(data, name_or_path), name_or_path)


@functools.cache
def _kind_json(path: Path) -> dict[str, Any]:
    """Return the JSON of a kind.

    Besides the fields it may have `classes` and `needs` (see RecordSchema), and `alternatives`: fields by the role
    that they may replace.
    """
    return loads(path.read_bytes(), path.name)


def _kind_fields(path: Path) -> list[list[Field]]:
    """Return the fields that a kind needs, each as a list of alternatives."""
    kind = _kind_json(path)
    alternatives = kind.get("alternatives", {})
    needed = []
    for value in kind["fields"]:
        also = alternatives.get(value.get("role"), [])
        needed.append([Field.from_dict(one, path.name) for one in (value, *also)])
    return needed


def parse_field(text: str) -> Field:
    """Return the field `name:type`, as in age:float32; raises ContractError."""
    name, separator, kind = text.rpartition(":")
    if not separator or kind not in SCALARS:
        raise ContractError(f"field '{text}' is not written as name:type, with a type of {', '.join(SCALARS)}")
    return Field(name, kind)
