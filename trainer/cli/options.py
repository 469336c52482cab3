"""Options that several commands share, and the --config file."""

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from schemas.config_lists import CONFIG_FILE
from schemas.process.working_directory import directory_problem
from schemas.storage.text_file import Unusable, read_toml
from trainer.device.precision import AMP_DTYPES, AMP_LEVELS
from trainer.errors import WrongUsage
from trainer.feed.recipes import RECIPES
from trainer.nn.models import MODELS
from trainer.nn.optimizer import OPTIMIZERS

F = TypeVar("F", bound=Callable[..., Any])

MODEL_HELP = f"{', '.join(MODELS)}, mindcv:NAME, or your own as module:factory"
CONFIG_HELP = "TOML file with these options; the command line overrides it, lists included."
# Options of one call, not of a run. Keys are written with dashes.
NOT_IN_A_FILE = {"config", "dataset", "help", "as-json", "verbose", "dry-run", "preview", "plan-cores", "plan-memory"}
BY_DEVICE = "[default: by device]"


class PathType(click.Path):
    """click.Path that rejects a relative path if the working directory cannot be entered, and gives the cause."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Convert and check the value as click.Path does."""
        problem = directory_problem(os.fspath(value))
        if problem:
            self.fail(problem, param, ctx)
        return super().convert(value, param, ctx)


def read_config(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of --config: make the values of the file the defaults of the command, which flags override.

    Raises WrongUsage with the name of the file for an unknown key or a value that its option does not accept.
    """
    if value is None:
        return None
    own = {option.name: option for option in context.command.params if option.name}
    known = {name.replace("_", "-") for name in {*own, *_names(run_options)}}  # one file works with every command
    defaults = {}
    try:
        values = read_toml(Path(value))
    except Unusable as error:
        raise WrongUsage(str(error)) from None
    for key, entry in values.items():
        shown, name = key.replace("_", "-"), key.replace("-", "_")
        if shown not in known - NOT_IN_A_FILE:
            raise WrongUsage(f"{value}: unknown key '{key}'; {_near_key(shown, known - NOT_IN_A_FILE)}")
        if name in own:
            _check_value(own[name], context, value, key, entry)
        defaults[name] = entry
    context.default_map = {**(context.default_map or {}), **defaults}
    context.meta[CONFIG_FILE] = value
    return value


def _near_key(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, known, 1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(known))}"


def _check_value(option: click.Parameter, context: click.Context, path: str, key: str, value: object) -> None:
    """Convert the value with click; raise WrongUsage with the name of the file if that fails."""
    if getattr(option, "multiple", False) and not isinstance(value, list):
        raise WrongUsage(f"{path}: '{key}' takes a list, as in {key} = [{json.dumps(str(value))}]")
    try:
        option.type_cast_value(context, value)
    except (click.BadParameter, TypeError) as error:
        reason = error.message if isinstance(error, click.BadParameter) else f"{value!r} is not a valid value"
        raise WrongUsage(f"{path}: '{key}': {reason}") from None


def _names(decorator: Callable[[Callable[..., Any]], Any]) -> set[str]:
    """Return the names of the options that a decorator adds."""
    return {option.name for option in decorator(lambda: None).__click_params__}


def _offer(known: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a shell completion that offers the known values; the option accepts others too."""
    return lambda context, parameter, prefix: [name for name in known if name.startswith(prefix)]


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Apply option decorators so that --help lists them in the order written."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


device_options = options(
    click.option("--device", type=click.Choice(["auto", "Ascend", "CPU"]), help="[default: auto: Ascend if available]"),
    click.option("--mode", type=click.Choice(["graph", "pynative"]), help="pynative is for debugging [default: graph]"),
    click.option("--amp-level", type=click.Choice(AMP_LEVELS), help=f"Level of mixed precision. {BY_DEVICE}"),
    click.option("--amp-dtype", type=click.Choice(AMP_DTYPES), help="Low-precision type. [default: float16]"),
    click.option(
        "--workers", type=click.IntRange(1), help="Decoding threads. [default: one per core, if memory allows]"
    ),
    click.option(
        "--prefetch", type=click.IntRange(1, 128), help="Batches that each operator prefetches. [default: 8 or fewer]"
    ),
    click.option("--full-check", is_flag=True, help="Verify the digests of all shards first, whatever their size."),
)

UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
UNITS |= {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}


def read_size(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of a memory option: return 64GiB, 64GB or a plain number in bytes. Raises click.BadParameter."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,15}) *([kmgt]?i?)b?", value.strip().lower())
    if found is None or found[2] not in UNITS or not int(found[1]):
        raise click.BadParameter(f"'{value}' is not a size; write it as 64GiB, 64GB or a number of bytes")
    return int(found[1]) * UNITS[found[2]]


plan_options = options(
    click.option("--plan-cores", type=click.IntRange(1), metavar="N", help="With --dry-run: cores to plan for."),
    click.option("--plan-memory", metavar="SIZE", callback=read_size, help="With --dry-run: free memory, e.g. 64GiB."),
)

_json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
VERBOSE_HELP = "Also show default settings and MindSpore's own warnings."
output_options = options(_json_option, click.option("-v", "--verbose", is_flag=True, help=VERBOSE_HELP))
measure_output_options = options(
    _json_option, click.option("-v", "--verbose", is_flag=True, help="Also show MindSpore's own warnings.")
)

# Options that affect the step or the feed.
training_options = options(
    click.option("--model", default="tiny", show_default=True, help=MODEL_HELP, shell_complete=_offer(MODELS)),
    click.option(
        "--recipe",
        default="small",
        show_default=True,
        help=f"{', '.join(RECIPES)}, or your own as module:function",
        shell_complete=_offer(RECIPES),
    ),
    click.option("--image-size", type=click.IntRange(16, 4096), help="Image side in pixels. [default: by recipe]"),
    click.option("--mixup", type=click.FloatRange(0, 10), help="Blend pairs of images; alpha of Beta, 0 is off."),
    click.option("--cutmix", type=click.FloatRange(0, 10), help="Swap patches of images; alpha. With --mixup: either."),
    click.option("--erasing", type=click.FloatRange(0, 1), help="Probability of blanking a square of an image."),
    click.option("--init", type=PathType(), help="Start from these weights: a run folder or a checkpoint."),
    click.option("--freeze", multiple=True, metavar="PREFIX", help="Parameters that are not trained. Repeatable."),
    click.option("--lr-scale", multiple=True, metavar="PREFIX=FACTOR", help="Learning rate factor. Repeatable."),
    click.option("--epochs", type=click.IntRange(1), default=12, show_default=True),
    click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True),
    click.option(
        "--optimizer",
        help=f"{', '.join(OPTIMIZERS)}. [default: by model]",
        shell_complete=_offer(OPTIMIZERS),
    ),
    click.option(
        "--lr", type=click.FloatRange(0, min_open=True), help="Peak rate, used as given. [default: by model and batch]"
    ),
    click.option("--warmup-epochs", type=click.FloatRange(0), default=1.0, show_default=True, help="Or a fraction."),
    click.option("--weight-decay", type=click.FloatRange(0), help="Not applied to norm and bias. [default: by model]"),
    click.option("--label-smoothing", type=click.FloatRange(0, 1, max_open=True), default=0.1, show_default=True),
    click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True),
    device_options,
    click.option("--keep-fp32", multiple=True, metavar="NAME", help="Cells in float32, by class or path. Repeatable."),
    click.option("--loss-scale", help=f"none, dynamic, or a number of at least 1. {BY_DEVICE}"),
    click.option(
        "--accumulate", type=click.IntRange(1), default=1, show_default=True, help="Batches averaged per update."
    ),
    click.option("--clip-norm", type=click.FloatRange(0, min_open=True), help="Clip the gradients to this norm."),
    click.option(
        "--ema", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Average the weights with this decay."
    ),
    click.option("--sink/--no-sink", default=None, help=f"Let the device fetch its own batches. {BY_DEVICE}"),
    click.option("--sink-size", type=click.IntRange(1), metavar="STEPS", help=f"Steps per sink. {BY_DEVICE}"),
    click.option("--graph-kernel", is_flag=True, help="Fuse kernels (Ascend, graph mode)."),
    click.option("--jit-level", type=click.Choice(["O0", "O1", "O2"]), help=f"Level of graph compilation. {BY_DEVICE}"),
    click.option(
        "--config", type=PathType(), is_eager=True, expose_value=False, callback=read_config, help=CONFIG_HELP
    ),
)

run_options = options(
    click.option("--out", type=PathType(), help="Run folder, new or to resume. [default: runs/<dataset>-<n>]"),
    training_options,
    click.option("--autotune", is_flag=True, help="Let MindSpore tune --workers and --prefetch."),
    click.option(
        "--max-overflows",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        help="Stop after this many consecutive overflows.",
    ),
    click.option("--patience", type=click.IntRange(1), help="Stop after so many epochs without a better accuracy."),
    click.option("--save-every", type=click.IntRange(1), metavar="STEPS", help="Also save within epochs."),
    click.option("--keep", type=click.IntRange(1), default=1, show_default=True, help="Checkpoints besides the best."),
    click.option("--resume", is_flag=True, help="Resume an unfinished run, or fail. Without --out: the latest."),
    click.option(
        "--exact-resume", is_flag=True, help="With sink: replay the run's data, so that augmentation is the same."
    ),
    click.option(
        "--ranks", type=click.IntRange(1), help="Processes, each with its slice and --batch-size. [default: 1]"
    ),
    click.option(
        "--bind",
        type=click.Choice(["core", "numa"]),
        help="Bind each rank to its own cores or NUMA node.",
    ),
    click.option("--log-every", type=click.IntRange(1), default=50, show_default=True, help="Steps between log lines."),
    click.option("--tensorboard", is_flag=True, help="Also write event files (needs the extra 'tensorboard')."),
    click.option(
        "--monitor",
        type=click.Choice(["LossMonitor", "TimeMonitor"]),
        multiple=True,
        help="MindSpore's own. Repeatable.",
    ),
    click.option("--profile", metavar="A..B", help="Run MindSpore's profiler from step A to step B, without sink."),
)

seconds_option = click.option(
    "--seconds", type=click.FloatRange(5), default=60, show_default=True, help="Approximate duration, with compilation."
)
