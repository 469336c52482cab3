"""What travels between the device rooms and the program: a decision to print, a MindSpore call to make."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Decision:
    """One line of the table that the program prints: what was asked, what is in effect, and why."""

    setting: str
    asked: str
    effect: str
    why: str


def asked(value: object) -> str:
    """How the table shows what the user gave; None means that nothing was given."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


@dataclass(frozen=True)
class Name:
    """Something of MindSpore's that an argument stands for, such as a type, looked up only when a call is made."""

    dotted: str

    def __repr__(self) -> str:
        return self.dotted

    def resolve(self) -> Any:
        """What the dotted name stands for: the longest importable module, then its attributes."""
        parts = self.dotted.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            try:
                found: Any = importlib.import_module(".".join(parts[:cut]))
            except ModuleNotFoundError:
                continue
            for attribute in parts[cut:]:
                found = getattr(found, attribute)
            return found
        raise ModuleNotFoundError(self.dotted)


@dataclass(frozen=True)
class Call:
    """A call into MindSpore as data, so that it can be printed, tested against the signature, and then made."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"

    def resolve(self) -> Any:
        """The function that the dotted name stands for."""
        return Name(self.name).resolve()

    def make(self, *leading: Any) -> Any:
        """Make the call; `leading` are objects of this run (a network, a dataset) that come before the arguments."""
        given = {key: value.resolve() if isinstance(value, Name) else value for key, value in self.arguments.items()}
        return self.resolve()(*leading, **given)


def table(decisions: Sequence[Decision]) -> str:
    """The decisions as aligned text, a head line first."""
    rows = [("setting", "asked", "in effect", "why")]
    rows += [(one.setting, one.asked, one.effect, one.why) for one in decisions]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  ".join([*map(str.ljust, row, widths), row[3]]) for row in rows)
