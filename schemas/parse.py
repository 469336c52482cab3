"""Typed access to untrusted JSON: a missing key or a wrong type raises ContractError."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from schemas.errors import ContractError

T = TypeVar("T")


def loads(data: bytes, where: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ContractError, which names `where`, if `data` is not a JSON object."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{where} is not valid JSON ({error}); restore it from a copy, or shard again") from None
    if not isinstance(value, dict):
        raise ContractError(f"{where} is a {type(value).__name__}, not a JSON object")
    return value


def take(values: Mapping[str, object], key: str, kind: type[T], where: str) -> T:
    """Return the value of `key`. Raises ContractError if it is not of type `kind`; a bool is not an int."""
    if key not in values:
        raise ContractError(f"{where}: '{key}' is missing")
    value = values[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ContractError(f"{where}: '{key}' is {value!r:.80}, expected {kind.__name__}")
    return value


def take_all(values: Mapping[str, object], key: str, kind: type[T], where: str) -> tuple[T, ...]:
    """Return the list under `key` as a tuple. Raises ContractError if an element is not of type `kind`."""
    items = take(values, key, list, where)
    return tuple(take({"element": item}, "element", kind, f"{where}: '{key}'") for item in items)


def only(values: Mapping[str, object], allowed: set[str], where: str) -> None:
    """Raise ContractError if `values` has a key that is not `allowed`."""
    unknown = sorted(set(values) - allowed)
    if unknown:
        raise ContractError(f"{where}: unknown key '{unknown[0]}'; known keys: {', '.join(sorted(allowed))}")
