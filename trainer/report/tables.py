"""Tables of the page, in the form of the macro `table` of schemas/page/parts.html: columns, and rows of cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.evaluation.details import ClassScore
from trainer.report.compare import Difference, Outcome, Setting
from trainer.report.confusions import EvaluationView, Pair
from trainer.report.history import Line, Run, number
from trainer.report.render import printable

TEXT, NUMBER = "text", "number"
Cell = dict[str, object]


@dataclass(frozen=True)
class Table:
    """A table. `columns` are (title, kind), and the first cell of a row is its name.

    A cell is text, or a dict with `text` and the `value` for sorting.
    """

    columns: list[tuple[str, str]]
    rows: Sequence[Sequence[object]]


def share(value: float | None) -> Cell:
    """Return a cell with a share 0..1 as per cent."""
    return _cell(value, "" if value is None else f"{100 * value:.2f} %")


def figure(value: float | None) -> Cell:
    """Return a cell with a measured value, in four digits."""
    return _cell(value, "" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}")


def count(value: float | None) -> Cell:
    """Return a cell with a whole number."""
    return _cell(value, "" if value is None else f"{value:,.0f}")


def duration(seconds: float | None) -> Cell:
    """Return a cell with a duration in suitable units."""
    if seconds is None:
        return _cell(None, "")
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
    return _cell(seconds, text)


def _cell(value: float | None, text: str) -> Cell:
    return {"text": text, "value": "" if value is None else value}


def results(outcomes: Sequence[Outcome]) -> Table:
    """Return a table with one row per run."""
    splits = sorted({split for one in outcomes for split in one.evaluated} - {"val"})  # val is evaluated in each epoch
    columns = [("run", TEXT), ("state", TEXT), ("val accuracy", NUMBER), ("best epoch", NUMBER)]
    columns += [("epochs", NUMBER), ("train loss", NUMBER), ("val loss", NUMBER)]
    columns += [("images/s", NUMBER), ("data wait", NUMBER), ("bottleneck", TEXT), ("time", NUMBER)]
    columns += [(f"{printable(split)} accuracy", NUMBER) for split in splits]
    rows = [
        [
            f"{index} {printable(one.run)}",
            one.state,
            share(one.best_accuracy),
            count(one.best_epoch),
            count(one.epochs),
            figure(one.last_loss),
            figure(one.best_val_loss),
            figure(one.images_per_s),
            share(one.data_wait),
            one.bound or "not measured",
            duration(one.seconds),
            *(share(one.evaluated.get(split)) for split in splits),
        ]
        for index, one in enumerate(outcomes, 1)
    ]
    return Table(columns, rows)


def epochs(lines: Sequence[Line]) -> Table:
    """Return a table with one row per epoch."""
    kinds: dict[str, Callable[[float | None], Cell]] = {
        "epoch": count,
        "step": count,
        "loss": figure,
        "val_loss": figure,
        "val_accuracy": share,
        "lr": figure,
    }
    kinds |= {"images_per_s": figure, "data_wait": share, "skipped": count, "train_s": duration, "val_s": duration}
    titles = {"loss": "training loss", "val_loss": "val loss", "val_accuracy": "val accuracy", "lr": "learning rate"}
    titles |= {"images_per_s": "images/s", "data_wait": "data wait", "train_s": "training", "val_s": "evaluation"}
    titles |= {"skipped": "updates skipped"}
    columns = [(titles.get(name, name), NUMBER) for name in kinds]
    rows = [[kind(number(line.get(name))) for name, kind in kinds.items()] for line in lines]
    return Table(columns, rows)


def settings(found: Sequence[Setting]) -> Table:
    """Return a table with one row per setting."""
    columns = [("setting", TEXT), ("requested", TEXT), ("in effect", TEXT), ("why", TEXT)]
    return Table(columns, [[*map(printable, (one.name, one.asked, one.effect, one.why))] for one in found])


def differences(found: Sequence[Difference], runs: Sequence[Run]) -> Table:
    """Return a table with one row per setting and one column per run."""
    columns = [("setting", TEXT), *((f"{index} {printable(run.name)}", TEXT) for index, run in enumerate(runs, 1))]
    return Table(columns, [[*map(printable, (one.name, *one.values))] for one in found])


def starts(run: Run) -> Table:
    """Return a table with one row per process of the run, and the settings that changed since the process before."""
    columns = [("started, UTC", TEXT), ("after step", NUMBER), ("software", TEXT), ("changed settings", TEXT)]
    rows = []
    before: dict[str, str] = {}
    for index, one in enumerate(run.starts):
        now = {decision.setting: decision.effect for decision in one.decisions}
        others = [f"{name} {effect}" for name, effect in now.items() if index and before.get(name) != effect]
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
    """Return a table with one row per class of an evaluation."""
    columns = [("class", TEXT), ("rows", NUMBER), ("correct", NUMBER), ("accuracy", NUMBER)]
    columns += [("most predicted instead", TEXT), ("times", NUMBER)]
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


def class_accuracies(evaluations: Sequence[EvaluationView]) -> Table:
    """Return a table with one row per class and one column per evaluation. All evaluations have the same classes."""
    columns = [("class", TEXT), ("rows", NUMBER)]
    columns += [(f"{one.number} {printable(one.run)}", NUMBER) for one in evaluations]
    every = zip(*(one.evaluation.classes for one in evaluations), strict=True)
    rows = [[printable(of[0].name), count(of[0].rows), *(share(one.accuracy) for one in of)] for of in every]
    return Table(columns, rows)


def pairs(found: Sequence[Pair]) -> Table:
    """Return a table with one row per pair of confused classes."""
    columns = [("class", TEXT), ("predicted", TEXT), ("rows", NUMBER), ("of the class", NUMBER)]
    rows = [[printable(one.label), printable(one.predicted), count(one.rows), share(one.share)] for one in found]
    return Table(columns, rows)


def nonfinite_images(images: object) -> Table:
    """Return a table with one row per image of the batch with a non-finite loss, from nonfinite.json."""
    entries = [one for one in images if isinstance(one, dict)] if isinstance(images, list) else []
    rows = [[printable(one.get("key", "")), count(number(one.get("step")))] for one in entries]
    return Table([("key", TEXT), ("step", NUMBER)], rows)
