"""Whether a request begins a run, goes on with one, or asks for one that is complete. Imports no MindSpore."""

import dataclasses
import json
from pathlib import Path

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from schemas.storage.regular_file import read_regular
from trainer.config import RunConfig
from trainer.decisions import asked
from trainer.errors import TrainerError, WrongUsage
from trainer.runs.folder import CONFIG, RESULT, RUNS, holds_run
from trainer.runs.result import TrainResult

MAX_BYTES = 16 << 20  # of config.json and result.json
# These change nothing in what is computed. The dataset may have moved: its digest is compared instead.
FREE = {"dataset", "out", "resume", "exact_resume", "log_every", "full_check", "keep", "save_every", "bind", "prefetch"}
# A run goes on with the workers that it began with unless others are asked for: then it is warned what differs.
FREE |= {"workers"}
OLD_DEFAULTS = {"optimizer": "adamw"}  # what earlier versions recorded where nothing was asked for


def settled(config: RunConfig) -> RunConfig:
    """The request with the run's folder filled in when --resume leaves it open: the latest unfinished run like it.

    Raises TrainerError when --resume has nothing to go on with.
    """
    if not config.resume:
        return config
    if config.out is not None:
        if not holds_run(Path(config.out)):
            raise WrongUsage(f"--resume: {config.out} holds no run to go on with; leave --resume out to begin one")
        return config
    name = Path(config.dataset).resolve().name or "dataset"
    numbered = [path for path in RUNS.glob(f"{name}-*") if path.name.removeprefix(f"{name}-").isdecimal()]
    for folder in sorted(numbered, key=lambda path: int(path.name.removeprefix(f"{name}-")), reverse=True):
        if holds_run(folder) and not (folder / RESULT).exists() and _difference(folder, config) is None:
            return dataclasses.replace(config, out=str(folder))
    raise TrainerError(f"--resume: no unfinished run with these options is in {RUNS.resolve()}; give --out its folder")


def finished(config: RunConfig) -> TrainResult | None:
    """The result of the run in --out when it is complete, None when there is something to do.

    Raises TrainerError when the folder holds a run that was begun with other options or on other data.
    """
    if config.out is None or not holds_run(Path(config.out)):
        return None
    folder = Path(config.out).resolve()
    difference = _difference(folder, config)
    if difference is not None:
        option, before, now = difference
        raise TrainerError(
            f"{folder} was begun with --{option.replace('_', '-')} {before}, now it is {now}; "
            "give the same options to go on, or --out another name"
        )
    path = folder / RESULT
    if not path.exists():
        return None
    try:
        result = TrainResult.from_json(read_regular(path, MAX_BYTES).decode())
    except (ValueError, TypeError):
        raise ContractError(f"{path} is damaged; remove it, and the run is looked at again") from None
    same_data(folder, result.dataset_digest, load_dataset(Path(config.dataset).resolve()).digest)
    return result


def same_data(folder: Path, before: str, now: str) -> None:
    """Raise ContractError unless a run goes on with the data it was begun on."""
    if before != now:
        raise ContractError(f"{folder} was begun on another dataset than the one given now; give --out another name")


def _difference(folder: Path, config: RunConfig) -> tuple[str, str, str] | None:
    """The first option that differs from the run's: its name, what it was, what it is."""
    path = folder / CONFIG
    try:
        before = RunConfig.from_dict(json.loads(read_regular(path, MAX_BYTES)))
    except (ValueError, TypeError, RecursionError) as error:
        raise ContractError(f"{path} cannot be read ({error}); restore it, or give --out another name") from None
    for field in dataclasses.fields(RunConfig):
        old, new = getattr(before, field.name), getattr(config, field.name)
        if field.name not in FREE and old != new and (new is not None or old != OLD_DEFAULTS.get(field.name)):
            return field.name, _shown(old), _shown(new)
    return None


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return asked(value)
