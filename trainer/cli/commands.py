"""Commands of trainer. Only this file prints results and exits. Heavy modules are imported inside the functions."""

import contextlib
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from schemas.command_line import PathType, label
from schemas.process.locale import use_utf8
from schemas.process.streams import prepare_streams, print_result
from schemas.process.working_directory import directory_problem
from trainer.cli import text
from trainer.cli.options import (
    AT_LEAST,
    THRESHOLD,
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
from trainer.cli.progress import Group, make_progress, settings_shower, terminal_width
from trainer.cli.quiet import before_mindspore, need_temporary_folder, quieten
from trainer.config import RunConfig
from trainer.device import rank
from trainer.errors import TrainerError, WrongUsage
from trainer.evaluation.row_output import rows_to
from trainer.runs.result import TrainResult
from trainer.signals import StopSignals


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mindspore-dataprep")
def cli() -> None:
    """Train, evaluate and use an image classifier on a dataset made by `dataprep shard`.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 data rejected, 75 try again later,
    130/143 interrupted (the same command resumes).
    """


@cli.command(short_help="Train on a dataset.")
@click.argument("dataset", type=PathType())
@run_options
@options(
    click.option(
        "--dry-run",
        is_flag=True,
        help="Print the plan, for any device, and the checks that were skipped. Do not train.",
    ),
    plan_options,
    click.option(
        "--preview",
        type=PathType(),
        metavar="FILE.png",
        help="Draw a batch of augmented training images to this file. Do not train.",
    ),
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
    """Train on DATASET, a folder written by `dataprep shard`, and save the best and the last weights.

    Example: trainer run demo/dataset --epochs 12
    """
    quieten(verbose)
    from trainer.runs.folder import RUNS
    from trainer.runs.resume import find_run, finished

    problem = directory_problem(str(RUNS)) if settings["out"] is None else None
    if problem:
        raise WrongUsage(f"--out is not given: {problem}")
    if not dry_run and (plan_cores or plan_memory):
        raise WrongUsage(f"--plan-{'cores' if plan_cores else 'memory'} is for --dry-run; a run uses this machine")
    config = find_run(RunConfig(**settings))
    if dry_run:
        from trainer.plan.dry_run import plan_dry_run

        planned = plan_dry_run(config, Path.cwd(), plan_cores, plan_memory)
        _print(json.dumps(planned.to_dict()) if as_json else text.dry_run_text(planned, terminal_width(sys.stdout)))
        return
    need_temporary_folder()
    if preview is not None:
        from trainer.plan.preview import draw_preview

        drawn = draw_preview(config, Path(preview), Path.cwd())
        _print(_as_json(drawn) if as_json else text.preview_text(drawn))
        return
    if not rank.under_msrun() and (config.ranks or 1) > 1 and finished(config) is None:
        _launch(config)
        return
    if rank.role() == rank.SCHEDULER:
        from trainer.device.context import serve_ranks

        serve_ranks()
        return
    result = _train(config, verbose)
    _print_once(_as_json(result) if as_json else text.train_text(result), result.run)
    if result.warning is not None and rank.is_first():
        if not result.learnt:
            raise TrainerError(result.warning)
        click.echo(label("Warning", "yellow", sys.stderr) + result.warning, err=True)


def _as_json(result: Any) -> str:
    return json.dumps(dataclasses.asdict(result))


def _print(result: str) -> None:
    """Print a result; exit with 1 if stdout could not be written."""
    if not print_result(result):
        sys.exit(FAILED)


def _print_once(result: str, folder: str) -> None:
    if not rank.under_msrun():
        _print(result)
    elif rank.is_first():
        rank.note_result(result, folder) if rank.launched() else _print(result)


def _launch(config: RunConfig) -> None:
    from trainer.cli.launch import Job, launch

    job = Job.of(config)
    with _stop_signals() as stop:
        done = launch(sys.argv[1:], job, config.out, stop, sys.stderr)
    if done.text:
        _print(done.text)
    sys.exit(done.code)


def _train(config: RunConfig, verbose: bool) -> TrainResult:
    from trainer.plan.preflight import check_sealed
    from trainer.runs.resume import finished

    result = finished(config)
    if result is not None:
        click.echo(text.complete_text(result), err=True)
        return result
    if rank.is_first():
        check_sealed(config)
    with _stop_signals() as stop:
        from trainer.loop import train

        with contextlib.redirect_stdout(sys.stderr):  # MindSpore's monitors and profiler print to stdout
            return train(config, make_progress(sys.stderr, config.log_every, verbose), stop, Path.cwd())


def _stop_signals() -> StopSignals:
    # Enter the context before the heavy imports: their threads must not receive the signals.
    # A launched rank prints nothing, because its launcher prints the message.
    return StopSignals(tell=lambda note: None if rank.launched() else click.echo(note, err=True))


@cli.command("eval", short_help="Evaluate a checkpoint on a split.")
@click.argument("checkpoint", type=PathType())
@click.argument("dataset", type=PathType())
@click.option("--split", default="val", show_default=True, help="Split: train, val or test.")
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True, help="Images per batch.")
@click.option(
    "--worst",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Number of images with the highest loss to list.",
)
@THRESHOLD
@click.option("--report", type=PathType(), help="Folder for tables and thumbnails. [default: RUN/eval/<split>]")
@device_options
@output_options
def evaluate(
    checkpoint: str,
    dataset: str,
    split: str,
    worst: int,
    threshold: float,
    report: str | None,
    as_json: bool,
    verbose: bool,
    **settings: Any,
) -> None:
    """Evaluate a checkpoint on DATASET. Each image is counted once.

    If CHECKPOINT is a run folder, its best checkpoint is used. The confusion matrix and the worst images are then saved
    for `trainer report`.

    Example: trainer eval runs/dataset-1 demo/dataset --split val
    """
    before_mindspore(verbose)
    config = RunConfig(dataset=dataset, **settings)
    with _stop_signals() as stop:
        from trainer.evaluation.evaluate import evaluate_checkpoint, write_evaluation

        files, show = (Path(checkpoint), Path(dataset)), settings_shower(verbose)
        evaluation = evaluate_checkpoint(*files, split, config, show, stop.check, worst, Path.cwd(), threshold)
        # The score is printed before it is saved, because it must not be lost if the folder cannot be written.
        _print(json.dumps(evaluation.to_dict()) if as_json else text.eval_text(evaluation))
        written = write_evaluation(evaluation, Path(checkpoint), None if report is None else Path(report))
    if written is not None:
        click.echo(text.written_text(written), err=True)


@cli.command(short_help="Predict the classes of images.")
@click.argument("checkpoint", type=PathType())
@click.argument("inputs", type=PathType(path_type=Path), nargs=-1, required=True, metavar="INPUT...")
@options(
    click.option("--out", type=PathType(path_type=Path), help="Output file. [default: stdout]"),
    click.option(
        "--format",
        "row_format",
        type=click.Choice(["csv", "jsonl"]),
        help="Output format. [default: from the suffix of --out, or csv]",
    ),
    click.option(
        "--top",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Number of most probable classes to write per image.",
    ),
    AT_LEAST,
    click.option("--split", default="val", show_default=True, help="Split of a sealed dataset: train, val or test."),
    click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True, help="Images per batch."),
)
@device_options
@click.option("-v", "--verbose", is_flag=True, help=VERBOSE_HELP)
def predict(
    checkpoint: str,
    inputs: tuple[Path, ...],
    out: Path | None,
    row_format: str | None,
    top: int,
    threshold: float | None,
    split: str,
    verbose: bool,
    **settings: Any,
) -> None:
    """Predict the classes of images. INPUT is one or more folders or files, or one sealed dataset.

    Image files are processed as `dataprep shard` processed the training data. A file that cannot be read gets a row
    with its error; the other files are predicted.

    Example: trainer predict runs/dataset-1 photos --top 3 --out predictions.csv
    """
    before_mindspore(verbose)
    config = RunConfig(dataset="", **settings)
    with _stop_signals() as stop, rows_to(out) as stream:
        from trainer.evaluation import predict as job

        sealed = job.is_sealed(inputs)
        name = "key" if sealed else "path"
        jsonl = (row_format or ("jsonl" if out is not None and out.suffix == ".jsonl" else "csv")) == "jsonl"
        write = job.jsonl_writer(stream, name) if jsonl else job.csv_writer(stream, name, sealed, top)
        file, home, show = Path(checkpoint), Path.cwd(), settings_shower(verbose)
        done = job.predict(file, inputs, config, split, top, write, show, stop.check, home, threshold)
    for line in done.passed_over.lines():
        click.echo(label("Warning", "yellow", sys.stderr) + line, err=True)
    click.echo(text.predict_text(done, out), err=True)
    done.passed_over.check()
    if not done.images:
        raise TrainerError("none of the files is an image; see the error in each row")
    if done.errors == done.images:
        raise TrainerError("none of the images could be read; see the error in each row")


@cli.command(short_help="Export a model for inference.")
@click.argument("checkpoint", type=PathType())
@options(
    click.option(
        "--format",
        "model_format",
        type=click.Choice(["mindir", "onnx", "air"]),
        default="mindir",
        show_default=True,
        help="Model format. air needs Ascend; onnx needs operators that MindSpore can convert.",
    ),
    click.option("--out", type=PathType(path_type=Path), help="Model file. [default: beside the checkpoint]"),
    click.option("--batch-size", type=click.IntRange(1), default=1, show_default=True, help="Images per call."),
)
@device_options
@output_options
def export(checkpoint: str, model_format: str, out: Path | None, as_json: bool, verbose: bool, **settings: Any) -> None:
    """Export a checkpoint for inference and compare its outputs with those of the exported model on one batch.

    If CHECKPOINT is a run folder, its best checkpoint is used. A JSON file beside the model contains the image size,
    mean, std and classes.

    Example: trainer export runs/dataset-1 --format mindir
    """
    before_mindspore(verbose)
    config = RunConfig(dataset="", **settings)
    from trainer.evaluation.export import export_checkpoint

    show = settings_shower(verbose)
    model = export_checkpoint(Path(checkpoint), model_format, out, config.batch_size, config, show, Path.cwd())
    _print(_as_json(model) if as_json else text.export_text(model))


@cli.command(short_help="Write an HTML page about runs.")
@click.argument("runs", type=PathType(path_type=Path), nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out",
    type=PathType(path_type=Path),
    metavar="FILE",
    help="Page to write. [default: report.html in RUN; for several runs, in the working directory]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def report(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Write an HTML page about one or more runs: curves, settings, confusion matrix, worst images.

    Runs may be unfinished. The confusion matrix and the worst images come from `trainer eval`.

    Example: trainer report runs/dataset-1 runs/dataset-2 --out compared.html
    """
    from trainer.report.page import write_page

    page = write_page(runs, out)
    for run, missing in page.missing.items():
        for one in missing:
            click.echo(f"{run}: {one.file}: {one.why}", err=True)
    _print(text.report_json(page) if as_json else text.report_text(page))


@cli.command(short_help="Find the bottleneck and try faster settings.")
@click.argument("dataset", type=PathType())
@seconds_option
@training_options
@measure_output_options
def doctor(seconds: float, as_json: bool, verbose: bool, **settings: Any) -> None:
    """Find the bottleneck of a run on DATASET on this machine, and try faster settings. No weights are saved.

    Example: trainer doctor demo/dataset --model resnet18 --recipe imagenet
    """
    before_mindspore(verbose)
    with _stop_signals() as stop:
        from trainer.cli.doctor_text import doctor_text, note_text
        from trainer.doctor.diagnose import diagnose

        config, home = RunConfig(**settings), Path.cwd()
        diagnosis = diagnose(config, seconds, lambda note: click.echo(note_text(note), err=True), stop, home)
    _print(_as_json(diagnosis) if as_json else doctor_text(diagnosis))


@cli.command(short_help="Compare shards with plain image files.")
@click.argument("dataset", type=PathType())
@click.option(
    "--against",
    type=PathType(path_type=Path),
    help="Folder of image files in class folders. [default: files written from the rows of DATASET]",
)
@seconds_option
@training_options
@measure_output_options
def bench(against: Path | None, seconds: float, as_json: bool, verbose: bool, **settings: Any) -> None:
    """Compare the speed of reading DATASET with reading image files, in C++ and in Python, with all transforms.

    Example: trainer bench demo/dataset --against demo/raw --recipe imagenet
    """
    before_mindspore(verbose)
    with _stop_signals() as stop:
        from trainer.cli.doctor_text import bench_text, note_text
        from trainer.doctor.bench import compare

        config, home = RunConfig(**settings), Path.cwd()
        comparison = compare(config, against, seconds, lambda note: click.echo(note_text(note), err=True), stop, home)
    _print(_as_json(comparison) if as_json else bench_text(comparison))


def main() -> NoReturn:
    """Run the program and exit with its code."""
    prepare_streams()
    use_utf8()
    code = run_program(cli)
    rank.note_end(code)
    # msrun kills all ranks when one has failed, and rank 0 may still be saving.
    sys.exit(0 if code in rank.STOPPED and not rank.is_first() else code)
