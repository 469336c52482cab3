"""Starts from weights that were learnt before: loads what fits, freezes parts, and gives parts a rate of their own."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schemas.counting import many
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.errors import TrainerError, WrongUsage, raise_disk_error
from trainer.nn.models.mindcv_names import MINDCV_NAMES, agreeing_size, fold_epsilon, from_mindcv
from trainer.nn.optimizer import begins, parse_scales
from trainer.runs import checkpoint


def start_from(
    network: Any, config: RunConfig, home: Path, num_classes: int, image_size: int, fresh: bool = True
) -> Iterator[str]:
    """Prepare a network for images of `image_size` pixels as asked by --init (relative to `home`), --freeze and
    --lr-scale; yields what was done.

    A run that goes on (not `fresh`) has weights of its own, so those of --init may be gone.

    Call before the optimizer is made and before mixed precision. Raises TrainerError or ContractError.
    """
    if fresh and config.init is not None:
        yield load_init(network, home / config.init, num_classes, config.model, image_size)
    if config.freeze:
        yield freeze(network, config.freeze)
    check_scales(network, parse_scales(config.lr_scale))


def load_init(network: Any, path: Path, num_classes: int, model: str = "", image_size: int = 0) -> str:
    """Load the weights of a checkpoint (a run folder: its best) into a network and say what was left new.

    Every weight must find its place, but a head of another number of classes stays as it was initialised. Weights may
    come from elsewhere than 'trainer run': those of MindCV's counterpart of the built-in `model` are renamed, and
    refused at an `image_size` where that is another model. Raises TrainerError or ContractError.
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
        fresh = []  # several layers: no head, but another model; told below
    wrong = _misfits(own, weights, fresh)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ContractError(
            f"--init {file} does not fit the model: {wrong[0]}{more}; give the --model it was made with"
        )
    if renamed:
        _check_mindcv(model, image_size, file)
        fold_epsilon(model, weights)
    mindspore.load_param_into_net(network, {name: weights[name] for name in own if name not in fresh})
    source = f"{file}, MindCV's renamed" if renamed else str(file)
    if fresh:
        theirs = weights[fresh[0]].shape[0]
        loaded = f"{many(len(own) - len(fresh), 'weight')} from {source}"
        return f"init: {loaded}; {', '.join(fresh)} new: {many(theirs, 'class', 'classes')} there"
    others = "" if classes is None or len(classes) == num_classes else "; its classes had other names"
    return f"init: all {len(own)} weights from {source}{others}"


def _check_mindcv(model: str, image_size: int, file: Path) -> None:
    size = agreeing_size(model, image_size)
    if size != image_size:
        raise TrainerError(
            f"--init {file} holds MindCV's weights, and MindCV's {model} pads images of {image_size} pixels in another "
            f"way than this one; use --image-size {size}, where both are the same, or "
            f"--model mindcv:{MINDCV_NAMES.get(model, model)}"
        )


def _read(file: Path) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    import mindspore

    try:
        weights = mindspore.load_checkpoint(str(file))
    except (ValueError, RuntimeError, TypeError) as error:
        raise_disk_error(error, file)
        weights = {checkpoint.META: None}  # load below says what is wrong with it
    if checkpoint.META not in weights:
        return weights, None
    weights, meta = checkpoint.load(file)
    return weights, meta.classes


def _is_other_head(own: Any, given: Any, num_classes: int) -> bool:
    # Only the first axis differs, and here it is the number of classes.
    return bool(own.shape and given.shape) and (
        own.shape[0] == num_classes != given.shape[0] and own.shape[1:] == given.shape[1:]
    )


def _misfits(own: dict[str, Any], weights: dict[str, Any], fresh: Sequence[str]) -> list[str]:
    wrong = [f"the model's '{name}' is not in it" for name in own if name not in weights]
    wrong += [f"its '{name}' is not in the model" for name in weights if name not in own]
    for name in own:
        if name in weights and name not in fresh and own[name].shape != weights[name].shape:
            wrong.append(f"'{name}' has shape {weights[name].shape} in it and {own[name].shape} in the model")
    return wrong


def freeze(network: Any, prefixes: Sequence[str]) -> str:
    """Keep all that begins with a prefix as it is, norm statistics included; says how much learns.

    Call before the optimizer is made and before mixed precision. Raises TrainerError when a prefix names nothing, or
    when nothing is left to learn.
    """
    from mindspore import nn

    parameters = list(network.get_parameters())
    _check_prefixes("--freeze", prefixes, [parameter.name for parameter in parameters])
    for parameter in parameters:
        if any(begins(parameter.name, prefix) for prefix in prefixes):
            parameter.requires_grad = False
    for name, cell in network.cells_and_names():
        norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        if isinstance(cell, norms) and any(begins(name, prefix) for prefix in prefixes):
            cell.use_batch_statistics = False  # in training too, so that the moving averages stay
    left = sum(parameter.size for parameter in network.trainable_params())
    if not left:
        raise TrainerError(f"--freeze {', '.join(prefixes)} leaves nothing to learn; leave the head out")
    frozen = sum(p.size for p in parameters if any(begins(p.name, prefix) for prefix in prefixes))
    return f"freeze: {frozen:,} parameters stay, {left:,} learn"


def check_scales(network: Any, scales: dict[str, float]) -> None:
    """Raise TrainerError unless each prefix names something that learns."""
    _check_prefixes(
        "--lr-scale", list(scales), [parameter.name for parameter in network.trainable_params()], " that learns"
    )


def _check_prefixes(option: str, prefixes: Sequence[str], names: Sequence[str], which: str = "") -> None:
    for prefix in prefixes:
        if not any(begins(name, prefix) for name in names):
            parts = sorted({name.partition(".")[0] for name in names})
            raise WrongUsage(
                f"{option} {prefix}: no parameter{which} begins so; the parts are {', '.join(parts)}, "
                f"and a name is for example {names[0]}"
            )
