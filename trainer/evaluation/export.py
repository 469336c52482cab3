"""`trainer export`: a checkpoint as MindIR, ONNX or AIR, checked against it, with what feeds it beside it."""

import importlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, nn
from numpy.typing import NDArray

from schemas.storage.files import sync, write_whole
from trainer.config import RunConfig
from trainer.device.context import check_export
from trainer.errors import TrainerError, disk_error, first_line, raise_disk_error
from trainer.evaluation.onnx_cells import prepare_for_onnx
from trainer.evaluation.restore import LoadedModel, Show, in_effect, restore
from trainer.runs import checkpoint
from trainer.runs.folder import scratch

# Largest difference of a logit, as a share of the largest logit: float32 sums may be taken in another order; float16
# has ten bits of fraction.
TOLERANCE = {"O0": 1e-4}
FLOAT16_TOLERANCE = 2e-2


@dataclass(frozen=True)
class Exported:
    """What was written: the model, the JSON beside it, its input shape, and how it was checked.

    `difference` is the largest of any logit on one batch against the checkpoint; None where nothing here runs the
    format, and `note` says so.
    """

    file: str
    description: str
    model_format: str
    input_shape: tuple[int, int, int, int]
    classes: int
    difference: float | None
    note: str


def export_checkpoint(
    path: Path,
    model_format: str,
    out: Path | None,
    batch_size: int,
    asked: RunConfig,
    show: Show,
    home: Path = Path(),
) -> Exported:
    """Write the checkpoint (a run's best) as `model_format`, one of mindir, onnx, air; `out` None means beside it.

    The model takes float32 (batch_size, 3, S, S), RGB, normalised as the JSON says, and gives logits. Raises
    TrainerError when MindSpore cannot write it so, or when its outputs are not the checkpoint's; then nothing is left.
    """
    file, home = checkpoint.find(path).resolve(), home.resolve()
    effect = in_effect(asked, show)
    check_export(model_format, effect.device)
    target = (file.with_suffix(f".{model_format}") if out is None else out).absolute()
    if not target.parent.is_dir():
        raise TrainerError(f"{target.parent} is not a folder; give --out a file in one that is there")
    with scratch(None) as folder:
        ready = restore(file, home, effect)
        size = ready.meta.pixels.size
        shape = (batch_size, 3, size, size)
        # Normal noise is what normalised pixels look like to a network; the seed makes a failure repeatable.
        images = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        expected = ready.logits(images, batch_size)
        written = _write(ready, images, model_format, folder)
        difference, note = CHECKS[model_format](written, images, expected)
        level = effect.precision.amp_level
        allowed = TOLERANCE.get(level, FLOAT16_TOLERANCE) * max(float(np.abs(expected).max()), 1.0)
        if difference is not None and not difference <= allowed:
            raise TrainerError(
                f"the {model_format} model differs from {file} by {difference:.3g} in a logit (allowed {allowed:.3g}), "
                "so it was not kept; try --amp-level O0, and report it"
            )
        made = Exported(
            file=str(target),
            description=str(target.with_name(target.name + ".json")),
            model_format=model_format,
            input_shape=shape,
            classes=len(ready.meta.classes),
            difference=difference,
            note=note,
        )
        _keep(written, made, ready)
    return made


def _write(ready: LoadedModel, images: NDArray[np.float32], model_format: str, folder: Path) -> Path:
    if model_format == "onnx":
        prepare_for_onnx(ready.network)
    try:
        mindspore.export(
            ready.network, Tensor(images), file_name=str(folder / "model"), file_format=model_format.upper()
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise_disk_error(error)
        raise TrainerError(
            f"MindSpore cannot write {ready.meta.config.model} as {model_format}: {first_line(error)}"
            + ("" if model_format == "mindir" else "; use --format mindir")
        ) from None
    written = folder / f"model.{model_format}"
    if not written.is_file():
        raise TrainerError(f"MindSpore split the model, which is too large for one {model_format} file")
    return written


def _check_mindir(file: Path, images: NDArray[np.float32], expected: NDArray[Any]) -> tuple[float | None, str]:
    found = nn.GraphCell(mindspore.load(str(file)))(Tensor(images)).asnumpy()
    return _difference(found, expected), "loaded with GraphCell and compared on one batch"


def _check_onnx(file: Path, images: NDArray[np.float32], expected: NDArray[Any]) -> tuple[float | None, str]:
    try:
        runtime = importlib.import_module("onnxruntime")
    except ModuleNotFoundError:
        return None, "not checked: that takes pip install onnxruntime"
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: images})
    return _difference(found, expected), "run with ONNX Runtime and compared on one batch"


def _check_air(file: Path, images: NDArray[np.float32], expected: NDArray[Any]) -> tuple[float | None, str]:
    return None, "not checked: nothing in MindSpore loads AIR; export MindIR too and compare on the device"


def _difference(found: NDArray[Any], expected: NDArray[Any]) -> float:
    if found.shape != expected.shape:
        return float("inf")
    return float(np.abs(found.astype(np.float64) - expected.astype(np.float64)).max())


Check = Callable[[Path, NDArray[np.float32], NDArray[Any]], tuple[float | None, str]]
CHECKS: dict[str, Check] = {"mindir": _check_mindir, "onnx": _check_onnx, "air": _check_air}


def _keep(written: Path, made: Exported, ready: LoadedModel) -> None:
    meta = ready.meta
    description = {
        "file": Path(made.file).name,
        "format": made.model_format,
        "input": {"shape": made.input_shape, "dtype": "float32", "layout": "NCHW", "channels": "RGB"},
        "image_size": meta.pixels.size,
        "recipe": meta.config.recipe,
        "mean": meta.pixels.mean,
        "std": meta.pixels.std,
        "output": "logits",
        "classes": meta.classes,
        "model": meta.config.model,
        "precision": ready.effect.precision.amp_level,
        "dataset_digest": meta.dataset_digest,
        "policy": meta.policy,
        "accuracy": meta.accuracy,
        "difference": made.difference,
        "check": made.note,
    }
    try:
        parts = Path(made.file).with_name(f".{Path(made.file).name}-{os.getpid()}")
        shutil.copyfile(written, parts)  # not a move: MindSpore leaves the file readable for its owner alone
        sync(parts)
        Path(made.description).unlink(missing_ok=True)  # no model beside the description of another, if killed here
        os.replace(parts, made.file)
        write_whole(Path(made.description), json.dumps(description, indent=1) + "\n")
    except OSError as error:
        raise disk_error(error, f"cannot write {made.file}") from None
