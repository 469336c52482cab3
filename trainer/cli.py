"""The commands: thin, and the only file that echoes or exits. What is heavy is imported inside."""

import contextlib
import dataclasses
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.errors import Busy, Interrupted, TrainerError, nearest
from trainer.models import MODELS
from trainer.optim import OPTIMIZERS
from trainer.precision import AMP_DTYPES, AMP_LEVELS
from trainer.quiet import quieten
from trainer.recipes import RECIPES
from trainer.result import TrainResult
from trainer.signals import StopSignals

F = TypeVar("F", bound=Callable[..., Any])

BY_DEVICE = "[default: by device]"
CONFIG_HELP = "TOML file of these options; a flag wins over it."
FAILED, USAGE, REFUSED, AGAIN, INTERRUPTED = 1, 2, 3, 75, 130


def read_config(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of --config: the file's values become the command's defaults, so that a flag still wins."""
    if value is None:
        return None
    known = {name.name for name in context.command.params if name.name} - {"config", "dataset", "help"}
    values = {key.replace("-", "_"): entry for key, entry in _toml(value).items()}
    for key in values:
        if key not in known:
            raise click.BadParameter(f"unknown key '{key}'; {nearest(key, known)}", context, parameter)
    context.default_map = {**(context.default_map or {}), **values}
    return value


def _toml(path: str) -> dict[str, Any]:
    try:
        values: dict[str, Any] = _toml_reader().loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise TrainerError(f"cannot read {path}: {error}") from None
    return values


def _toml_reader() -> Any:
    for name in ("tomllib", "tomli"):  # the standard library has it since Python 3.11
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise TrainerError("--config needs a TOML reader on Python 3.10: pip install 'mindspore-dataprep[toml]'")


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Apply option decorators so that --help lists them in the order written."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


device_options = options(
    click.option("--device", type=click.Choice(["auto", "Ascend", "CPU"]), help="[default: auto: Ascend when found]"),
    click.option("--mode", type=click.Choice(["graph", "pynative"]), help="pynative is for debugging [default: graph]"),
    click.option("--amp-level", type=click.Choice(AMP_LEVELS), help=f"Mixed precision. {BY_DEVICE}"),
    click.option("--amp-dtype", type=click.Choice(AMP_DTYPES), help="Its low type. [default: float16]"),
    click.option("--workers", type=click.IntRange(1), help="Threads that read and decode. [default: one a core]"),
    click.option("--prefetch", type=click.IntRange(1, 128), help="Batches each operator holds ready. [default: 8]"),
    click.option("--full-check", is_flag=True, help="Hash every byte of the data first, whatever its size."),
)

output_options = options(
    click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object."),
    click.option("-v", "--verbose", is_flag=True, help="Show MindSpore's own warnings."),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mindspore-dataprep")
def cli() -> None:
    """Train and evaluate an image classifier on a dataset that `dataprep shard` has sealed."""


@cli.command()
@click.argument("dataset", type=click.Path())
@options(
    click.option("--out", type=click.Path(), help="Folder of the run, new or begun. [default: runs/<dataset>-<n>]"),
    click.option("--model", default="tiny", show_default=True, help=f"{', '.join(MODELS)}, or module:factory"),
    click.option("--recipe", default="small", show_default=True, help=", ".join(RECIPES)),
    click.option("--image-size", type=click.IntRange(16, 4096), help="Side in pixels. [default: the recipe's]"),
    click.option("--epochs", type=click.IntRange(1), default=12, show_default=True),
    click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True),
    click.option("--optimizer", default="adamw", show_default=True, help=", ".join(OPTIMIZERS)),
    click.option("--lr", type=click.FloatRange(0, min_open=True), help="Peak rate. [default: the optimizer's]"),
    click.option("--warmup-epochs", type=click.FloatRange(0), default=1.0, show_default=True, help="Or a fraction."),
    click.option("--weight-decay", type=click.FloatRange(0), help="Not on norm and bias. [default: the optimizer's]"),
    click.option("--label-smoothing", type=click.FloatRange(0, 1, max_open=True), default=0.1, show_default=True),
    click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True),
)
@device_options
@options(
    click.option("--keep-fp32", multiple=True, metavar="NAME", help="Cells by class or path. May repeat."),
    click.option("--loss-scale", help=f"none, dynamic, or a number of at least 1. {BY_DEVICE}"),
    click.option(
        "--max-overflows", type=click.IntRange(1), default=20, show_default=True, help="In a row, before it ends."
    ),
    click.option(
        "--accumulate", type=click.IntRange(1), default=1, show_default=True, help="Batches to average for one update."
    ),
    click.option("--clip-norm", type=click.FloatRange(0, min_open=True), help="Bound the gradient's norm."),
    click.option(
        "--ema", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Average the weights with this decay."
    ),
    click.option("--patience", type=click.IntRange(1), help="End after so many epochs without a better val accuracy."),
    click.option("--save-every", type=click.IntRange(1), metavar="STEPS", help="Save within epochs too."),
    click.option("--keep", type=click.IntRange(1), default=1, show_default=True, help="Checkpoints beside the best."),
    click.option("--resume", is_flag=True, help="Go on with an unfinished run, or fail. Without --out: the latest."),
    click.option("--sink/--no-sink", default=None, help=f"Let the device fetch its batches itself. {BY_DEVICE}"),
    click.option("--sink-size", type=click.IntRange(1), metavar="STEPS", help=f"How many at a time. {BY_DEVICE}"),
    click.option("--graph-kernel", is_flag=True, help="Fuse kernels (Ascend, graph mode)."),
    click.option("--jit-level", type=click.Choice(["O0", "O1", "O2"]), help=f"Of graph compilation. {BY_DEVICE}"),
    click.option("--log-every", type=click.IntRange(1), default=50, show_default=True, help="Steps between two lines."),
    click.option(
        "--config", type=click.Path(), is_eager=True, expose_value=False, callback=read_config, help=CONFIG_HELP
    ),
    click.option("--dry-run", is_flag=True, help="Print what would be done, for any device, and stop."),
)
@output_options
def run(dry_run: bool, as_json: bool, verbose: bool, **settings: Any) -> None:
    """Train on DATASET, the folder that `dataprep shard` wrote, and keep the best and the last weights.

    Example: trainer run demo/dataset --epochs 12
    """
    quieten(verbose)
    from trainer.resume import settled

    config = settled(RunConfig(**settings))
    if dry_run:
        _dry_run(config, as_json)
        return
    result = _train(config)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(result)))
        return
    score = "no val split" if result.best_accuracy is None else f"val accuracy {result.best_accuracy:.2%}"
    when = f"epoch {result.best_epoch} of {result.epochs}, {result.seconds:.0f} s"
    click.echo(f"{score} ({when}): {result.best_checkpoint}")


def _train(config: RunConfig) -> TrainResult:
    from trainer.resume import finished

    result = finished(config)
    if result is not None:
        click.echo(f"{result.run} is complete; nothing is left to do", err=True)
        return result
    with _stop_signals() as stop:
        from trainer.loop import train
        from trainer.progress import make_progress

        return train(config, make_progress(sys.stderr, config.log_every), stop)


def _stop_signals() -> StopSignals:
    # To be entered before the heavy imports: their threads must not take the signals.
    return StopSignals(tell=lambda text: click.echo(text, err=True))


def _dry_run(config: RunConfig, as_json: bool) -> None:
    from trainer.decision import table
    from trainer.device import Machine, this_machine
    from trainer.plan import plan_run
    from trainer.resume import finished
    from trainer.runfolder import holds_run, next_run_folder

    begun = finished(config)
    # Another device is planned for on trust; only 'auto' must look.
    machine = this_machine("CPU" if config.device in ("Ascend", "CPU") else None)
    machine = Machine(ascend=machine.ascend or config.device == "Ascend", cores=machine.cores)
    plan = plan_run(config, machine)
    out = next_run_folder(config.out, plan.folder)
    calls = [str(call) for call in plan.effect.calls]
    if as_json:
        decisions = [dataclasses.asdict(decision) for decision in plan.decisions]
        shown = {"config": dataclasses.asdict(config), "decisions": decisions, "calls": calls, "run": str(out)}
        click.echo(json.dumps(shown))
        return
    click.echo(table(plan.decisions))
    click.echo("\nMindSpore calls:\n  " + "\n  ".join(calls))
    if begun is not None:
        click.echo(f"\n{out} is complete; nothing would be done")
        return
    what = "go on with" if holds_run(out) else "begin"
    click.echo(f"\nwould {what} {config.model} for {config.epochs} epochs on {plan.folder} in {out}")


@cli.command("eval")
@click.argument("checkpoint", type=click.Path())
@click.argument("dataset", type=click.Path())
@click.option("--split", default="val", show_default=True, help="train, val or test")
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True)
@device_options
@output_options
def evaluate(checkpoint: str, dataset: str, split: str, as_json: bool, verbose: bool, **settings: Any) -> None:
    """Score CHECKPOINT (a run folder: its best) on DATASET, each image once.

    Example: trainer eval runs/dataset-1 demo/dataset --split val
    """
    quieten(verbose)
    asked = RunConfig(dataset=dataset, **settings)
    with _stop_signals() as stop:
        from trainer.decision import table
        from trainer.evaluate import evaluate_checkpoint

        found = evaluate_checkpoint(
            Path(checkpoint),
            Path(dataset),
            split,
            asked,
            show=lambda decisions: click.echo(table(decisions), err=True),
            each_batch=stop.check,
        )
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found)))
        return
    other = "" if found.same_data else "; not the dataset it was trained on"
    click.echo(f"{split} accuracy {found.accuracy:.2%} ({found.correct} of {found.rows}), loss {found.loss:.4f}{other}")


def main() -> NoReturn:
    """Run the program: the one place where exceptions become a line and an exit code."""
    try:
        code = cli.main(standalone_mode=False)
    except click.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except (TrainerError, ContractError, Interrupted) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(exit_code(error))
    sys.exit(code if isinstance(code, int) else 0)


def exit_code(error: Exception) -> int:
    """The exit code of a failure: 3 the data was refused, 75 try again later, 128 + the signal's number, else 1."""
    if isinstance(error, Busy):
        return AGAIN
    if isinstance(error, ContractError):
        return REFUSED
    return error.exit_code if isinstance(error, Interrupted) else FAILED
