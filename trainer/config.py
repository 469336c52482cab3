"""RunConfig, the options of `trainer run`, and the lookup of user functions."""

import dataclasses
import importlib
import importlib.machinery
import importlib.util
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.errors import TrainerError, WrongUsage, nearest


@dataclass(frozen=True)
class RunConfig:
    """Requested settings of a run. None means "not requested"; the value then depends on device, recipe or model.

    `lr` is the peak learning rate at `batch_size`. `warmup_epochs` may be a fraction. `image_size` is in pixels.
    `freeze` has prefixes of parameter names. `lr_scale` has items of the form PREFIX=FACTOR.
    """

    dataset: str
    out: str | None = None
    model: str = "tiny"
    recipe: str = "small"
    image_size: int | None = None
    mixup: float | None = None
    cutmix: float | None = None
    erasing: float | None = None
    init: str | None = None
    freeze: tuple[str, ...] = ()
    lr_scale: tuple[str, ...] = ()
    epochs: int = 12
    batch_size: int = 32
    optimizer: str | None = None
    lr: float | None = None
    warmup_epochs: float = 1.0
    weight_decay: float | None = None
    label_smoothing: float = 0.1
    class_weights: str = "none"
    seed: int = 0
    device: str | None = None
    mode: str | None = None
    amp_level: str | None = None
    amp_dtype: str | None = None
    keep_fp32: tuple[str, ...] = ()
    loss_scale: str | None = None
    max_overflows: int = 20
    accumulate: int = 1
    clip_norm: float | None = None
    ema: float | None = None
    patience: int | None = None
    val_every: int = 1
    save_every: int | None = None
    keep: int = 1
    resume: bool = False
    exact_resume: bool = False
    sink: bool | None = None
    sink_size: int | None = None
    graph_kernel: bool = False
    jit_level: str | None = None
    workers: int | None = None
    prefetch: int | None = None
    autotune: bool = False
    full_check: bool = False
    ranks: int | None = None
    bind: str | None = None
    nodes: int | None = None
    node_rank: int | None = None
    master: str | None = None
    rank_timeout: float = 1800.0
    log_every: int = 50
    tensorboard: bool = False
    monitor: tuple[str, ...] = ()
    profile: str | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise WrongUsage(f"--{name.replace('_', '-')} {value} is not a finite number")

    @property
    def profile_steps(self) -> tuple[int, int] | None:
        """First and last step to profile, counted from 1. Raises WrongUsage unless `profile` has the form A..B."""
        if self.profile is None:
            return None
        first, dots, last = self.profile.partition("..")
        if not (dots and first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
            raise WrongUsage(
                f"--profile {self.profile} is not a range of steps; give the first and the last step, as in 10..15"
            )
        return int(first), int(last)

    def to_json(self) -> str:
        """Return the configuration as JSON, as stored in run folders and checkpoints."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "RunConfig":
        """Return the configuration with the stored `values`. Raises TrainerError if a key is unknown."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise TrainerError(f"stored configuration: unknown key '{unknown[0]}'; {nearest(unknown[0], known)}")
        # JSON has no tuples.
        fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**fields)


def is_own(name: str) -> bool:
    """Return True if `name` has the form `module:function`. Nothing is imported."""
    module, colon, function = name.partition(":")
    return bool(colon and module and function.isidentifier())


def is_installed(package: str) -> bool:
    """Return True if the package can be imported. Nothing is imported."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return bool(package) and importlib.util.find_spec(package) is not None


def check_module(kind: str, name: str, folder: Path) -> None:
    """Raise WrongUsage if the package of `module:function` is neither installed nor in `folder`.

    Nothing is imported, so the function is not checked. `kind` is as in find_function.
    """
    package = name.partition(":")[0].partition(".")[0]
    here = importlib.machinery.PathFinder.find_spec(package, [str(folder)])
    if here is None and not is_installed(package):
        raise WrongUsage(_no_module(kind, name, package, folder))


def find_function(kind: str, name: str, folder: Path) -> Callable[..., Any]:
    """Import and return the function `module:function`. The module may be installed or in `folder`.

    `kind` ("model" or "recipe") is used in messages. Raises WrongUsage if the module or the function does not exist.
    Errors inside the module keep their traceback.
    """
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not error.name or not (module_name + ".").startswith(error.name + "."):
            raise
        raise WrongUsage(_no_module(kind, name, error.name, folder)) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise WrongUsage(f"{kind} '{name}': {module_name} has no function '{function_name}'")
    return function  # type: ignore[no-any-return]


def _no_module(kind: str, name: str, module: str, folder: Path) -> str:
    return f"{kind} '{name}': no module '{module}' is installed or in {folder}"
