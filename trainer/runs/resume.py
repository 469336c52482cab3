"""Decide whether a request starts a run, resumes a run, or names a complete run. MindSpore is not imported."""

import dataclasses
import json
from pathlib import Path

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from schemas.storage.regular_file import read_regular
from trainer.config import RunConfig
from trainer.decisions import requested
from trainer.device import rank
from trainer.errors import TrainerError, WrongUsage
from trainer.runs.folder import CONFIG, RESULT, RUNS, contains_run
from trainer.runs.history import start_settings
from trainer.runs.result import TrainResult

MAX_BYTES = 16 << 20  # size limit of config.json and result.json
# Options without effect on the results. The dataset may have moved, so its digest is compared instead of its path.
FREE = {"dataset", "out", "resume", "exact_resume", "log_every", "full_check", "keep", "save_every", "bind", "prefetch"}
# A resumed run keeps its number of workers. If another number is requested, a warning is shown.
FREE |= {"workers"}
# The global batch is compared instead: a run may resume with another number of ranks and the corresponding batch size.
FREE |= {"ranks", "batch_size", "nodes", "node_rank", "master", "rank_timeout"}
OLD_DEFAULTS = {"optimizer": "adamw"}  # recorded by earlier versions if no optimizer was requested


def find_run(config: RunConfig) -> RunConfig:
    """Return `config`; for --resume without --out, `out` is set to the latest unfinished run with the same options.

    Raises TrainerError if no run can be resumed.
    """
    if not config.resume:
        return config
    if config.out is not None:
        if not contains_run(Path(config.out)):
            raise WrongUsage(f"--resume: {config.out} has no run to resume; omit --resume to start a run")
        return config
    name = Path(config.dataset).resolve().name or "dataset"
    numbered = [path for path in RUNS.glob(f"{name}-*") if path.name.removeprefix(f"{name}-").isdecimal()]
    for folder in sorted(numbered, key=lambda path: int(path.name.removeprefix(f"{name}-")), reverse=True):
        if contains_run(folder) and not (folder / RESULT).exists() and _difference(folder, config) is None:
            return dataclasses.replace(config, out=str(folder))
    raise TrainerError(
        f"--resume: {RUNS.resolve()} has no unfinished run with these options; set --out to a run folder"
    )


def finished(config: RunConfig) -> TrainResult | None:
    """Return the result of the run in --out if the run is complete, else None.

    Raises TrainerError if the run has other options, and ContractError if the run used another dataset.
    """
    if config.out is None or not contains_run(Path(config.out)):
        return None
    folder = Path(config.out).resolve()
    difference = _difference(folder, config)
    if difference is not None:
        option, before, now = difference
        same = "the same product of --batch-size and --ranks" if option == "batch_size" else "the same options"
        raise TrainerError(
            f"{folder} was started with --{option.replace('_', '-')} {before}, now it is {now}; "
            f"give {same} to resume, or --out another name"
        )
    path = folder / RESULT
    if not path.exists():
        return None
    try:
        result = TrainResult.from_json(read_regular(path, MAX_BYTES).decode())
    except (ValueError, TypeError):
        raise ContractError(f"{path} is damaged; remove it and run the same command again") from None
    same_data(folder, result.dataset_digest, load_dataset(Path(config.dataset).resolve()).digest)
    return result


def same_data(folder: Path, before: str, now: str) -> None:
    """Raise ContractError if the digest of the dataset has changed since the start of the run."""
    if before != now:
        raise ContractError(f"{folder} was started on another dataset; give --out another name")


def _difference(folder: Path, config: RunConfig) -> tuple[str, str, str] | None:
    """Return (name, old value, new value) of the first option that differs from the run in `folder`, or None."""
    path = folder / CONFIG
    try:
        before = RunConfig.from_dict(json.loads(read_regular(path, MAX_BYTES)))
    except (ValueError, TypeError, RecursionError) as error:
        raise ContractError(f"{path} cannot be read ({error}); restore it, or give --out another name") from None
    for field in dataclasses.fields(RunConfig):
        old, new = getattr(before, field.name), getattr(config, field.name)
        if field.name not in FREE and old != new and (new is not None or old != OLD_DEFAULTS.get(field.name)):
            return field.name, _shown(old), _shown(new)
    first, second = _ranks_before(folder, before), config.ranks or rank.count() or 1
    if before.batch_size * first != config.batch_size * second:
        return "batch_size", _batch(before.batch_size, first), _batch(config.batch_size, second)
    return None


def _ranks_before(folder: Path, config: RunConfig) -> int:
    start = None if config.ranks else start_settings(str(folder))  # msrun may have set the number
    return config.ranks or (None if start is None else start.ranks) or 1


def _batch(size: int, ranks: int) -> str:
    return str(size) if ranks == 1 else f"{size} on {ranks} ranks"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return requested(value)
