"""`trainer export`: write a checkpoint as MindIR, ONNX or AIR with a JSON description, and check its outputs."""

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

# Allowed difference relative to the largest logit. The order of float32 sums may differ; float16 has 10 fraction bits.
TOLERANCE = {"O0": 1e-4}
FLOAT16_TOLERANCE = 2e-2


@dataclass(frozen=True)
class Exported:
    """Result of an export: the model file, its JSON description, and the input shape.

    `difference` is the largest difference of a logit between checkpoint and model on one batch, or None if the model
    cannot be run here. `note` says how the model was checked.
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
    config: RunConfig,
    show: Show,
    home: Path = Path(),
) -> Exported:
    """Export a checkpoint, or the best checkpoint of a run folder, to `out` or next to the checkpoint.

    `model_format` is mindir, onnx or air. The model maps float32 RGB images (batch_size, 3, S, S), normalised as in the
    JSON description, to logits. Raises TrainerError, and writes no file, if MindSpore cannot write the format or if the
    outputs differ from the outputs of the checkpoint.
    """
    file, home = checkpoint.find(path).resolve(), home.resolve()
    effect = in_effect(config, show)
    check_export(model_format, effect.device)
    target = (file.with_suffix(f".{model_format}") if out is None else out).absolute()
    if not target.parent.is_dir():
        raise TrainerError(f"{target.parent} is not a folder; give --out a file in an existing folder")
    with scratch(None) as folder:
        model = restore(file, home, effect)
        size = model.meta.pixels.size
        shape = (batch_size, 3, size, size)
        # Normal noise has the distribution of normalised pixels; the seed makes a failure reproducible.
        images = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        expected = model.logits(images, batch_size)
        written = _write(model, images, model_format, folder)
        difference, note = CHECKS[model_format](written, images, expected)
        level = effect.precision.amp_level
        allowed = TOLERANCE.get(level, FLOAT16_TOLERANCE) * max(float(np.abs(expected).max()), 1.0)
        if difference is not None and not difference <= allowed:
            raise TrainerError(
                f"the {model_format} model differs from {file} by {difference:.3g} in a logit (allowed {allowed:.3g}), "
                "so it was not written; try --amp-level O0, and report this"
            )
        exported = Exported(
            file=str(target),
            description=str(target.with_name(target.name + ".json")),
            model_format=model_format,
            input_shape=shape,
            classes=len(model.meta.classes),
            difference=difference,
            note=note,
        )
        _publish(written, exported, model)
    return exported


def _write(model: LoadedModel, images: NDArray[np.float32], model_format: str, folder: Path) -> Path:
    if model_format == "onnx":
        prepare_for_onnx(model.network)
    try:
        mindspore.export(
            model.network, Tensor(images), file_name=str(folder / "model"), file_format=model_format.upper()
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise_disk_error(error)
        raise TrainerError(
            f"MindSpore cannot write {model.meta.config.model} as {model_format}: {first_line(error)}"
            + ("" if model_format == "mindir" else "; use --format mindir")
        ) from None
    written = folder / f"model.{model_format}"
    if not written.is_file():
        raise TrainerError(f"MindSpore split the model, which is too large for one {model_format} file")
    return written


def _check_mindir(file: Path, images: NDArray[np.float32], expected: NDArray[Any]) -> tuple[float | None, str]:
    outputs = nn.GraphCell(mindspore.load(str(file)))(Tensor(images)).asnumpy()
    return _difference(outputs, expected), "loaded with GraphCell and compared on one batch"


def _check_onnx(file: Path, images: NDArray[np.float32], expected: NDArray[Any]) -> tuple[float | None, str]:
    try:
        runtime = importlib.import_module("onnxruntime")
    except ModuleNotFoundError:
        return None, "not checked: onnxruntime is not installed (pip install onnxruntime)"
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {session.get_inputs()[0].name: images})
    return _difference(outputs, expected), "run with ONNX Runtime and compared on one batch"


def _check_air(file: Path, images: NDArray[np.float32], expected: NDArray[Any]) -> tuple[float | None, str]:
    return None, "not checked: MindSpore cannot load AIR; also export MindIR and compare on the device"


def _difference(outputs: NDArray[Any], expected: NDArray[Any]) -> float:
    if outputs.shape != expected.shape:
        return float("inf")
    return float(np.abs(outputs.astype(np.float64) - expected.astype(np.float64)).max())


Check = Callable[[Path, NDArray[np.float32], NDArray[Any]], tuple[float | None, str]]
CHECKS: dict[str, Check] = {"mindir": _check_mindir, "onnx": _check_onnx, "air": _check_air}


def _publish(written: Path, exported: Exported, model: LoadedModel) -> None:
    meta = model.meta
    description = {
        "file": Path(exported.file).name,
        "format": exported.model_format,
        "input": {"shape": exported.input_shape, "dtype": "float32", "layout": "NCHW", "channels": "RGB"},
        "image_size": meta.pixels.size,
        "recipe": meta.config.recipe,
        "mean": meta.pixels.mean,
        "std": meta.pixels.std,
        "output": "logits",
        "classes": meta.classes,
        "model": meta.config.model,
        "precision": model.effect.precision.amp_level,
        "dataset_digest": meta.dataset_digest,
        "policy": meta.policy,
        "accuracy": meta.accuracy,
        "difference": exported.difference,
        "check": exported.note,
    }
    try:
        temporary = Path(exported.file).with_name(f".{Path(exported.file).name}-{os.getpid()}")
        shutil.copyfile(written, temporary)  # not a move: MindSpore makes the file readable for its owner only
        sync(temporary)
        Path(exported.description).unlink(missing_ok=True)  # a kill here leaves no outdated description
        os.replace(temporary, exported.file)
        write_whole(Path(exported.description), json.dumps(description, indent=1) + "\n")
    except OSError as error:
        raise disk_error(error, f"cannot write {exported.file}") from None
