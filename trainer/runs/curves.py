"""Draw loss, accuracy, learning rate and throughput per epoch as one SVG, with the standard library only."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from trainer.errors import TrainerError

WIDTH, HEIGHT = 460, 260  # size of a panel in pixels
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 52, 40  # margins of the plot within a panel, in pixels
INK, FAINT, GRID = "#1f2933", "#616e7c", "#e4e7eb"
FIRST, SECOND = "#2563eb", "#ea580c"  # blue and orange, which colour-blind readers can distinguish
FONT = "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\""


@dataclass(frozen=True)
class Line:
    """One curve: legend, colour, and one value per epoch. A missing value is None."""

    name: str
    colour: str
    values: Sequence[float | None]


def draw_curves(metrics: Path) -> str:
    """Return an SVG of the file metrics.jsonl of a run. Raises TrainerError if the file is invalid or has no epoch."""
    try:
        reports = [json.loads(line) for line in metrics.read_text().splitlines()]
    except ValueError as error:
        raise TrainerError(f"cannot read {metrics}: {error}") from None
    if not reports:
        raise TrainerError(f"{metrics} has no epoch yet")
    epochs = [report["epoch"] for report in reports]

    def values(name: str, factor: float = 1.0) -> list[float | None]:
        return [None if report.get(name) is None else report[name] * factor for report in reports]

    panels = [
        ("Loss", "", [Line("train", FIRST, values("loss")), Line("val", SECOND, values("val_loss"))]),
        ("Accuracy on val", " %", [Line("val", SECOND, values("val_accuracy", 100))]),
        ("Learning rate, end of epoch", "", [Line("rate", FIRST, values("lr"))]),
        ("Images per second", "", [Line("train", FIRST, values("images_per_s"))]),
    ]
    drawn = [
        f'<g transform="translate({i % 2 * WIDTH} {i // 2 * HEIGHT})">{_panel(title, unit, lines, epochs)}</g>'
        for i, (title, unit, lines) in enumerate(panels)
    ]
    size = f'width="{2 * WIDTH}" height="{2 * HEIGHT}" viewBox="0 0 {2 * WIDTH} {2 * HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT} font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *drawn, "</svg>", ""])


def _panel(title: str, unit: str, lines: list[Line], epochs: list[int]) -> str:
    lines = [line for line in lines if any(_finite(value) for value in line.values)]
    parts = [f'<text x="{LEFT}" y="24" font-size="14" font-weight="600" fill="{INK}">{escape(title)}</text>']
    if not lines:
        parts.append(f'<text x="{LEFT}" y="{HEIGHT // 2}" fill="{FAINT}">not measured</text>')
        return "".join(parts)
    ticks = nice_ticks([value for line in lines for value in line.values if value is not None and _finite(value)])
    low, high = ticks[0], ticks[-1]
    first, last = epochs[0], epochs[-1]

    def x(epoch: float) -> float:
        share = 0.5 if last == first else (epoch - first) / (last - first)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    for tick in ticks:
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
        label = f"{tick:.10g}{unit}"
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="{FAINT}">{label}</text>')
    for epoch in _epoch_ticks(first, last):
        place = f'x="{x(epoch):.1f}" y="{HEIGHT - BOTTOM + 18}"'
        parts.append(f'<text {place} text-anchor="middle" fill="{FAINT}">{epoch}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end" fill="{FAINT}">epoch</text>')
    for number, line in enumerate(lines):
        points = [(x(e), y(v)) for e, v in zip(epochs, line.values, strict=True) if v is not None and _finite(v)]
        parts += _curve(points, line.colour)
        if len(lines) > 1:
            at = WIDTH - RIGHT - 60 * (len(lines) - number)
            parts.append(f'<path d="M{at} 40h16" stroke="{line.colour}" stroke-width="2.5"/>')
            parts.append(f'<text x="{at + 21}" y="44" fill="{INK}">{line.name}</text>')
    return "".join(parts)


def _curve(points: list[tuple[float, float]], colour: str) -> list[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    stroke = f'fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"'
    dots = points if len(points) <= 30 else points[-1:]
    return [
        f'<path d="M{path}" {stroke}/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in dots),
    ]


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def nice_ticks(values: Sequence[float], wanted: int = 4) -> list[float]:
    """Return about `wanted` axis ticks that enclose all values, spaced by 1, 2 or 5 times a power of ten."""
    low, high = min(values), max(values)
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / wanted))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * wanted >= span * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _epoch_ticks(first: int, last: int) -> list[int]:
    if first == last:
        return [first]
    step = max(1, round(nice_ticks([0, last - first], 8)[1]))
    return sorted({first, *range(step * (first // step + 1), last + 1, step)})
