"""The commands: thin, and the only file that echoes or exits. What is heavy is imported inside."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from schemas.command_line import PathType, label
from schemas.counting import many
from schemas.process.locale import use_utf8
from schemas.process.streams import prepare_streams, print_result
from schemas.process.working_directory import directory_problem
from trainer.cli.options import (
    VERBOSE_HELP,
    device_options,
    measure_output_options,
    options,
    output_options,
    plan_options,
    run_options,
    seconds_option,
    training_options,
)
from trainer.cli.program import FAILED, run_program
from trainer.cli.progress import Command, make_progress, settings_shower, terminal_width
from trainer.cli.quiet import before_mindspore, need_temporary_folder, quieten
from trainer.config import RunConfig
from trainer.device import rank
from trainer.errors import TrainerError, WrongUsage
from trainer.evaluation.row_output import rows_to
from trainer.runs.result import TrainResult
from trainer.signals import StopSignals


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mindspore-dataprep")
def cli() -> None:
    """Train, evaluate and use an image classifier on a dataset that `dataprep shard` has sealed.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the data was refused,
    75 try again later, 130/143 interrupted (the same command goes on; not with --ranks).
    """


cli.command_class = Command


@cli.command(short_help="Train on a dataset.")
@click.argument("dataset", type=PathType())
@run_options
@options(
    click.option(
        "--dry-run", is_flag=True, help="Print what would be done, for any device, and what is unchecked; stop."
    ),
    plan_options,
    click.option("--preview", type=PathType(), metavar="FILE.png", help="Draw images as training sees them, and stop."),
)
@output_options
def run(
    dry_run: bool,
    plan_cores: int | None,
    plan_memory: int | None,
    preview: str | None,
    as_json: bool,
    verbose: bool,
    **settings: Any,
) -> None:
    """Train on DATASET, the folder that `dataprep shard` wrote, and keep the best and the last weights.

    Example: trainer run demo/dataset --epochs 12
    """
    quieten(verbose)
    from trainer.runs.folder import RUNS
    from trainer.runs.resume import find_run

    problem = directory_problem(str(RUNS)) if settings["out"] is None else None
    if problem:
        raise WrongUsage(f"--out is not given: {problem}")
    if not dry_run and (plan_cores or plan_memory):
        raise WrongUsage(f"--plan-{'cores' if plan_cores else 'memory'} is for --dry-run; a run takes what is there")
    config = find_run(RunConfig(**settings))
    if dry_run:
        from trainer.plan.dry_run import plan_dry_run

        planned = plan_dry_run(config, Path.cwd(), plan_cores, plan_memory)
        _print(json.dumps(planned.to_dict()) if as_json else planned.text(terminal_width(sys.stdout)))
        return
    need_temporary_folder()
    if preview is not None:
        from trainer.plan.preview import draw_preview

        drawn = draw_preview(config, Path(preview), Path.cwd())
        images = f"{many(drawn.images, 'image')} of {drawn.rows} as recipe {drawn.recipe} shows them"
        told = f"{drawn.file}: {images}; nothing trained"
        _print(json.dumps(dataclasses.asdict(drawn)) if as_json else told)
        return
    if not rank.under_msrun() and (config.ranks or 1) > 1:
        _launch(config.ranks or 1, config.bind)
        return
    if rank.role() == rank.SCHEDULER:
        from trainer.device.context import serve_ranks

        serve_ranks()
        return
    result = _train(config, verbose)
    _result(json.dumps(dataclasses.asdict(result)) if as_json else _outcome(result), result.run)
    if result.warning is not None and rank.is_first():
        if not result.learnt:
            raise TrainerError(result.warning)
        click.echo(label("Warning", "yellow", sys.stderr) + result.warning, err=True)


def _outcome(result: TrainResult) -> str:
    score = "no val split" if result.best_accuracy is None else f"val accuracy {result.best_accuracy:.2%}"
    when = f"epoch {result.best_epoch} of {result.epochs}, {result.seconds:.0f} s"
    return f"{score} ({when}): {result.best_checkpoint}"


def _print(text: str) -> None:
    """Print a result; exits 1 where only stderr could take it."""
    if not print_result(text):
        sys.exit(FAILED)


def _result(text: str, folder: str) -> None:
    if not rank.under_msrun():
        _print(text)
    elif rank.is_first():
        rank.note_result(text, folder) if rank.launched() else _print(text)


def _launch(ranks: int, bind: str | None) -> None:
    from trainer.cli.launch import launch

    with _stop_signals() as stop:
        done = launch(sys.argv[1:], ranks, stop, sys.stderr, bind)
    if done.text:
        _print(done.text)
    sys.exit(done.code)


def _train(config: RunConfig, verbose: bool) -> TrainResult:
    from trainer.runs.resume import finished

    result = finished(config)
    if result is not None:
        click.echo(f"{result.run} is complete; nothing is left to do", err=True)
        return result
    with _stop_signals() as stop:
        from trainer.loop import train

        with contextlib.redirect_stdout(sys.stderr):  # where MindSpore's monitors and its profiler print
            return train(config, make_progress(sys.stderr, config.log_every, verbose), stop, Path.cwd())


def _stop_signals() -> StopSignals:
    # To be entered before the heavy imports: their threads must not take the signals.
    # A rank is silent: its launcher has said it.
    return StopSignals(tell=lambda text: None if rank.launched() else click.echo(text, err=True))


@cli.command("eval", short_help="Score a checkpoint on a split.")
@click.argument("checkpoint", type=PathType())
@click.argument("dataset", type=PathType())
@click.option("--split", default="val", show_default=True, help="train, val or test")
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True)
@click.option("--worst", type=click.IntRange(0), default=20, show_default=True, help="Images of highest loss to name.")
@click.option("--report", type=PathType(), help="Folder for tables and pictures. [default: RUN/eval/<split>]")
@device_options
@output_options
def evaluate(
    checkpoint: str,
    dataset: str,
    split: str,
    worst: int,
    report: str | None,
    as_json: bool,
    verbose: bool,
    **settings: Any,
) -> None:
    """Score CHECKPOINT (a run folder: its best) on DATASET, each image once.

    Of a run folder it also keeps what `trainer report` shows: the confusion matrix and the worst images.

    Example: trainer eval runs/dataset-1 demo/dataset --split val
    """
    before_mindspore(verbose)
    asked = RunConfig(dataset=dataset, **settings)
    with _stop_signals() as stop:
        from trainer.cli.text import eval_text
        from trainer.evaluation.evaluate import evaluate_checkpoint, write_evaluation

        found = evaluate_checkpoint(
            Path(checkpoint), Path(dataset), split, asked, settings_shower(verbose), stop.check, worst, Path.cwd()
        )
        # Before anything is kept: a folder that cannot be written to must not cost the score.
        _print(json.dumps(found.to_dict()) if as_json else eval_text(found))
        kept = write_evaluation(found, Path(checkpoint), None if report is None else Path(report))
    click.echo(kept, err=True, nl=bool(kept))


@cli.command(short_help="Name the classes of images.")
@click.argument("checkpoint", type=PathType())
@click.argument("inputs", type=PathType(path_type=Path), nargs=-1, required=True, metavar="INPUT...")
@options(
    click.option("--out", type=PathType(path_type=Path), help="File to write. [default: stdout]"),
    click.option(
        "--format", "row_format", type=click.Choice(["csv", "jsonl"]), help="[default: by --out's ending, csv]"
    ),
    click.option("--top", type=click.IntRange(1), default=1, show_default=True, help="Classes to name for an image."),
    click.option("--split", default="val", show_default=True, help="Of a sealed dataset: train, val or test"),
    click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True, help="Images at a time."),
)
@device_options
@click.option("-v", "--verbose", is_flag=True, help=VERBOSE_HELP)
def predict(
    checkpoint: str,
    inputs: tuple[Path, ...],
    out: Path | None,
    row_format: str | None,
    top: int,
    split: str,
    verbose: bool,
    **settings: Any,
) -> None:
    """Name the classes of images: INPUT is folders, files, or one sealed dataset.

    Images from disk are brought to the pixels that the shards would hold. One that cannot be read is a row with its
    error; the rest goes on.

    Example: trainer predict runs/dataset-1 photos --top 3 --out predictions.csv
    """
    before_mindspore(verbose)
    asked = RunConfig(dataset="", **settings)
    with _stop_signals() as stop, rows_to(out) as stream:
        from trainer.evaluation import predict as job

        sealed = job.is_sealed(inputs)
        name = "key" if sealed else "path"
        jsonl = (row_format or ("jsonl" if out is not None and out.suffix == ".jsonl" else "csv")) == "jsonl"
        write: Callable[[Any], None]
        write = job.jsonl_writer(stream, name) if jsonl else job.csv_writer(stream, name, sealed, top)
        file, home, show = Path(checkpoint), Path.cwd(), settings_shower(verbose)
        done = job.predict(file, inputs, asked, split, top, write, show, stop.check, home)
    unread = f", {done.errors} of them could not be read" if done.errors else ""
    for line in done.passed_over.lines():
        click.echo(label("Warning", "yellow", sys.stderr) + line, err=True)
    others = f"; {many(done.not_images, 'more file')} no image" if done.not_images else ""
    click.echo(f"{many(done.images, 'image')}{unread}{others}" + ("" if out is None else f": {out}"), err=True)
    done.passed_over.check()
    if not done.images:
        raise TrainerError("none of the files is an image; each row says what it is")
    if done.errors == done.images:
        raise TrainerError("none of the images could be read; each row says why")


@cli.command(short_help="Write a model for inference.")
@click.argument("checkpoint", type=PathType())
@options(
    click.option(
        "--format",
        "model_format",
        type=click.Choice(["mindir", "onnx", "air"]),
        default="mindir",
        show_default=True,
        help="air on Ascend only; onnx where MindSpore knows the operators",
    ),
    click.option("--out", type=PathType(path_type=Path), help="Model file. [default: beside the checkpoint]"),
    click.option("--batch-size", type=click.IntRange(1), default=1, show_default=True, help="Images a call."),
)
@device_options
@output_options
def export(checkpoint: str, model_format: str, out: Path | None, as_json: bool, verbose: bool, **settings: Any) -> None:
    """Write CHECKPOINT (a run folder: its best) as a model for inference, checked against it on one batch.

    Beside it a JSON says what it takes: image size, mean, std, classes.

    Example: trainer export runs/dataset-1 --format mindir
    """
    before_mindspore(verbose)
    asked = RunConfig(dataset="", **settings)
    from trainer.evaluation.export import export_checkpoint

    show = settings_shower(verbose)
    made = export_checkpoint(Path(checkpoint), model_format, out, asked.batch_size, asked, show, Path.cwd())
    if as_json:
        _print(json.dumps(dataclasses.asdict(made)))
        return
    shape = " x ".join(map(str, made.input_shape))
    off = "" if made.difference is None else f", largest difference {made.difference:.2g}"
    _print(
        f"{made.file}: float32 {shape} to {made.classes} logits; {made.note}{off}\n"
        f"{made.description}: image size, mean, std and classes"
    )


@cli.command(short_help="Write one HTML page about runs.")
@click.argument("runs", type=PathType(path_type=Path), nargs=-1, required=True, metavar="RUN...")
@click.option("--out", type=PathType(path_type=Path), metavar="FILE", help="[default: report.html in RUN, or here]")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as one JSON object.")
def report(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Write one HTML page about RUN, or several side by side: curves, settings, confusion, worst images.

    It works on a run that is not complete, too. What it shows of single images comes from `trainer eval`.

    Example: trainer report runs/dataset-1 runs/dataset-2 --out compared.html
    """
    from trainer.report.contents import write_page

    made = write_page(runs, out)
    for run, missing in made.missing.items():
        for one in missing:
            click.echo(f"{run}: {one.file}: {one.why}", err=True)
    _print(json.dumps(dataclasses.asdict(made)) if as_json else f"{made.file}: {many(made.bytes, 'byte')}")


@cli.command(short_help="Measure what limits a run, try what helps.")
@click.argument("dataset", type=PathType())
@seconds_option
@training_options
@measure_output_options
def doctor(seconds: float, as_json: bool, verbose: bool, **settings: Any) -> None:
    """Measure what a run on DATASET would do with its time here, and try what might make it faster. Trains nothing.

    Example: trainer doctor demo/dataset --model resnet18 --recipe imagenet
    """
    before_mindspore(verbose)
    with _stop_signals() as stop:
        from trainer.cli.text import doctor_text
        from trainer.doctor.diagnose import diagnose

        found = diagnose(RunConfig(**settings), seconds, lambda text: click.echo(text, err=True), stop, Path.cwd())
    _print(json.dumps(dataclasses.asdict(found)) if as_json else doctor_text(found))


@cli.command(short_help="Compare the shards with plain image files.")
@click.argument("dataset", type=PathType())
@click.option("--against", type=PathType(path_type=Path), help="Images in class folders. [default: rows, as files]")
@seconds_option
@training_options
@measure_output_options
def bench(against: Path | None, seconds: float, as_json: bool, verbose: bool, **settings: Any) -> None:
    """Compare DATASET with the same images read from files and through Python, with the transforms of a run.

    Example: trainer bench demo/dataset --against demo/raw --recipe imagenet
    """
    before_mindspore(verbose)
    with _stop_signals() as stop:
        from trainer.cli.text import bench_text
        from trainer.doctor.bench import compare

        config, home = RunConfig(**settings), Path.cwd()
        found = compare(config, against, seconds, lambda text: click.echo(text, err=True), stop, home)
    _print(json.dumps(dataclasses.asdict(found)) if as_json else bench_text(found))


def main() -> NoReturn:
    """Run the program: the one place where exceptions become a line and an exit code."""
    prepare_streams()
    use_utf8()
    code = run_program(cli)
    rank.note_end(code)
    sys.exit(code)
