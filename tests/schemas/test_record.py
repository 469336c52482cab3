import json
from pathlib import Path

import pytest

from schemas.errors import ContractError
from schemas.record import Field, RecordSchema, load_schema, schema_names


@pytest.mark.parametrize("name", schema_names())
def test_schemas_of_the_package_are_equal_after_a_json_round_trip(name: str) -> None:
    schema = load_schema(name)
    assert RecordSchema.from_dict(json.loads(json.dumps(schema.to_dict())), "x") == schema
    assert schema.name == name


def test_classification_has_the_promised_columns() -> None:
    schema = load_schema("classification")
    assert [(field.name, field.type, field.index) for field in schema.fields] == [
        ("image", "bytes", False),
        ("label", "int32", True),
        ("key", "string", True),
    ]


def test_a_users_file_may_rename_fields(tmp_path: Path) -> None:
    value = load_schema("classification").to_dict()
    for field in value["fields"]:
        field["name"] = f"my_{field['name']}"
    (tmp_path / "mine.json").write_text(json.dumps(value | {"name": "mine"}))
    schema = load_schema(str(tmp_path / "mine.json"))
    assert (schema.column("image"), schema.column("label"), schema.column("key")) == ("my_image", "my_label", "my_key")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"name": "a b", "type": "int32"}, "must be letters, digits and underscores"),
        ({"name": "a", "type": "uint8"}, "has type 'uint8', expected one of"),
        ({"name": "a", "type": "string", "shape": [2]}, "only numeric fields can have a shape"),
        ({"name": "a", "type": "int32", "shape": [0]}, "only numeric fields can have a shape"),
        ({"name": "a", "type": "int32", "shape": [-1, -1]}, "at most one -1"),
        ({"name": "a", "type": "bytes", "index": True}, "cannot be indexed"),
        ({"name": "1a", "type": "int32", "index": True}, "cannot be indexed"),
        ({"name": "a"}, "'type' is missing"),
        ({"name": "a", "type": "int32", "colour": 1}, "unknown key 'colour'"),
        ({"name": 3, "type": "int32"}, "'name' is 3, expected str"),
    ],
)
def test_a_wrong_field_is_rejected_with_a_sentence(field: dict[str, object], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        RecordSchema.from_dict({"name": "s", "kind": "classification", "fields": [field]}, "here")


def test_names_that_differ_in_case_only_are_rejected() -> None:
    with pytest.raises(ContractError, match="two fields named 'key'"):
        RecordSchema("s", "k", (Field("key", "string"), Field("KEY", "string")))


def test_a_schema_without_a_needed_role_is_rejected(tmp_path: Path) -> None:
    value = load_schema("classification").to_dict()
    del value["fields"][1]["role"]
    (tmp_path / "mine.json").write_text(json.dumps(value))
    with pytest.raises(ContractError, match="exactly one field of role 'label'"):
        load_schema(str(tmp_path / "mine.json"))


def test_an_unknown_schema_names_the_known_ones() -> None:
    with pytest.raises(ContractError, match=r"'nope' is neither a schema \(.*classification.*\) nor a readable"):
        load_schema("nope")
