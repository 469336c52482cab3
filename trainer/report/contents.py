"""`trainer report RUN...`: one page that holds all it shows, of one run or of several side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.storage.files import write_whole
from trainer.errors import disk_error
from trainer.report import tables
from trainer.report.charts import Over, charts
from trainer.report.compare import Outcome, command, differences, evaluate_command, outcome, settings
from trainer.report.confusions import Shown, shown
from trainer.report.figures import draw
from trainer.report.history import Line, Missing, Run, read_runs
from trainer.report.page import need, printable, render
from trainer.runs.folder import PAGE

PICTURE_BYTES = 2 << 20  # of worst images on a page, shared by its evaluations
EPOCH_ROWS = 1000  # in the tables of epochs, shared by the runs
CHOSEN = ("dataset", "model", "recipe", "optimizer")  # what a reader asks for first
OVERS: tuple[Over, ...] = ("epoch", "step")


@dataclass(frozen=True)
class Report:
    """The page that was written: what each run came to, and by run what its folder did not tell."""

    file: str
    bytes: int
    runs: tuple[Outcome, ...]
    missing: dict[str, tuple[Missing, ...]]


def write_page(folders: Sequence[Path], out: Path | None) -> Report:
    """Write the page of these run folders to `out`: by default RUN/report.html, or report.html here when they are
    several. Raises TrainerError for a folder without a run, a page that cannot be written, or a missing package.
    """
    need("jinja2", "matplotlib")
    runs = read_runs(folders)
    file = (out or (runs[0].folder if len(runs) == 1 else Path()) / PAGE).absolute()
    page = make_page(runs).encode("utf-8", "backslashreplace")
    try:
        write_whole(file, page)
    except OSError as error:
        raise disk_error(error, f"cannot write {file}", "give --out another name") from None
    return Report(str(file), len(page), tuple(map(outcome, runs)), {run.name: run.missing for run in runs})


def make_page(runs: Sequence[Run]) -> str:
    """The page of runs that were read."""
    evaluations = _evaluations(runs)
    figures = {over: _figures(runs, over) for over in OVERS}
    contents = [
        ("results", "Results"),
        *((f"{over}s", f"Curves by {over}") for over in OVERS if figures[over]),
        ("settings", "Settings" if len(runs) == 1 else "Settings that differ"),
        ("evaluations", "Evaluation" if len(runs) == 1 else "Evaluations"),
        *([("each", "Each run")] if len(runs) > 1 else []),
    ]
    outcomes = [outcome(run) for run in runs]
    return render(
        "report.html",
        contents,
        runs=[_view(run, one, EPOCH_ROWS // len(runs)) for run, one in zip(runs, outcomes, strict=True)],
        results=tables.results(outcomes),
        differences=tables.differences(differences(runs), runs),
        figures=figures,
        evaluations=evaluations,
        class_tables=_class_tables(evaluations) if len(runs) > 1 else {},
        tables=tables,
    )


def _figures(runs: Sequence[Run], over: Over) -> list[tuple[str, str, str]]:
    """Name, SVG, and words for each chart."""
    return [(chart.name, draw(chart), chart.in_words) for chart in charts(runs, over)]


def _evaluations(runs: Sequence[Run]) -> list[Shown]:
    all_found = [(place, run, found) for place, run in enumerate(runs) for found in run.evaluations]
    return [shown(place, run, found, PICTURE_BYTES // len(all_found)) for place, run, found in all_found]


def _class_tables(evaluations: Sequence[Shown]) -> dict[str, tables.Table]:
    """By split the accuracies of each class side by side, where the evaluations on it have the same classes."""
    by_split: dict[str, list[Shown]] = {}
    for one in evaluations:
        by_split.setdefault(one.found.split, []).append(one)
    alike = {
        split: found
        for split, found in by_split.items()
        if len({tuple(score.name for score in one.found.classes) for one in found}) == 1
    }
    return {split: tables.class_accuracies(found) for split, found in alike.items()}


def _view(run: Run, came_to: Outcome, epoch_rows: int) -> dict[str, Any]:
    """One run as the template takes it, with so many of its epochs in the table."""
    return {
        "run": run,
        "outcome": came_to,
        "settings": tables.settings(settings(run)),
        "chosen": [(name, printable(value)) for name in CHOSEN if (value := _chosen(run, name)) is not None],
        "command": command(run),
        "epochs": tables.epochs(run.epochs[-epoch_rows:]),
        "starts": tables.starts(run),
        "lost": None if run.lost is None or run.result is not None else _lost(run.lost),
        "missing": [(printable(one.file), printable(one.why)) for one in run.missing],
        "evaluate": None if run.evaluations else evaluate_command(run),
    }


def _chosen(run: Run, name: str) -> str | None:
    """What was in effect, or else what was asked for; None when it is not known."""
    value = run.decisions[name][1] if name in run.decisions else run.options.get(name)
    return None if value is None else str(value)


def _lost(said: Line) -> dict[str, Any]:
    return {"what": said.get("what"), "inputs": said.get("inputs"), "table": tables.lost(said.get("images"))}
