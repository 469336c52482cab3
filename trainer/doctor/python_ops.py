"""Transforms of a recipe that run in Python, recognised by type, not by name."""

from collections.abc import Iterator, Sequence
from typing import Any

from mindspore.dataset.transforms.py_transforms_util import Implementation
from mindspore.dataset.transforms.transforms import TensorOperation


def python_ops(transforms: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of transforms that run in Python, each once, including transforms inside other transforms."""
    return tuple(dict.fromkeys(_names(transforms, False)))


def _names(transforms: Sequence[Any], before: bool) -> Iterator[str]:
    # In MindSpore 2.10, an operator with both forms takes the form of the operator before it. The first form is C++.
    for transform in transforms:
        inner = getattr(transform, "transforms", None)
        before = _is_python(transform, before)
        if inner:
            names = list(_names(inner, False))
            yield from names or ([_name(transform)] if before else [])
        elif before:
            yield _name(transform)


def _is_python(transform: Any, before: bool) -> bool:
    if not isinstance(transform, TensorOperation):
        return True  # a function, or an operator with a Python form only
    if transform.implementation is None:
        return before
    return bool(transform.implementation == Implementation.PY)


def _name(transform: Any) -> str:
    function = getattr(transform, "transform", transform)  # MindSpore wraps functions inside RandomChoice etc.
    return getattr(function, "__name__", type(function).__name__)
