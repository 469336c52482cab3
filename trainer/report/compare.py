"""Settings, differences and outcomes of runs."""

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from trainer.config import RunConfig
from trainer.decisions import requested
from trainer.report.history import Line, Run, number
from trainer.training.meter import BOUNDS, WaitReport

UNKNOWN = "not recorded"
NAMES = {"lr": "peak lr"}  # options with another name in the table of settings
NO_SETTING = ("dataset", "out", "resume")  # paths, and options about the start of the run
DEFAULTS = {field.name: field.default for field in dataclasses.fields(RunConfig)}
OFF_AND_ON = ("sink",)  # options with three states: --sink, --no-sink, or not given


@dataclass(frozen=True)
class Setting:
    """A setting of a run: the requested value, the value in effect, and the reason."""

    name: str
    asked: str
    effect: str
    why: str


def settings(run: Run) -> list[Setting]:
    """Return all settings: first the settings in the table that the run printed, then the other options."""
    decided = [Setting(name, *values) for name, values in run.decisions.items()]
    known = {one.name for one in decided}
    rest = [(NAMES.get(name, name.replace("_", " ")), name) for name in run.options if name not in NO_SETTING]
    return decided + [_undecided(run, name, option) for name, option in rest if name not in known]


def _undecided(run: Run, name: str, option: str) -> Setting:
    value, default = run.options[option], DEFAULTS.get(option)
    given = (tuple(value) if isinstance(value, list) else value) != default
    shown = _shown(value)
    # Without the table of the run, the value of a default is unknown.
    effect = shown if run.starts or value is not None else UNKNOWN
    return Setting(name, shown if given else "default", "none" if value is None and run.starts else effect, "")


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return requested(value)


@dataclass(frozen=True)
class Difference:
    """A setting that differs between runs, and its value in each run."""

    name: str
    values: tuple[str, ...]


def differences(runs: Sequence[Run]) -> list[Difference]:
    """Return the settings in effect, data and software that differ.

    If the value in effect is unknown for a run, the requested values are compared.
    """
    each = [{one.name: one for one in settings(run)} for run in runs]
    names = dict.fromkeys(name for one in each for name in one)
    rows = []
    for name in names:
        of_run = [one.get(name) for one in each]
        known = all(one is None or one.effect != UNKNOWN for one in of_run)
        values = ["" if one is None else one.effect if known else one.asked for one in of_run]
        rows.append(Difference(name, tuple(values)))
    rows.append(Difference("data", tuple((run.dataset_digest or UNKNOWN)[:12] for run in runs)))
    versions = [run.starts[-1].software if run.starts else {} for run in runs]
    for package in dict.fromkeys(name for one in versions for name in one):
        rows.append(Difference(package, tuple(str(one.get(package, UNKNOWN)) for one in versions)))
    return [one for one in rows if len(set(one.values)) > 1]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run. Unknown values are None. Shares are 0..1, and times are in seconds.

    `images_per_s` is the median of the epochs. `data_wait` of an incomplete run is the median of its epochs. `bound` is
    the bottleneck (feed, compute or balanced); `limit` has its details. `evaluated` maps each split that `trainer eval`
    evaluated to its accuracy.
    """

    run: str
    state: str
    epochs: int
    steps: int
    best_accuracy: float | None
    best_epoch: int | None
    last_accuracy: float | None
    best_val_loss: float | None
    last_loss: float | None
    images_per_s: float | None
    data_wait: float | None
    bound: str | None
    limit: WaitReport | None
    seconds: float | None
    evaluated: dict[str, float]


def outcome(run: Run) -> Outcome:
    """Return the outcome of a run, from the lines of its epochs, so that an unfinished run has an outcome too."""
    last = run.epochs[-1] if run.epochs else {}
    steps = number((run.steps[-1] if run.steps else {}).get("step")) or 0
    best = _best(run)
    result = run.result or {}
    waited = number(result.get("data_wait"))
    bound = next((word for word in BOUNDS if word == result.get("bound") and waited is not None), None)
    return Outcome(
        run=run.name,
        state=run.state,
        epochs=len(run.epochs),
        steps=int(max(steps, number(last.get("step")) or 0)),
        best_accuracy=number(best.get("val_accuracy")),
        best_epoch=None if (epoch := number(best.get("epoch"))) is None else int(epoch),
        last_accuracy=number(last.get("val_accuracy")),
        best_val_loss=min(_numbers(run, "val_loss"), default=None),
        last_loss=number(last.get("loss")),
        images_per_s=_median(run, "images_per_s"),
        data_wait=_median(run, "data_wait") if waited is None else waited,
        bound=bound,
        limit=None if bound is None else WaitReport(bound, waited, run.decisions.get("device", ("", ""))[1]),
        seconds=_seconds(run),
        evaluated={one.split: one.accuracy for one in run.evaluations},
    )


def _best(run: Run) -> Line:
    """Return the epoch whose weights are in best.ckpt: the last of equally good epochs."""
    scored = [line for line in run.epochs if number(line.get("val_accuracy")) is not None]
    return max(reversed(scored), key=lambda line: number(line["val_accuracy"]) or 0.0, default={})


def _numbers(run: Run, name: str) -> Iterator[float]:
    for line in run.epochs:
        if (value := number(line.get(name))) is not None:
            yield value


def _median(run: Run, name: str) -> float | None:
    values = list(_numbers(run, name))
    return median(values) if values else None


def _seconds(run: Run) -> float | None:
    total = number((run.result or {}).get("seconds"))
    parts = [*_numbers(run, "train_s"), *_numbers(run, "val_s")]
    return total if total is not None else sum(parts) if parts else None


def command(run: Run) -> str | None:
    """Return the command that repeats this run in another folder, or None if config.json is missing."""
    if not run.options:
        return None
    parts = ["trainer", "run", str(run.options.get("dataset", "DATASET"))]
    for option, value in run.options.items():
        stored = tuple(value) if isinstance(value, list) else value
        if option not in NO_SETTING and option in DEFAULTS and stored != DEFAULTS[option]:
            parts += _flags(option, value)
    return shlex.join(parts)


def evaluate_command(run: Run) -> str:
    """Return the command that evaluates the best weights of the run on val, or on train if there is no val split."""
    split = "train" if run.epochs and not any(_numbers(run, "val_accuracy")) else "val"
    data = str(run.options.get("dataset", "DATASET"))
    return shlex.join(["trainer", "eval", str(run.folder), data, "--split", split])


def _flags(option: str, value: object) -> list[str]:
    flag = f"--{option.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag] if value else [f"--no-{option}"] if option in OFF_AND_ON else []
    values = value if isinstance(value, list) else [value]
    return [part for one in values for part in (flag, str(one))]
