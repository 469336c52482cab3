"""Decisions (requested, in effect, why) and MindSpore calls as data."""

import importlib
from dataclasses import dataclass, field
from typing import Any

NOT_REQUESTED = "default"
AS_STARTED = "as at the start of this run"  # reason for a setting that a resumed run keeps


@dataclass(frozen=True)
class Decision:
    """A setting: the requested value (`asked`), the value in effect (`effect`), and the reason (`why`).

    `notable` marks a default that depends on the machine or the data, or that was lowered.
    """

    setting: str
    asked: str
    effect: str
    why: str
    notable: bool = False

    @property
    def plain(self) -> bool:
        """True for a plain default, which the settings table shows only with -v."""
        return self.asked == NOT_REQUESTED and not self.notable


def requested(value: object) -> str:
    """Return a requested value as text for the settings table. None means that nothing was requested."""
    if value is None:
        return NOT_REQUESTED
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


@dataclass(frozen=True)
class Name:
    """Name of a MindSpore object, such as a type, used as an argument. The object is imported when the call is made."""

    dotted: str

    def __repr__(self) -> str:
        return self.dotted

    def resolve(self) -> Any:
        """Import and return the object."""
        parts = self.dotted.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            try:
                value: Any = importlib.import_module(".".join(parts[:cut]))
            except ModuleNotFoundError:
                continue
            for attribute in parts[cut:]:
                value = getattr(value, attribute)
            return value
        raise ModuleNotFoundError(self.dotted)


@dataclass(frozen=True)
class Call:
    """A MindSpore call as data, which can be printed, compared with the signature, and made."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"

    def resolve(self) -> Any:
        """Import and return the function."""
        return Name(self.name).resolve()

    def make(self, *leading: Any) -> Any:
        """Make the call and return the result. `leading` are positional arguments, such as a network."""
        arguments = {
            key: value.resolve() if isinstance(value, Name) else value for key, value in self.arguments.items()
        }
        return self.resolve()(*leading, **arguments)


@dataclass(frozen=True)
class StartSettings:
    """Settings at the start of a run that affect its weights. A setting that was not recorded is empty or None.

    `level` is the instruction set of the CPU kernels, `mindspore` the version of MindSpore. `workers` is the number of
    decoding threads, each with its own random numbers. `optimizer`, `lr` (peak) and `weight_decay` may be defaults of
    an older version. `affinity` is the number of cores that the process may use. On CPU, the number of cores affects
    the rounding of a step (measured on 2.10).
    """

    level: str
    mindspore: str
    workers: int | None = None
    ranks: int | None = None
    optimizer: str | None = None
    lr: float | None = None
    weight_decay: float | None = None
    affinity: int | None = None
