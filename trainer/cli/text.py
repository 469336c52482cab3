"""Text of the commands' results, except for doctor and bench (doctor_text.py). Pure. MindSpore is not imported."""

import dataclasses
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.counting import many
from trainer.cli.progress import decimals
from trainer.cli.run_text import bottleneck_text, table
from trainer.runs.result import TrainResult

if TYPE_CHECKING:
    from trainer.evaluation.details import Evaluation
    from trainer.evaluation.evaluate import EvaluationFiles
    from trainer.evaluation.export import Exported
    from trainer.evaluation.label_scores import LabelEvaluation
    from trainer.evaluation.predict import Predicted
    from trainer.plan.dry_run import DryRun
    from trainer.plan.preview import Preview
    from trainer.report.page import Report

WEAKEST = 5  # classes and images listed by `trainer eval`


def train_text(result: TrainResult) -> str:
    """Return a line with the best score of a run and the checkpoint."""
    score = "no val split" if result.best_accuracy is None else f"val accuracy {result.best_accuracy:.2%}"
    when = f"epoch {result.best_epoch} of {result.epochs}, {result.seconds:.0f} s"
    return f"{score} ({when}): {result.best_checkpoint}"


def complete_text(result: TrainResult) -> str:
    """Return a note on a run that was already complete."""
    return f"{result.run} is complete; nothing is left to do"


def preview_text(preview: "Preview") -> str:
    """Return a line with the file and the content of a preview."""
    images = f"{many(preview.images, 'image')} of {preview.rows} after recipe {preview.recipe}"
    return f"{preview.file}: {images}; nothing trained"


def dry_run_text(planned: "DryRun", width: int | None) -> str:
    """Return the whole plan. `width` is the terminal width in columns, or None for a file."""
    calls = [str(call) for call in planned.plan.effect.calls]
    if width is not None:
        calls = [textwrap.fill(call, max(width - 2, 40), subsequent_indent=" " * 6) for call in calls]
    lines = "\n  ".join(["MindSpore calls:", *calls])
    return f"{table(planned.plan.decisions, width)}\n\n{lines}\n\n{_outlook(planned)}"


def _outlook(planned: "DryRun") -> str:
    if planned.complete:
        return f"{planned.out} is complete; nothing would be done"
    config, verb = planned.plan.config, "resume" if planned.resumes else "start"
    would = f"would {verb} {config.model} for {many(config.epochs, 'epoch')} on {planned.plan.folder} in {planned.out}"
    note = f"\n{planned.note}" if planned.note else ""
    warnings = "".join(f"\nwarning: {warning}" for warning in planned.plan.warnings)
    return f"{would}{note}{warnings}\nnot checked: {'; '.join(planned.unchecked)}"


def eval_text(evaluation: "Evaluation | LabelEvaluation") -> str:
    """Return the scores, the weakest classes and the worst images of an evaluation."""
    from trainer.evaluation.label_scores import LabelEvaluation  # NumPy only when a result is there

    if isinstance(evaluation, LabelEvaluation):
        return _label_eval_text(evaluation)
    other = "" if evaluation.same_data else "; not the training dataset"
    top5 = "" if evaluation.top5 is None else f", top-5 {evaluation.top5:.2%}"
    accuracy = f"accuracy {evaluation.accuracy:.2%} ({evaluation.correct} of {evaluation.rows})"
    first = f"{evaluation.split} {accuracy}{top5}, loss {decimals(evaluation.loss)}{other}"
    return "\n".join(filter(None, [first, error_tables(evaluation)]))


def _label_eval_text(evaluation: "LabelEvaluation") -> str:
    """Return the scores of rows with several classes, and the classes with the lowest average precision."""
    other = "" if evaluation.same_data else "; not the training dataset"
    first = (
        f"{evaluation.split} mAP {evaluation.mean_average_precision:.2%}, macro F1 {evaluation.macro_f1:.2%}, micro F1 "
        f"{evaluation.micro_f1:.2%} at {evaluation.threshold:g} ({many(evaluation.rows, 'row')}), loss "
        f"{decimals(evaluation.loss)}{other}"
    )
    known = [one for one in evaluation.classes if one.average_precision is not None]
    weakest = sorted(known, key=lambda one: one.average_precision or 0.0)[:WEAKEST]
    rows: list[tuple[str, ...]] = [("weakest classes", "AP", "precision", "recall", "F1", "rows")]
    for one in weakest:
        figures = (one.average_precision or 0.0, one.precision, one.recall, one.f1)
        rows.append((one.name, *(f"{figure:.2%}" for figure in figures), str(one.rows)))
    return first + "\n" + _aligned(rows)


def error_tables(evaluation: "Evaluation") -> str:
    """Return the weakest classes and the worst images as aligned text; empty if every row is correct."""
    missed = [one for one in evaluation.classes if one.correct < one.rows]
    weakest = sorted(missed, key=lambda one: one.correct / one.rows)[:WEAKEST]
    wrong = [one for one in evaluation.worst if one.predicted != one.label][:WEAKEST]
    if not weakest:
        return ""
    rows: list[tuple[str, ...]] = [("weakest classes", "recall", "precision", "rows", "most predicted instead")]
    for one in weakest:
        precision = "-" if one.precision is None else f"{one.precision:.2%}"
        figures = (f"{one.correct / one.rows:.2%}", precision, str(one.rows))
        rows.append((one.name, *figures, f"{one.taken_for} ({one.taken})"))
    text = _aligned(rows)
    if wrong:
        rows = [("worst images", "label", "predicted", "score of the label")]
        rows += [(one.key, one.label, one.predicted, f"{one.score:.4f}") for one in wrong]
        text += "\n" + _aligned(rows)
    return text


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def predict_text(predicted: "Predicted", out: Path | None) -> str:
    """Return a line with the numbers of images, errors and other files, and the output file."""
    errors = f", of which {predicted.errors} could not be read" if predicted.errors else ""
    others = many(predicted.not_images, "file is not an image", "files are not images")
    counts = f"{many(predicted.images, 'image')}{errors}" + (f"; {others}" if predicted.not_images else "")
    return counts + ("" if out is None else f": {out}")


def export_text(model: "Exported") -> str:
    """Return the file of an exported model, its shapes, and its difference from the checkpoint."""
    shape = " x ".join(map(str, model.input_shape))
    difference = "" if model.difference is None else f", largest difference {model.difference:.2g}"
    return (
        f"{model.file}: float32 {shape} to {model.classes} logits; {model.note}{difference}\n"
        f"{model.description}: image size, mean, std and classes"
    )


def report_text(report: "Report") -> str:
    """Return a line with the file and the size of a page."""
    return f"{report.file}: {many(report.bytes, 'byte')}"


def report_json(report: "Report") -> str:
    """Return a page and its runs as one JSON object, with each bottleneck (`limit`) as a sentence."""
    values = dataclasses.asdict(report)
    for outcome, row in zip(report.runs, values["runs"], strict=True):
        row["limit"] = None if outcome.limit is None else bottleneck_text(outcome.limit)
    return json.dumps(values)


def written_text(written: "EvaluationFiles") -> str:
    """Return the note on the files of an evaluation, or why they could not be written."""
    if written.error:
        return f"{written.error}; use --report FOLDER to write it elsewhere"
    if written.run is None:
        return f"report: {written.folder}"
    return f"written to {written.folder}; use 'trainer report {written.run}' to make a page of it"
