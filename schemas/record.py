"""Schema of a record: its fields, their MindRecord types and their roles.

The *role* of a field is its meaning (image, label, key), its *name* is the MindRecord column. Both programs look
columns up by role, so a user's schema file may rename every field.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import ContractError
from schemas.parse import loads, only, take, take_all

TYPES = ("int32", "int64", "float32", "float64", "string", "bytes")
NUMERIC = ("int32", "int64", "float32", "float64")
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
        expected = {field.role: (field.type, field.shape) for field in _read_schema(self.kind).fields if field.role}
        for role, (kind, shape) in expected.items():
            if [(field.type, field.shape) for field in self.fields if field.role == role] != [(kind, shape)]:
                raise ContractError(f"schema '{self.name}' needs exactly one field of role '{role}', of type {kind}")
        without_role = [field.name for field in self.fields if field.role not in expected]
        if without_role:
            roles = ", ".join(expected)
            raise ContractError(f"schema '{self.name}': field '{without_role[0]}' needs a role, one of {roles}")

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
    try:
        data = (SCHEMAS / f"{name_or_path}.json" if name_or_path in names else Path(name_or_path)).read_bytes()
    except OSError as error:
        raise ContractError(
            f"'{name_or_path}' is neither a schema ({', '.join(names)}) nor a readable JSON file ({error.strerror})"
        ) from None
    return RecordSchema.from_dict(loads(data, name_or_path), name_or_path)
