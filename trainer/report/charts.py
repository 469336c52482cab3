"""Charts of runs, by epoch and by step."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from trainer.report.figures import Chart, Curve
from trainer.report.history import Run, series

Over = Literal["epoch", "step"]
# name, title, unit
BY_EPOCH = (
    ("loss", "Training loss", ""),
    ("val_loss", "Val loss", ""),
    ("val_accuracy", "Val accuracy", "%"),
    ("lr", "Learning rate, end of epoch", ""),
    ("images_per_s", "Throughput", "images/s"),
    ("data_wait", "Time spent waiting for data", "%"),
)
BY_STEP = (
    ("loss", "Training loss", ""),
    ("lr", "Learning rate", ""),
    ("images_per_s", "Throughput", "images/s"),
    ("data_wait", "Time spent waiting for data", "%"),
)
NOISY = ("loss", "images_per_s", "data_wait")
LOSSES = ("loss", "val_loss")
FROM_ZERO = ("images_per_s", "data_wait")
FEW = 40  # a curve by step with fewer points is not smoothed
TOO_FEW = 5  # with fewer points no curves by step are drawn


def charts(runs: Sequence[Run], over: Over) -> list[Chart]:
    """Return a chart for each value of the runs, with curves labelled 1, 2, ... in the order of the runs.

    For a single run, training and val loss share a chart.
    """
    if over == "step" and max((len(run.steps) for run in runs), default=0) < TOO_FEW:
        return []
    wanted = BY_EPOCH if over == "epoch" else BY_STEP
    drawn = [_chart(runs, over, name, title, unit) for name, title, unit in wanted]
    if len(runs) == 1 and over == "epoch":
        drawn = [_losses(runs[0]), *drawn[2:]]
    return [chart for chart in drawn if chart.curves]


def _chart(runs: Sequence[Run], over: Over, name: str, title: str, unit: str) -> Chart:
    curves = tuple(
        Curve(str(number + 1), number, values, noisy=name in NOISY and over == "step" and len(values.x) >= FEW)
        for number, run in enumerate(runs)
        if (values := series(run.epochs if over == "epoch" else run.steps, name, over)).measured
    )
    return Chart(f"{over}-{name}", title, over, unit, curves, _marks(runs, over), name in FROM_ZERO, name in LOSSES)


def _losses(run: Run) -> Chart:
    both = [("train", series(run.epochs, "loss", "epoch")), ("val", series(run.epochs, "val_loss", "epoch"))]
    curves = tuple(Curve(label, number, values) for number, (label, values) in enumerate(both) if values.measured)
    return Chart("epoch-loss", "Loss", "epoch", "", curves, _marks([run], "epoch"), may_log=True)


def _marks(runs: Sequence[Run], over: Over) -> tuple[float, ...]:
    """Return the x values at which a single run was resumed. For several runs the marks would be ambiguous."""
    if len(runs) != 1:
        return ()
    steps = np.array([start.step for start in runs[0].starts[1:]], np.float64)
    if over == "epoch":
        steps = steps / (runs[0].steps_per_epoch or np.nan)
    return tuple(float(step) for step in steps if np.isfinite(step) and step > 0)
