"""Options that commands share, and their file: declared here, read by click."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from schemas.command_line import PathType, use_config_file
from trainer.device.precision import AMP_DTYPES, AMP_LEVELS
from trainer.feed.recipes import RECIPES
from trainer.nn.models import MODELS
from trainer.nn.optimizer import OPTIMIZERS

F = TypeVar("F", bound=Callable[..., Any])

MODEL_HELP = f"{', '.join(MODELS)}, mindcv:NAME, or your own as module:factory"
CONFIG_HELP = "TOML file of these options; a flag wins over it, also over a list."
# What is said of one call, not of a run. Keys are written with dashes.
NOT_IN_A_FILE = {"config", "dataset", "help", "as-json", "verbose", "dry-run", "preview", "plan-cores", "plan-memory"}
BY_DEVICE = "[default: by device]"


def read_config(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of --config: take defaults from a TOML file. One file serves all commands with options of `run`."""
    if value is not None:
        names = {str(option.name) for option in context.command.params} | _names(run_options)
        use_config_file(context, Path(value), [name for name in names if name.replace("_", "-") not in NOT_IN_A_FILE])
    return value


def _names(decorator: Callable[[Callable[..., Any]], Any]) -> set[str]:
    """The names of the options that a decorator adds."""
    return {option.name for option in decorator(lambda: None).__click_params__}


def _offer(known: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What the shell offers when it completes a value that may also be another."""
    return lambda context, parameter, begun: [name for name in known if name.startswith(begun)]


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
    click.option(
        "--workers", type=click.IntRange(1), help="Threads that decode. [default: one a core, if memory allows]"
    ),
    click.option(
        "--prefetch", type=click.IntRange(1, 128), help="Batches each operator holds ready. [default: 8, or less]"
    ),
    click.option("--full-check", is_flag=True, help="Hash every byte of the data first, whatever its size."),
)

UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
UNITS |= {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}


def read_size(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of an option for memory: 64GiB, 64GB or a number of bytes, in bytes. Raises click.BadParameter."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,15}) *([kmgt]?i?)b?", value.strip().lower())
    if found is None or found[2] not in UNITS or not int(found[1]):
        raise click.BadParameter(f"'{value}' is not a size; write it as 64GiB, 64GB or a number of bytes")
    return int(found[1]) * UNITS[found[2]]


plan_options = options(
    click.option("--plan-cores", type=click.IntRange(1), metavar="N", help="With --dry-run: cores to plan for."),
    click.option("--plan-memory", metavar="SIZE", callback=read_size, help="With --dry-run: free memory, as in 64GiB."),
)

_json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
VERBOSE_HELP = "Show settings that are plain defaults, and MindSpore's own warnings."
output_options = options(_json_option, click.option("-v", "--verbose", is_flag=True, help=VERBOSE_HELP))
measure_output_options = options(
    _json_option, click.option("-v", "--verbose", is_flag=True, help="Show MindSpore's own warnings.")
)

# What decides a step and its feed.
training_options = options(
    click.option("--model", default="tiny", show_default=True, help=MODEL_HELP, shell_complete=_offer(MODELS)),
    click.option(
        "--recipe",
        default="small",
        show_default=True,
        help=f"{', '.join(RECIPES)}, or your own as module:function",
        shell_complete=_offer(RECIPES),
    ),
    click.option("--image-size", type=click.IntRange(16, 4096), help="Side in pixels. [default: the recipe's]"),
    click.option("--mixup", type=click.FloatRange(0, 10), help="Mix pairs of images; alpha of the beta law, 0 is off."),
    click.option("--cutmix", type=click.FloatRange(0, 10), help="Swap parts of images; alpha. With --mixup: in turns."),
    click.option("--erasing", type=click.FloatRange(0, 1), help="Chance that a square of an image is blanked."),
    click.option("--init", type=PathType(), help="Start from these weights: a run folder or a checkpoint."),
    click.option("--freeze", multiple=True, metavar="PREFIX", help="Do not train what begins so. Repeatable."),
    click.option("--lr-scale", multiple=True, metavar="PREFIX=FACTOR", help="A rate of its own. Repeatable."),
    click.option("--epochs", type=click.IntRange(1), default=12, show_default=True),
    click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True),
    click.option(
        "--optimizer",
        help=f"{', '.join(OPTIMIZERS)}. [default: by model]",
        shell_complete=_offer(OPTIMIZERS),
    ),
    click.option(
        "--lr", type=click.FloatRange(0, min_open=True), help="Peak rate, never scaled. [default: by model and batch]"
    ),
    click.option("--warmup-epochs", type=click.FloatRange(0), default=1.0, show_default=True, help="Or a fraction."),
    click.option("--weight-decay", type=click.FloatRange(0), help="Not on norm and bias. [default: by model]"),
    click.option("--label-smoothing", type=click.FloatRange(0, 1, max_open=True), default=0.1, show_default=True),
    click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True),
    device_options,
    click.option("--keep-fp32", multiple=True, metavar="NAME", help="Cells by class or path. May repeat."),
    click.option("--loss-scale", help=f"none, dynamic, or a number of at least 1. {BY_DEVICE}"),
    click.option(
        "--accumulate", type=click.IntRange(1), default=1, show_default=True, help="Batches to average for one update."
    ),
    click.option("--clip-norm", type=click.FloatRange(0, min_open=True), help="Bound the gradient's norm."),
    click.option(
        "--ema", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Average the weights with this decay."
    ),
    click.option("--sink/--no-sink", default=None, help=f"Let the device fetch its batches itself. {BY_DEVICE}"),
    click.option("--sink-size", type=click.IntRange(1), metavar="STEPS", help=f"How many at a time. {BY_DEVICE}"),
    click.option("--graph-kernel", is_flag=True, help="Fuse kernels (Ascend, graph mode)."),
    click.option("--jit-level", type=click.Choice(["O0", "O1", "O2"]), help=f"Of graph compilation. {BY_DEVICE}"),
    click.option(
        "--config", type=PathType(), is_eager=True, expose_value=False, callback=read_config, help=CONFIG_HELP
    ),
)

run_options = options(
    click.option("--out", type=PathType(), help="Folder of the run, new or begun. [default: runs/<dataset>-<n>]"),
    training_options,
    click.option("--autotune", is_flag=True, help="Let MindSpore look for better --workers and --prefetch."),
    click.option(
        "--max-overflows", type=click.IntRange(1), default=20, show_default=True, help="In a row, before it ends."
    ),
    click.option("--patience", type=click.IntRange(1), help="End after so many epochs without a better val accuracy."),
    click.option("--save-every", type=click.IntRange(1), metavar="STEPS", help="Save within epochs too."),
    click.option("--keep", type=click.IntRange(1), default=1, show_default=True, help="Checkpoints beside the best."),
    click.option("--resume", is_flag=True, help="Go on with an unfinished run, or fail. Without --out: the latest."),
    click.option(
        "--exact-resume", is_flag=True, help="With sink: replay all data of the run, so that augmentation is the same."
    ),
    click.option(
        "--ranks", type=click.IntRange(1), help="Processes, each with its slice and --batch-size. [default: 1]"
    ),
    click.option(
        "--bind",
        type=click.Choice(["core", "numa"]),
        help="Bind each of the --ranks to its cores or NUMA node.",
    ),
    click.option("--log-every", type=click.IntRange(1), default=50, show_default=True, help="Steps between two lines."),
    click.option("--tensorboard", is_flag=True, help="Write event files too (needs the extra of that name)."),
    click.option(
        "--monitor", type=click.Choice(["LossMonitor", "TimeMonitor"]), multiple=True, help="MindSpore's own."
    ),
    click.option("--profile", metavar="A..B", help="Run MindSpore's profiler from step A to step B, without sink."),
)

seconds_option = click.option(
    "--seconds", type=click.FloatRange(5), default=60, show_default=True, help="About how long, compiling included."
)
