"""Decisions (requested, in effect, why) and MindSpore calls as data."""

import importlib
from dataclasses import dataclass, field
from typing import Any

NOT_REQUESTED = "default"
AS_STARTED = "as this run was started"  # reason for a setting that a resumed run keeps


@dataclass(frozen=True)
class Decision:
    """One line of the settings table: the requested value (`asked`), the value in effect, and the reason.

    `notable` marks a default that depends on the machine or the data, or was lowered.
    """

    setting: str
    asked: str
    effect: str
    why: str
    notable: bool = False

    @property
    def plain(self) -> bool:
        """True for a plain default, which the table shows with -v only."""
        return self.asked == NOT_REQUESTED and not self.notable


def requested(value: object) -> str:
    """Return a requested value as shown in the table; None means that nothing was requested."""
    if value is None:
        return NOT_REQUESTED
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


@dataclass(frozen=True)
class Name:
    """An object of MindSpore as an argument, such as a type; imported only when the call is made."""

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
    """A MindSpore call as data: it can be printed, compared with the signature, and made."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"

    def resolve(self) -> Any:
        """Import and return the function."""
        return Name(self.name).resolve()

    def make(self, *leading: Any) -> Any:
        """Make the call and return its result; `leading` are positional arguments, such as a network."""
        arguments = {
            key: value.resolve() if isinstance(value, Name) else value for key, value in self.arguments.items()
        }
        return self.resolve()(*leading, **arguments)


@dataclass(frozen=True)
class StartSettings:
    """The settings at the start of a run that its weights depend on; empty or None if not recorded.

    `level` is the instruction set of the CPU kernels, `mindspore` the version. `workers` is the number of decoding
    threads, each with its own random numbers. `optimizer`, `lr` (peak) and `weight_decay` may be defaults of an older
    version. `affinity` is the number of cores that the process was allowed to run on: it affects the last bits of a
    step on CPU (measured on 2.10).
    """

    level: str
    mindspore: str
    workers: int | None = None
    ranks: int | None = None
    optimizer: str | None = None
    lr: float | None = None
    weight_decay: float | None = None
    affinity: int | None = None
