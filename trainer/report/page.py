"""`trainer report RUN...`: a self-contained page about one or more runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.storage.files import write_whole
from trainer.errors import disk_error
from trainer.report import tables
from trainer.report.charts import Over, charts
from trainer.report.compare import Outcome, command, differences, evaluate_command, outcome, settings
from trainer.report.confusions import EvaluationView, view_evaluation
from trainer.report.figures import draw
from trainer.report.history import Line, Missing, Run, read_runs
from trainer.report.render import printable, render, require_packages
from trainer.runs.folder import PAGE

PICTURE_BYTES = 2 << 20  # bytes of worst images on a page, divided among its evaluations
EPOCH_ROWS = 1000  # rows in the tables of epochs, divided among the runs
CHOSEN = ("dataset", "model", "recipe", "optimizer")  # settings shown first
OVERS: tuple[Over, ...] = ("epoch", "step")


@dataclass(frozen=True)
class Report:
    """The page that was written, the outcome of each run, and the missing files by run."""

    file: str
    bytes: int
    runs: tuple[Outcome, ...]
    missing: dict[str, tuple[Missing, ...]]


def write_page(folders: Sequence[Path], out: Path | None) -> Report:
    """Write the page of run folders to `out`: by default RUN/report.html, or ./report.html for several runs.

    Raises TrainerError if a folder has no run, the page cannot be written, or a package is missing.
    """
    require_packages("jinja2", "matplotlib")
    runs = read_runs(folders)
    file = (out or (runs[0].folder if len(runs) == 1 else Path()) / PAGE).absolute()
    page = make_page(runs).encode("utf-8", "backslashreplace")
    try:
        write_whole(file, page)
    except OSError as error:
        raise disk_error(error, f"cannot write {file}", "choose another --out") from None
    return Report(str(file), len(page), tuple(map(outcome, runs)), {run.name: run.missing for run in runs})


def make_page(runs: Sequence[Run]) -> str:
    """Return the HTML page of `runs`."""
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
    """Return (name, SVG, description) of each chart."""
    return [(chart.name, draw(chart), chart.in_words) for chart in charts(runs, over)]


def _evaluations(runs: Sequence[Run]) -> list[EvaluationView]:
    stored = [(number, run, one) for number, run in enumerate(runs, 1) for one in run.evaluations]
    return [view_evaluation(number, run, one, PICTURE_BYTES // len(stored)) for number, run, one in stored]


def _class_tables(evaluations: Sequence[EvaluationView]) -> dict[str, tables.Table]:
    """Return the accuracy per class, by split, for each split whose evaluations have the same classes."""
    by_split: dict[str, list[EvaluationView]] = {}
    for one in evaluations:
        by_split.setdefault(one.evaluation.split, []).append(one)
    comparable = {
        split: views
        for split, views in by_split.items()
        if len({tuple(score.name for score in one.evaluation.classes) for one in views}) == 1
    }
    return {split: tables.class_accuracies(views) for split, views in comparable.items()}


def _view(run: Run, result: Outcome, epoch_rows: int) -> dict[str, object]:
    """Return the values of one run for the template, with the last `epoch_rows` epochs."""
    return {
        "run": run,
        "outcome": result,
        "settings": tables.settings(settings(run)),
        "chosen": [(name, printable(value)) for name in CHOSEN if (value := _chosen(run, name)) is not None],
        "command": command(run),
        "epochs": tables.epochs(run.epochs[-epoch_rows:]),
        "starts": tables.starts(run),
        "nonfinite": None if run.nonfinite is None or run.result is not None else _nonfinite(run.nonfinite),
        "missing": [(printable(one.file), printable(one.why)) for one in run.missing],
        "evaluate": None if run.evaluations else evaluate_command(run),
    }


def _chosen(run: Run, name: str) -> str | None:
    """Return the value in effect or the requested value, or None if both are unknown."""
    value = run.decisions[name][1] if name in run.decisions else run.options.get(name)
    return None if value is None else str(value)


def _nonfinite(line: Line) -> dict[str, object]:
    images = tables.nonfinite_images(line.get("images"))
    return {"what": line.get("what"), "inputs": line.get("inputs"), "table": images}
