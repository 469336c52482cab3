"""Decisions (requested, in effect, why) and MindSpore calls as data, and the settings table."""

import importlib
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.counting import many

NOT_REQUESTED = "default"
AS_STARTED = "as this run was started"  # why of a setting that a resumed run keeps
LEAST_WIDTH = 40  # tables are not wrapped for narrower terminals
GAP = "  "


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


def settings_table(decisions: Sequence[Decision], width: int | None, every: bool) -> str:
    """Return the table without plain defaults, which a last line counts, or with all lines if `every` is set.

    `width` is the terminal width in columns, None if the stream is not a terminal.
    """
    shown = [one for one in decisions if every or not one.plain]
    hidden = len(decisions) - len(shown)
    parts = [table(shown, width)] if shown else []
    if hidden:
        parts.append(f"plain defaults, shown with -v: {many(hidden, 'more setting' if shown else 'setting')}")
    return "\n".join(parts)


def table(decisions: Sequence[Decision], width: int | None = None) -> str:
    """Return the decisions as aligned text with a header; cells are wrapped to fit `width` columns."""
    rows = [("setting", "requested", "in effect", "why")]
    rows += [(one.setting, one.asked, one.effect, one.why) for one in decisions]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    if width is not None and sum(widths) + 3 * len(GAP) > width:
        widths = _narrowed(widths, max(width, LEAST_WIDTH))
    return "\n".join(line for row in rows for line in _lines(row, widths))


def _narrowed(widths: Sequence[int], width: int) -> list[int]:
    """Return column widths that add up to `width`: limits for the first three, the rest for the last."""
    limits = (width // 4, max(width // 6, len("requested")), width * 11 // 40)  # 22 of 80: MindSpore's longest
    first = [min(own, limit) for own, limit in zip(widths, limits, strict=False)]
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
