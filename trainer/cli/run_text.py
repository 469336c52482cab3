"""Text that `trainer run` prints while it works: the settings table and the bottleneck. Pure."""

import textwrap
from collections.abc import Iterator, Sequence

from schemas.counting import many
from trainer.decisions import Decision
from trainer.training.meter import BALANCED, COMPUTE, FEED, WaitReport

LEAST_WIDTH = 40  # columns; tables are not wrapped for narrower terminals
GAP = "  "
DOCTOR = "'trainer doctor' with the same options"
STAGES = {FEED: "data feed", BALANCED: "data feed and training step about equally", COMPUTE: "training step"}
REMEDIES = {
    FEED: f"{DOCTOR} tries --workers, --prefetch and smaller shards",
    BALANCED: f"{DOCTOR} tries faster settings for both",
    COMPUTE: f"{DOCTOR} tries --amp-level and --batch-size",
}


def bottleneck_text(report: WaitReport) -> str:
    """Return the last line of a run: its bottleneck, the data wait, and a command that tries remedies."""
    if report.bound is None or report.data_wait is None:
        return f"bottleneck: cannot be measured while data sinking is on; {DOCTOR} measures it"
    # On CPU a feed thread may occupy the core that the step needs. That time is not counted as data wait.
    estimate = " (estimate: on CPU both use the same cores)" if report.device == "CPU" and report.bound != FEED else ""
    wait = f"waited for data {report.data_wait:.0%} of the time"
    return f"bottleneck: {STAGES[report.bound]}{estimate}; {wait}; {REMEDIES[report.bound]}"


def settings_table(decisions: Sequence[Decision], width: int | None, every: bool) -> str:
    """Return the settings table. Plain defaults are only counted, in a last line, unless `every` is True.

    `width` is the terminal width in columns, or None if the stream is not a terminal.
    """
    shown = [decision for decision in decisions if every or not decision.plain]
    hidden = len(decisions) - len(shown)
    parts = [table(shown, width)] if shown else []
    if hidden:
        parts.append(f"plain defaults, shown with -v: {many(hidden, 'more setting' if shown else 'setting')}")
    return "\n".join(parts)


def table(decisions: Sequence[Decision], width: int | None = None) -> str:
    """Return the decisions as aligned text with a header. Cells are wrapped to fit `width` columns."""
    rows = [("setting", "requested", "in effect", "why")]
    rows += [(decision.setting, decision.asked, decision.effect, decision.why) for decision in decisions]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    if width is not None and sum(widths) + 3 * len(GAP) > width:
        widths = _narrowed(widths, max(width, LEAST_WIDTH))
    return "\n".join(line for row in rows for line in _lines(row, widths))


def _narrowed(widths: Sequence[int], width: int) -> list[int]:
    """Return column widths that fit in `width`: the first three are limited, the last takes the remaining space."""
    limits = (width // 4, max(width // 6, len("requested")), width * 11 // 40)  # 22 of 80: the longest value
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
