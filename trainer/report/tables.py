"""The tables of a report, as the macro `table` of schemas/page/parts.html takes them: columns, and rows of cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.evaluation.details import ClassScore
from trainer.report.compare import Difference, Outcome, Setting
from trainer.report.confusions import Pair, Shown
from trainer.report.history import Line, Run, number
from trainer.report.page import printable

TEXT, NUMBER = "text", "number"


@dataclass(frozen=True)
class Table:
    """`columns` are (title, kind); of each row the first cell names it. A cell is text, or `text` with the `value` that
    it is sorted by.
    """

    columns: list[tuple[str, str]]
    rows: list[list[Any]]


def share(value: float | None) -> dict[str, Any]:
    """A share 0..1 as per cent."""
    return _cell(value, "" if value is None else f"{100 * value:.2f} %")


def figure(value: float | None) -> dict[str, Any]:
    """A measured value, to four digits."""
    return _cell(value, "" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}")


def count(value: float | None) -> dict[str, Any]:
    """A whole number."""
    return _cell(value, "" if value is None else f"{value:,.0f}")


def duration(seconds: float | None) -> dict[str, Any]:
    """A time in the units that suit it."""
    if seconds is None:
        return _cell(None, "")
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
    return _cell(seconds, text)


def _cell(value: float | None, text: str) -> dict[str, Any]:
    return {"text": text, "value": "" if value is None else value}


def results(outcomes: Sequence[Outcome]) -> Table:
    """A row a run."""
    splits = sorted({split for one in outcomes for split in one.evaluated} - {"val"})  # val was scored in each epoch
    columns = [("run", TEXT), ("state", TEXT), ("val accuracy", NUMBER), ("epoch", NUMBER)]
    columns += [("of", NUMBER), ("train loss", NUMBER), ("val loss", NUMBER)]
    columns += [("images/s", NUMBER), ("data wait", NUMBER), ("limited by", TEXT), ("time", NUMBER)]
    columns += [(f"{printable(split)} accuracy", NUMBER) for split in splits]
    rows = [
        [
            f"{place} {printable(one.run)}",
            one.state,
            share(one.best_accuracy),
            count(one.best_epoch),
            count(one.epochs),
            figure(one.last_loss),
            figure(one.best_val_loss),
            figure(one.images_per_s),
            share(one.data_wait),
            one.bound or "not seen",
            duration(one.seconds),
            *(share(one.evaluated.get(split)) for split in splits),
        ]
        for place, one in enumerate(outcomes, 1)
    ]
    return Table(columns, rows)


def epochs(lines: Sequence[Line]) -> Table:
    """A row an epoch."""
    kinds: dict[str, Callable[[float | None], dict[str, Any]]] = {
        "epoch": count,
        "step": count,
        "loss": figure,
        "val_loss": figure,
        "val_accuracy": share,
        "lr": figure,
    }
    kinds |= {"images_per_s": figure, "data_wait": share, "skipped": count, "train_s": duration, "val_s": duration}
    titles = {"loss": "training loss", "val_loss": "val loss", "val_accuracy": "val accuracy", "lr": "rate"}
    titles |= {"images_per_s": "images/s", "data_wait": "data wait", "train_s": "training", "val_s": "evaluation"}
    titles |= {"skipped": "updates skipped"}
    columns = [(titles.get(name, name), NUMBER) for name in kinds]
    rows = [[kind(number(line.get(name))) for name, kind in kinds.items()] for line in lines]
    return Table(columns, rows)


def settings(found: Sequence[Setting]) -> Table:
    """A row a setting."""
    columns = [("setting", TEXT), ("asked", TEXT), ("in effect", TEXT), ("why", TEXT)]
    return Table(columns, [[*map(printable, (one.name, one.asked, one.effect, one.why))] for one in found])


def differences(found: Sequence[Difference], runs: Sequence[Run]) -> Table:
    """A row a setting, a column a run."""
    columns = [("setting", TEXT), *((f"{place} {printable(run.name)}", TEXT) for place, run in enumerate(runs, 1))]
    return Table(columns, [[*map(printable, (one.name, *one.values))] for one in found])


def starts(run: Run) -> Table:
    """A row a process of the run, with the decisions that were others than those of the one before."""
    columns = [("begun, UTC", TEXT), ("after step", NUMBER), ("software", TEXT), ("decided otherwise", TEXT)]
    rows = []
    before: dict[str, str] = {}
    for place, one in enumerate(run.starts):
        now = {decision.setting: decision.effect for decision in one.decisions}
        others = [f"{name} {effect}" for name, effect in now.items() if place and before.get(name) != effect]
        versions = ", ".join(f"{name} {version}" for name, version in one.software.items())
        rows.append(
            [
                printable(one.at[:19].replace("T", " ")),
                count(one.step),
                printable(versions),
                printable(", ".join(others)),
            ]
        )
        before = now
    return Table(columns, rows)


def classes(scores: Sequence[ClassScore]) -> Table:
    """A row a class of one evaluation."""
    columns = [("class", TEXT), ("rows", NUMBER), ("hit", NUMBER), ("accuracy", NUMBER)]
    columns += [("most taken for", TEXT), ("times", NUMBER)]
    rows = [
        [
            printable(one.name),
            count(one.rows),
            count(one.correct),
            share(one.accuracy),
            printable(one.taken_for or ""),
            count(one.taken or None),
        ]
        for one in scores
    ]
    return Table(columns, rows)


def class_accuracies(evaluations: Sequence[Shown]) -> Table:
    """A row a class, a column an evaluation; all have the same classes."""
    columns = [("class", TEXT), ("rows", NUMBER)]
    columns += [(f"{one.number} {printable(one.run)}", NUMBER) for one in evaluations]
    every = zip(*(one.found.classes for one in evaluations), strict=True)
    rows = [[printable(of[0].name), count(of[0].rows), *(share(one.accuracy) for one in of)] for of in every]
    return Table(columns, rows)


def pairs(found: Sequence[Pair]) -> Table:
    """A row a pair of classes that were confused."""
    columns = [("class", TEXT), ("taken for", TEXT), ("rows", NUMBER), ("of the class", NUMBER)]
    rows = [[printable(one.label), printable(one.predicted), count(one.rows), share(one.share)] for one in found]
    return Table(columns, rows)


def lost(images: object) -> Table:
    """A row an image of the batch whose loss was lost, as nonfinite.json names them."""
    given = [one for one in images if isinstance(one, dict)] if isinstance(images, list) else []
    rows = [[printable(one.get("key", "")), count(number(one.get("step")))] for one in given]
    return Table([("key", TEXT), ("step", NUMBER)], rows)
