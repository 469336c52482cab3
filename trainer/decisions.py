"""What travels between the device rooms and the program: a decision to print, a MindSpore call to make."""

import importlib
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.counting import many

NOT_ASKED = "default"
LEAST_WIDTH = 40  # a table is never wrapped for a narrower terminal
GAP = "  "


@dataclass(frozen=True)
class Decision:
    """One line of the table that the program prints: what was asked, what is in effect, and why.

    `notable` marks a line that is no plain default although nothing was asked for: it depends on the machine or the
    data, or was lowered.
    """

    setting: str
    asked: str
    effect: str
    why: str
    notable: bool = False

    @property
    def plain(self) -> bool:
        """Whether the line is a plain default, which the table leaves out unless all lines are wanted."""
        return self.asked == NOT_ASKED and not self.notable


def requested(value: object) -> str:
    """How the table shows what the user gave; None means that nothing was given."""
    if value is None:
        return NOT_ASKED
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


def settings_table(decisions: Sequence[Decision], width: int | None, every: bool) -> str:
    """The table of a command: without plain defaults, which a last line counts, unless `every` line is wanted.

    `width` is that of the terminal in columns, None for a stream that is none.
    """
    shown = [one for one in decisions if every or not one.plain]
    hidden = len(decisions) - len(shown)
    parts = [table(shown, width)] if shown else []
    if hidden:
        parts.append(f"plain defaults, shown with -v: {many(hidden, 'more setting' if shown else 'setting')}")
    return "\n".join(parts)


def table(decisions: Sequence[Decision], width: int | None = None) -> str:
    """The decisions as aligned text, a head line first; cells are wrapped where a line would pass `width` columns."""
    rows = [("setting", "asked", "in effect", "why")]
    rows += [(one.setting, one.asked, one.effect, one.why) for one in decisions]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    if width is not None and sum(widths) + 3 * len(GAP) > width:
        widths = _narrowed(widths, max(width, LEAST_WIDTH))
    return "\n".join(line for row in rows for line in _lines(row, widths))


def _narrowed(widths: Sequence[int], width: int) -> list[int]:
    """The first three columns at most so much each, the last what is left."""
    most = (width // 4, width // 6, width * 11 // 40)  # 22 of 80: the longest name of a value that MindSpore has
    first = [min(own, limit) for own, limit in zip(widths, most, strict=False)]
    return [*first, width - sum(first) - 3 * len(GAP)]


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    cells = [
        textwrap.wrap(cell, width, break_on_hyphens=False) if len(cell) > width else [cell]
        for cell, width in zip(row, widths, strict=True)
    ]
    for number in range(max(map(len, cells))):
        parts = [cell[number] if number < len(cell) else "" for cell in cells]
        yield GAP.join(map(str.ljust, parts, widths)).rstrip()


@dataclass(frozen=True)
class StartSettings:
    """The settings of a run's first steps that its weights depend on. Those that were not recorded are empty or None.

    `level` is the instruction set of the CPU kernels, `mindspore` the version. `workers` are the threads that decode:
    each draws its own random numbers, so augmentation depends on how many there are. `optimizer`, `lr` (peak) and
    `weight_decay` may come from a table of defaults that has changed since. `affinity` counts the cores that the
    process was allowed to run on: with another number the last bits of a step on CPU differ (measured on 2.10).
    """

    level: str
    mindspore: str
    workers: int | None = None
    ranks: int | None = None
    optimizer: str | None = None
    lr: float | None = None
    weight_decay: float | None = None
    affinity: int | None = None
