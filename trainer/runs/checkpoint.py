"""Checkpoints: one file with the weights and all that is needed to use them; written whole or not at all."""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from schemas.errors import ContractError
from schemas.storage.files import sync
from schemas.storage.regular_file import open_regular
from trainer.config import RunConfig
from trainer.errors import TrainerError, WrongUsage, disk_error_behind, naming, until_uninterrupted
from trainer.feed.recipes import Pixels
from trainer.runs.folder import BEST
from trainer.runs.state import RunState

META = "trainer_meta"  # the entries of a checkpoint that are no weights
STATE = "trainer_state"
TRAINING = "training:"  # begins the names of those that only training needs


@dataclass(frozen=True)
class Meta:
    """What the weights mean: how they were trained, on which data, for which classes, on which pixels.

    `accuracy` is that on val, None when it was not measured. `step` counts from the start of the run. `policy` is what
    dataprep did to the pixels of the data, empty in checkpoints of before it was kept. `kind` is the record kind.
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
        """The form in which it is stored inside the checkpoint."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Meta":
        """Read the stored form; raises ValueError, KeyError or TypeError when it is something else."""
        values = json.loads(text)
        values["config"] = RunConfig.from_dict(values["config"])
        values["classes"] = tuple(values["classes"])
        size, mean, std = (values["pixels"][key] for key in ("size", "mean", "std"))
        values["pixels"] = Pixels(size, tuple(mean), tuple(std))
        return cls(**values)


@dataclass(frozen=True)
class Training:
    """What an exact resume needs beside the weights: parameters by name, and the place of the run."""

    parameters: Mapping[str, Any]
    state: RunState


@until_uninterrupted
def save(path: Path, weights: Any, meta: Meta, training: Training | None = None) -> None:
    """Write `path` by way of a temporary name, on the disk before it gets its own, so that it is never half there.

    `weights` is a network, or parameters by name.
    """
    import mindspore

    entries, extra = weights, {META: meta.to_json()}
    if training is not None:
        states = {TRAINING + name: value for name, value in training.parameters.items()}
        entries = [{"name": name, "data": value} for name, value in {**_named(weights), **states}.items()]
        extra[STATE] = training.state.to_json()
    elif isinstance(weights, dict):
        entries = [{"name": name, "data": value} for name, value in weights.items()]
    parts = path.with_name(f".{path.stem}-{os.getpid()}.ckpt")
    try:
        with naming(path):
            mindspore.save_checkpoint(entries, str(parts), append_dict=extra, crc_check=True)
            sync(parts)
            os.chmod(parts, 0o666 & ~_umask())  # MindSpore leaves it unreadable for colleagues
            os.replace(parts, path)
            sync(path.parent)
    finally:
        for left in (parts, parts.with_suffix(".tmp")):  # where MindSpore writes it first
            with contextlib.suppress(OSError):  # what failed above is told; the next process takes them away
                left.unlink()


def _named(weights: Any) -> dict[str, Any]:
    return weights if isinstance(weights, dict) else {p.name: p for p in weights.get_parameters()}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def find(path: Path) -> Path:
    """The checkpoint file meant by `path`: itself, or the best one of a run folder. Raises TrainerError."""
    file = path / BEST if path.is_dir() else path
    if not file.is_file():
        what = f"holds no {BEST}" if path.is_dir() else "is neither a run folder nor a checkpoint"
        error = TrainerError if path.exists() else WrongUsage
        raise error(f"{path} {what}; give the --out of a 'trainer run', or one of its .ckpt files")
    return file


def load(path: Path) -> tuple[dict[str, Any], Meta]:
    """Weights by name, and what they mean. Raises ContractError when the file is damaged or not from this program,
    OSError when it cannot be read.
    """
    weights, meta, _ = _read(path)
    return weights, meta


def load_training(path: Path) -> tuple[dict[str, Any], Meta, Training]:
    """Weights, what they mean, and what training goes on from. Raises ContractError, also when the last is missing."""
    weights, meta, training = _read(path)
    if training is None:
        raise ContractError(f"{path} holds weights only, so no run can go on from it")
    return weights, meta, training


def _read(path: Path) -> tuple[dict[str, Any], Meta, Training | None]:
    import mindspore

    open_regular(path).close()  # MindSpore would wait for a FIFO
    try:
        entries = mindspore.load_checkpoint(str(path), crc_check=True)
    except (ValueError, RuntimeError, TypeError) as error:
        if (behind := disk_error_behind(error)) is not None:
            behind.filename = str(path)
            raise behind from None
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ContractError(f"{path} is damaged or no MindSpore checkpoint ({first})") from None
    try:
        meta, state = Meta.from_json(entries.pop(META)), entries.pop(STATE, None)
        states = {name: entries.pop(name) for name in list(entries) if name.startswith(TRAINING)}
        named = {name.removeprefix(TRAINING): value for name, value in states.items()}
        return entries, meta, None if state is None else Training(named, RunState.from_json(state))
    except (KeyError, ValueError, TypeError):
        raise ContractError(f"{path} was not written by 'trainer run': it does not name the classes it knows") from None


def fill(parameters: Mapping[str, Any], values: Mapping[str, Any], path: Path) -> None:
    """Set parameters to the values of the same names, shapes kept. Raises ContractError unless the names are equal."""
    from mindspore import Tensor

    if parameters.keys() != values.keys():
        name = sorted(parameters.keys() ^ values.keys())[0]
        raise ContractError(f"{path} does not fit the run: '{name}' is in only one of the two")
    for name, parameter in parameters.items():
        # Scalars come back with one dimension.
        value = values[name].asnumpy().reshape(parameter.shape)
        parameter.set_data(Tensor(value, parameter.dtype))


def restore(network: Any, weights: dict[str, Any], path: Path) -> None:
    """Load the weights into the network; raises ContractError unless every one finds its place.

    MindSpore's strict_load does not raise on missing parameters (measured on 2.10), so both lists are looked at.
    """
    import mindspore

    try:
        missing, spare = mindspore.load_param_into_net(network, weights)
    except RuntimeError as error:
        raise ContractError(f"{path} does not fit the model: {error}") from None
    if missing or spare:
        name = [*missing, *spare][0]
        raise ContractError(f"{path} does not fit the model: '{name}' is in only one of the two")
