"""Fine-tuning: load pretrained weights, freeze parameters, and scale learning rates."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schemas.counting import many
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.errors import TrainerError, WrongUsage, raise_disk_error
from trainer.nn.models.mindcv_names import MINDCV_NAMES, agreeing_size, fold_epsilon, from_mindcv
from trainer.nn.optimizer import has_prefix, parse_scales
from trainer.runs import checkpoint


def start_from(
    network: Any, config: RunConfig, home: Path, num_classes: int, image_size: int, fresh: bool = True
) -> Iterator[str]:
    """Apply --init (relative to `home`) and --freeze to a network, check --lr-scale, and yield a sentence per change.

    `fresh` is False for a resumed run, which ignores --init. Call this function before the optimizer is made and before
    mixed precision is applied. Raises TrainerError or ContractError if an option does not fit the model.
    """
    if fresh and config.init is not None:
        yield load_init(network, home / config.init, num_classes, config.model, image_size)
    if config.freeze:
        yield freeze(network, config.freeze)
    check_scales(network, parse_scales(config.lr_scale))


def load_init(network: Any, path: Path, num_classes: int, model: str = "", image_size: int = 0) -> str:
    """Load a checkpoint, or the best checkpoint of a run folder, into a network. Return a sentence about the weights.

    All names and shapes must match, but a head for another number of classes keeps its initial values. Weights of the
    MindCV model that corresponds to the built-in `model` are renamed. Raises ContractError if the weights do not fit,
    and TrainerError at an `image_size` where the two models differ.
    """
    import mindspore

    file = checkpoint.find(path)
    weights, classes = _read(file)
    own = {parameter.name: parameter for parameter in network.get_parameters()}
    renamed = {} if set(own) <= set(weights) else from_mindcv(model, weights)
    if renamed:
        weights = {renamed[name]: weight for name, weight in weights.items()}
    fresh = [name for name in own if name in weights and _is_other_head(own[name], weights[name], num_classes)]
    if len({name.rpartition(".")[0] for name in fresh}) > 1:
        fresh = []  # several layers differ: this is another model, which is rejected below
    mismatches = _mismatches(own, weights, fresh)
    if mismatches:
        more = f" (and {len(mismatches) - 1} more)" if len(mismatches) > 1 else ""
        raise ContractError(
            f"--init {file} does not fit the model: {mismatches[0]}{more}; give the --model that it was trained with"
        )
    if renamed:
        _check_mindcv(model, image_size, file)
        fold_epsilon(model, weights)
    mindspore.load_param_into_net(network, {name: weights[name] for name in own if name not in fresh})
    source = f"{file}, renamed from MindCV" if renamed else str(file)
    if fresh:
        theirs = weights[fresh[0]].shape[0]
        loaded = f"{many(len(own) - len(fresh), 'weight')} from {source}"
        return f"init: {loaded}; {', '.join(fresh)} not loaded: the file has {many(theirs, 'class', 'classes')}"
    others = "" if classes is None or len(classes) == num_classes else "; its classes have other names"
    return f"init: all {len(own)} weights from {source}{others}"


def _check_mindcv(model: str, image_size: int, file: Path) -> None:
    size = agreeing_size(model, image_size)
    if size != image_size:
        raise TrainerError(
            f"--init {file} has weights of MindCV's {model}, which pads images of {image_size} pixels differently from "
            f"this model; use --image-size {size}, where both models agree, or "
            f"--model mindcv:{MINDCV_NAMES.get(model, model)}"
        )


def _read(file: Path) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    import mindspore

    try:
        weights = mindspore.load_checkpoint(str(file))
    except (ValueError, RuntimeError, TypeError) as error:
        raise_disk_error(error, file)
        weights = {checkpoint.META: None}  # checkpoint.load below reports the problem
    if checkpoint.META not in weights:
        return weights, None
    weights, meta = checkpoint.load(file)
    return weights, meta.classes


def _is_other_head(own: Any, given: Any, num_classes: int) -> bool:
    # Only the first axis differs, and its size in this network is the number of classes.
    return bool(own.shape and given.shape) and (
        own.shape[0] == num_classes != given.shape[0] and own.shape[1:] == given.shape[1:]
    )


def _mismatches(own: dict[str, Any], weights: dict[str, Any], fresh: Sequence[str]) -> list[str]:
    problems = [f"the file has no parameter '{name}'" for name in own if name not in weights]
    problems += [f"the model has no parameter '{name}'" for name in weights if name not in own]
    for name in own:
        if name in weights and name not in fresh and own[name].shape != weights[name].shape:
            problems.append(f"'{name}' has shape {weights[name].shape} in the file and {own[name].shape} in the model")
    return problems


def freeze(network: Any, prefixes: Sequence[str]) -> str:
    """Freeze all parameters with one of the prefixes, and their norm statistics. Return a sentence with the counts.

    Call this function before the optimizer is made and before mixed precision is applied. Raises TrainerError if a
    prefix matches no parameter, or if no trainable parameter is left.
    """
    from mindspore import nn

    parameters = list(network.get_parameters())
    _check_prefixes("--freeze", prefixes, [parameter.name for parameter in parameters])
    for parameter in parameters:
        if any(has_prefix(parameter.name, prefix) for prefix in prefixes):
            parameter.requires_grad = False
    for name, cell in network.cells_and_names():
        norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        if isinstance(cell, norms) and any(has_prefix(name, prefix) for prefix in prefixes):
            cell.use_batch_statistics = False  # also in training, so that the moving averages do not change
    left = sum(parameter.size for parameter in network.trainable_params())
    if not left:
        raise TrainerError(f"--freeze {', '.join(prefixes)} leaves no trainable parameter; do not freeze the head")
    frozen = sum(p.size for p in parameters if any(has_prefix(p.name, prefix) for prefix in prefixes))
    return f"freeze: {frozen:,} parameters frozen, {left:,} trainable"


def check_scales(network: Any, scales: dict[str, float]) -> None:
    """Raise TrainerError unless each prefix in `scales` matches a trainable parameter."""
    names = [parameter.name for parameter in network.trainable_params()]
    _check_prefixes("--lr-scale", list(scales), names, "trainable ")


def _check_prefixes(option: str, prefixes: Sequence[str], names: Sequence[str], which: str = "") -> None:
    for prefix in prefixes:
        if not any(has_prefix(name, prefix) for name in names):
            top = sorted({name.partition(".")[0] for name in names})
            raise WrongUsage(
                f"{option} {prefix}: no {which}parameter has this prefix; top-level prefixes are {', '.join(top)}, "
                f"and an example of a full name is {names[0]}"
            )
