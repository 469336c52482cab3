"""Which transforms of a recipe run in Python: by what they are, not by what they are called."""

from collections.abc import Iterator, Sequence
from typing import Any

from mindspore.dataset.transforms.py_transforms_util import Implementation
from mindspore.dataset.transforms.transforms import TensorOperation


def python_ops(transforms: Sequence[Any]) -> tuple[str, ...]:
    """The names of those that do, those inside of RandomApply and the like too, each once and in order."""
    return tuple(dict.fromkeys(_names(transforms, False)))


def _names(transforms: Sequence[Any], before: bool) -> Iterator[str]:
    # MindSpore's rule: what has both forms takes that of the one before it, the C++ one at the start (read in 2.10).
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
        return True  # a function, or an operator of which there is no other form
    if transform.implementation is None:
        return before
    return bool(transform.implementation == Implementation.PY)


def _name(transform: Any) -> str:
    function = getattr(
        transform, "transform", transform
    )  # MindSpore wraps functions inside of RandomChoice and the like
    return getattr(function, "__name__", type(function).__name__)
