"""Options that several commands share, and the --config file."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from click import Choice, FloatRange, IntRange, option

from schemas.command_line import PathType, use_config_file
from trainer.device.precision import AMP_DTYPES, AMP_LEVELS
from trainer.feed.recipes import RECIPES
from trainer.nn.models import MODELS
from trainer.nn.optimizer import OPTIMIZERS

F = TypeVar("F", bound=Callable[..., Any])

MODEL_HELP = f"Model: {', '.join(MODELS)}, mindcv:NAME, or your own as module:factory."
CONFIG_HELP = (
    "TOML file with option values. Command-line options override it; a repeated option replaces the list in the file."
)
# Options of a command line, not of a run. Keys are written with dashes.
NOT_IN_A_FILE = {"config", "dataset", "help", "as-json", "verbose", "dry-run", "preview", "plan-cores", "plan-memory"}
BY_DEVICE = "[default: depends on the device]"


def read_config(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of --config: read defaults from a TOML file. Options of `run` that this command lacks are ignored."""
    if value is not None:
        names = {str(option.name) for option in context.command.params} | _names(run_options)
        use_config_file(context, Path(value), [name for name in names if name.replace("_", "-") not in NOT_IN_A_FILE])
    return value


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
    option(
        "--device", type=Choice(["auto", "Ascend", "CPU"]), help="Device to use. [default: auto, Ascend if available]"
    ),
    option(
        "--mode", type=Choice(["graph", "pynative"]), help="Execution mode; pynative is for debugging. [default: graph]"
    ),
    option("--amp-level", type=Choice(AMP_LEVELS), help=f"Mixed precision level. {BY_DEVICE}"),
    option("--amp-dtype", type=Choice(AMP_DTYPES), help="Low-precision data type. [default: float16]"),
    option("--workers", type=IntRange(1), help="Number of decoding threads. [default: one per core, if memory allows]"),
    option("--prefetch", type=IntRange(1, 128), help="Batches that each operator prefetches. [default: 8 or fewer]"),
    option(
        "--full-check",
        is_flag=True,
        help="Verify the sha256 of every shard before starting, regardless of dataset size.",
    ),
)

UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
UNITS |= {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}


def read_size(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of a memory option: convert 64GiB, 64GB or a plain number to bytes.

    Raises click.BadParameter if the value is not a size.
    """
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,15}) *([kmgt]?i?)b?", value.strip().lower())
    if found is None or found[2] not in UNITS or not int(found[1]):
        raise click.BadParameter(f"'{value}' is not a size; write it as 64GiB, 64GB or a number of bytes")
    return int(found[1]) * UNITS[found[2]]


plan_options = options(
    option("--plan-cores", type=IntRange(1), metavar="N", help="Number of cores to plan for, with --dry-run."),
    option(
        "--plan-memory", metavar="SIZE", callback=read_size, help="Free memory to plan for, with --dry-run, e.g. 64GiB."
    ),
)

_json_option = option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
VERBOSE_HELP = "Also show default settings and MindSpore's own warnings."
output_options = options(_json_option, option("-v", "--verbose", is_flag=True, help=VERBOSE_HELP))
measure_output_options = options(
    _json_option, option("-v", "--verbose", is_flag=True, help="Also show MindSpore's own warnings.")
)

# Options that affect the step or the feed.
training_options = options(
    option("--model", default="tiny", show_default=True, help=MODEL_HELP, shell_complete=_offer(MODELS)),
    option(
        "--recipe",
        default="small",
        show_default=True,
        help=f"Augmentation: {', '.join(RECIPES)}, or your own as module:function.",
        shell_complete=_offer(RECIPES),
    ),
    option("--image-size", type=IntRange(16, 4096), help="Image side in pixels. [default: depends on the recipe]"),
    option("--mixup", type=FloatRange(0, 10), help="mixup alpha; 0 disables mixup."),
    option(
        "--cutmix",
        type=FloatRange(0, 10),
        help="CutMix alpha; 0 disables CutMix. If --mixup is also set, each batch uses one of the two.",
    ),
    option("--erasing", type=FloatRange(0, 1), help="Probability of erasing a square region of an image."),
    option("--init", type=PathType(), help="Run folder or checkpoint with the initial weights."),
    option("--freeze", multiple=True, metavar="PREFIX", help="Do not train parameters with this prefix. Repeatable."),
    option(
        "--lr-scale", multiple=True, metavar="PREFIX=FACTOR", help="Learning rate factor for this prefix. Repeatable."
    ),
    option("--epochs", type=IntRange(1), default=12, show_default=True, help="Number of epochs."),
    option("--batch-size", type=IntRange(1), default=32, show_default=True, help="Images per batch, per rank."),
    option(
        "--optimizer",
        help=f"Optimizer: {', '.join(OPTIMIZERS)}. [default: depends on the model]",
        shell_complete=_offer(OPTIMIZERS),
    ),
    option(
        "--lr",
        type=FloatRange(0, min_open=True),
        help="Peak learning rate, used without scaling. [default: depends on the model and batch]",
    ),
    option(
        "--warmup-epochs",
        type=FloatRange(0),
        default=1.0,
        show_default=True,
        help="Number of warmup epochs; may be fractional.",
    ),
    option(
        "--weight-decay",
        type=FloatRange(0),
        help="Not applied to normalization and bias parameters. [default: depends on the model]",
    ),
    option(
        "--label-smoothing",
        type=FloatRange(0, 1, max_open=True),
        default=0.1,
        show_default=True,
        help="Label smoothing factor.",
    ),
    option("--seed", type=IntRange(0, 2**31 - 1), default=0, show_default=True, help="Random seed."),
    device_options,
    option(
        "--keep-fp32", multiple=True, metavar="NAME", help="Keep cells of this class or path in float32. Repeatable."
    ),
    option("--loss-scale", help=f"Loss scale: none, dynamic, or a number of at least 1. {BY_DEVICE}"),
    option(
        "--accumulate",
        type=IntRange(1),
        default=1,
        show_default=True,
        help="Number of batches whose gradients are averaged per update.",
    ),
    option("--clip-norm", type=FloatRange(0, min_open=True), help="Clip the gradients to this global norm."),
    option(
        "--ema",
        type=FloatRange(0, 1, min_open=True, max_open=True),
        help="Keep a moving average of the weights with this decay.",
    ),
    option("--sink/--no-sink", default=None, help=f"Data sinking: the device fetches its own batches. {BY_DEVICE}"),
    option("--sink-size", type=IntRange(1), metavar="STEPS", help=f"Steps per sink. {BY_DEVICE}"),
    option("--graph-kernel", is_flag=True, help="Enable graph kernel fusion (Ascend, graph mode)."),
    option("--jit-level", type=Choice(["O0", "O1", "O2"]), help=f"Graph optimization level. {BY_DEVICE}"),
    option("--config", type=PathType(), is_eager=True, expose_value=False, callback=read_config, help=CONFIG_HELP),
)

run_options = options(
    option("--out", type=PathType(), help="Run folder, new or to resume. [default: runs/<dataset>-<n>]"),
    training_options,
    option("--autotune", is_flag=True, help="Let MindSpore tune --workers and --prefetch."),
    option(
        "--max-overflows",
        type=IntRange(1),
        default=20,
        show_default=True,
        help="Stop after this many consecutive overflows.",
    ),
    option(
        "--class-weights",
        type=click.Choice(["none", "balanced"]),
        default="none",
        show_default=True,
        help="Weight of each class in the loss. balanced: inversely proportional to its rows in train.",
    ),
    option(
        "--val-every",
        type=IntRange(1),
        metavar="EPOCHS",
        default=1,
        show_default=True,
        help="Evaluate on val after every EPOCHS epochs and after the last one.",
    ),
    option("--patience", type=IntRange(1), help="Stop after this many epochs without a better val accuracy."),
    option("--save-every", type=IntRange(1), metavar="STEPS", help="Also save a checkpoint every STEPS steps."),
    option(
        "--keep", type=IntRange(1), default=1, show_default=True, help="Number of checkpoints to keep besides the best."
    ),
    option(
        "--resume", is_flag=True, help="Resume an unfinished run; fail if there is none. Without --out, the latest run."
    ),
    option(
        "--exact-resume",
        is_flag=True,
        help="With --sink: replay the earlier data, so that the augmentation is the same.",
    ),
    option("--ranks", type=IntRange(1), help="Number of processes; each reads its share of the data. [default: 1]"),
    option(
        "--bind",
        type=Choice(["core", "numa"]),
        help="Bind each rank to its own cores or NUMA node.",
    ),
    option("--nodes", type=IntRange(1), help="Number of hosts: run the command on each of them. [default: 1]"),
    option("--node-rank", type=IntRange(0), help="Number of this host, from 0. With --nodes."),
    option("--master", metavar="HOST:PORT", help="Address of host 0 and a free port on it. With --nodes."),
    option(
        "--rank-timeout",
        type=FloatRange(1),
        default=1800,
        show_default=True,
        metavar="SECONDS",
        help="End a run of several ranks after so long without progress.",
    ),
    option("--log-every", type=IntRange(1), default=50, show_default=True, help="Steps between log lines."),
    option("--tensorboard", is_flag=True, help="Also write event files (needs the extra 'tensorboard')."),
    option(
        "--monitor",
        type=Choice(["LossMonitor", "TimeMonitor"]),
        multiple=True,
        help="Also use this MindSpore monitor. Repeatable.",
    ),
    option("--profile", metavar="A..B", help="Run MindSpore's profiler from step A to step B. Not with --sink."),
)

seconds_option = option(
    "--seconds", type=FloatRange(5), default=60, show_default=True, help="Approximate duration, including compilation."
)


THRESHOLD = click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Probability from which a class is predicted, for records of several classes.",
)
AT_LEAST = click.option(
    "--threshold", type=click.FloatRange(0, 1), help="Leave out classes with a lower probability. [default: none]"
)
