"""Checkpoints: one file with the weights and all metadata needed to use the weights, written atomically."""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from schemas.errors import ContractError
from schemas.storage.files import naming, sync, until_uninterrupted
from schemas.storage.regular_file import open_regular
from trainer.config import RunConfig
from trainer.errors import TrainerError, WrongUsage, first_line, raise_disk_error
from trainer.feed.recipes import Pixels
from trainer.runs.folder import BEST, partial_checkpoint
from trainer.runs.state import RunState

META = "trainer_meta"  # entries of a checkpoint that are not weights
STATE = "trainer_state"
TRAINING = "training:"  # prefix of the parameters that only training needs
RANK = "rank:"  # prefix, before the number of a rank, of the parameters that differ from those of rank 0


@dataclass(frozen=True)
class Meta:
    """Metadata of the weights: configuration, dataset, classes and input pixels.

    `accuracy` is the val accuracy, None if not measured. `step` is the number of steps since the start of the run.
    `policy` is the pixel policy of the dataset, empty in checkpoints of older versions. `kind` is the record kind.
    """

    config: RunConfig
    classes: tuple[str, ...]
    dataset_digest: str
    pixels: Pixels
    epoch: int
    step: int
    accuracy: float | None
    policy: dict[str, Any] = field(default_factory=dict)
    kind: str = "classification"

    def to_json(self) -> str:
        """Return the JSON text stored in the checkpoint."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Meta":
        """Parse the JSON text of a checkpoint. Raises ValueError, KeyError or TypeError if the text is invalid."""
        values = json.loads(text)
        values["config"] = RunConfig.from_dict(values["config"])
        values["classes"] = tuple(values["classes"])
        size, mean, std = (values["pixels"][key] for key in ("size", "mean", "std"))
        values["pixels"] = Pixels(size, tuple(mean), tuple(std))
        return cls(**values)


@dataclass(frozen=True)
class Training:
    """Training state, which a resume needs in addition to the weights: parameters by name and the run state.

    `others` has, for each rank from 1 on, the parameters that differ between the ranks. Names that are no weights start
    with TRAINING.
    """

    parameters: Mapping[str, Any]
    state: RunState
    others: Sequence[Mapping[str, Any]] = ()


@until_uninterrupted
def save(path: Path, weights: Any, meta: Meta, training: Training | None = None) -> None:
    """Write a checkpoint atomically: a temporary file is written, synced and renamed to `path`.

    `weights` is a network, or a dict of parameters by name. `training` is the training state, None if the checkpoint is
    not for a resume.
    """
    import mindspore

    entries, extra = weights, {META: meta.to_json()}
    if training is not None:
        states = {TRAINING + name: value for name, value in training.parameters.items()}
        others = {
            f"{RANK}{number}:{name}": value
            for number, values in enumerate(training.others, 1)
            for name, value in values.items()
        }
        entries = [{"name": name, "data": value} for name, value in {**_named(weights), **states, **others}.items()]
        extra[STATE] = training.state.to_json()
    elif isinstance(weights, dict):
        entries = [{"name": name, "data": value} for name, value in weights.items()]
    partial = partial_checkpoint(path)
    try:
        with naming(path):
            mindspore.save_checkpoint(entries, str(partial), append_dict=extra, crc_check=True)
            sync(partial)
            os.chmod(partial, 0o666 & ~_umask())  # MindSpore makes the file readable for its owner only
            os.replace(partial, path)
            sync(path.parent)
    finally:
        for left in (partial, partial.with_suffix(".tmp")):  # MindSpore writes the .tmp file first
            with contextlib.suppress(OSError):  # the first error is reported; the next process removes the files
                left.unlink()


def _named(weights: Any) -> dict[str, Any]:
    return weights if isinstance(weights, dict) else {p.name: p for p in weights.get_parameters()}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def find(path: Path) -> Path:
    """Return the checkpoint file `path`, or the best checkpoint of the run folder `path`.

    Raises TrainerError if the checkpoint is missing.
    """
    file = path / BEST if path.is_dir() else path
    if not file.is_file():
        problem = f"has no {BEST}" if path.is_dir() else "is neither a run folder nor a checkpoint"
        error = TrainerError if path.exists() else WrongUsage
        raise error(f"{path} {problem}; give the --out of a 'trainer run', or one of its .ckpt files")
    return file


def load(path: Path) -> tuple[dict[str, Any], Meta]:
    """Return the weights by name and the metadata of the checkpoint `path`.

    Raises ContractError if the file is damaged or from another program, and OSError if the file cannot be read.
    """
    weights, meta, _ = _read(path)
    return weights, meta


def load_training(path: Path) -> tuple[dict[str, Any], Meta, Training]:
    """Return weights, metadata and training state of the checkpoint `path`.

    Raises the errors of load(), and ContractError if the checkpoint has no training state.
    """
    weights, meta, training = _read(path)
    if training is None:
        raise ContractError(f"{path} has weights only, so no run can be resumed from it")
    return weights, meta, training


def _read(path: Path) -> tuple[dict[str, Any], Meta, Training | None]:
    import mindspore

    open_regular(path).close()  # MindSpore would block on a FIFO
    try:
        entries = mindspore.load_checkpoint(str(path), crc_check=True)
    except (ValueError, RuntimeError, TypeError) as error:
        raise_disk_error(error, path)
        raise ContractError(f"{path} is damaged or not a MindSpore checkpoint ({first_line(error)})") from None
    try:
        meta, state = Meta.from_json(entries.pop(META)), entries.pop(STATE, None)
        states = {name: entries.pop(name) for name in list(entries) if name.startswith(TRAINING)}
        named = {name.removeprefix(TRAINING): value for name, value in states.items()}
        others = _take_others(entries)
        return entries, meta, None if state is None else Training(named, RunState.from_json(state), others)
    except (KeyError, ValueError, TypeError):
        raise ContractError(f"{path} was not written by 'trainer run': it has no class names") from None


def _take_others(entries: dict[str, Any]) -> list[dict[str, Any]]:
    """Remove the parameters of the ranks from 1 on, and return them by rank."""
    others: dict[int, dict[str, Any]] = {}
    for entry in [entry for entry in entries if entry.startswith(RANK)]:
        number, _, name = entry.removeprefix(RANK).partition(":")
        others.setdefault(int(number), {})[name] = entries.pop(entry)
    return [others[number] for number in sorted(others)]


def fill(parameters: Mapping[str, Any], values: Mapping[str, Any], path: Path) -> None:
    """Set each parameter to the value of the same name from `path`. Raises ContractError if the names differ."""
    from mindspore import Tensor

    if parameters.keys() != values.keys():
        name = sorted(parameters.keys() ^ values.keys())[0]
        raise ContractError(f"{path} does not fit the run: parameter '{name}' is missing on one side")
    for name, parameter in parameters.items():
        # MindSpore loads a scalar as an array of one dimension.
        value = values[name].asnumpy().reshape(parameter.shape)
        parameter.set_data(Tensor(value, parameter.dtype))


def restore(network: Any, weights: dict[str, Any], path: Path) -> None:
    """Load the weights from `path` into the network. Raises ContractError if names or shapes differ.

    MindSpore's strict_load does not raise on missing parameters (measured on 2.10), so this function
    checks the lists of missing and unused names.
    """
    import mindspore

    try:
        missing, unused = mindspore.load_param_into_net(network, weights)
    except RuntimeError as error:
        raise ContractError(f"{path} does not fit the model: {error}") from None
    if missing or unused:
        name = [*missing, *unused][0]
        raise ContractError(f"{path} does not fit the model: parameter '{name}' is missing on one side")
