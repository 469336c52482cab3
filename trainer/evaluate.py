"""Counts a network's hits on a split, each row exactly once; and `trainer eval`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mindspore import Tensor

from schemas.dataset import Dataset, load_dataset
from schemas.errors import ContractError
from trainer import checkpoint
from trainer.config import RunConfig
from trainer.data import check_labels, eval_batches, try_recipe
from trainer.decision import Decision
from trainer.device import apply, decide, this_machine
from trainer.errors import TrainerError
from trainer.mixed import mixed
from trainer.network import build_network
from trainer.objective import Scores, score
from trainer.plan import check_files, demand
from trainer.recipes import find_recipe
from trainer.runfolder import scratch

USUAL_SIDE = 224  # to lay the pipeline out before the checkpoint, which knows the side, can be read
# Settings that have no effect on an evaluation.
TRAINING_ONLY = ("loss scale", "sink", "sink size", "seen", "graph kernel", "jit level")


@dataclass(frozen=True)
class Evaluation:
    """What `trainer eval` found. `same_data` says whether the dataset is the one that the checkpoint was trained on."""

    checkpoint: str
    dataset: str
    split: str
    rows: int
    correct: int
    accuracy: float
    loss: float
    same_data: bool


def evaluate_network(network: Any, batches: Any, batch_size: int, each_batch: Callable[[], None]) -> Scores:
    """Score a network over (images, labels) batches; leaves it in evaluation mode. `each_batch` may raise to stop."""
    network.set_train(False)
    total = Scores()
    for images, labels in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
        logits = network(Tensor(_padded(images, batch_size))).asnumpy()
        total += score(logits[: len(labels)], labels)
        each_batch()
    return total


def _padded(images: Any, batch_size: int) -> Any:
    # One shape for all batches: a smaller last one would be compiled again, which takes minutes on Ascend.
    missing = batch_size - len(images)
    return np.pad(images, [(0, missing), (0, 0), (0, 0), (0, 0)]) if missing else images


def evaluate_checkpoint(
    path: Path,
    folder: Path,
    split: str,
    asked: RunConfig,
    show: Callable[[tuple[Decision, ...]], None],
    each_batch: Callable[[], None],
) -> Evaluation:
    """Score a checkpoint, or a run's best one, on a split of a sealed dataset.

    `asked` carries device settings only; model, recipe and pixels are the checkpoint's. Raises TrainerError, or
    ContractError when the data is damaged or has other classes.
    """
    file, folder = checkpoint.find(path).resolve(), folder.resolve()
    dataset = load_dataset(folder)
    if split not in dataset.splits or not dataset.splits[split].rows:
        raise TrainerError(f"{folder} has no rows in split '{split}'; it has {', '.join(dataset.splits)}")
    check_files(folder, dataset.splits[split], full=asked.full_check)
    needs = demand([dataset.splits[split]], USUAL_SIDE, asked.batch_size)
    effect = decide(asked, this_machine(asked.device), demand=needs)
    show(tuple(decision for decision in effect.decisions if decision.setting not in TRAINING_ONLY))
    home = Path.cwd()
    with scratch(None):
        apply(effect)
        weights, meta = checkpoint.load(file)
        check_classes(meta, dataset, file, folder)
        check_labels(folder, dataset, split)
        network = build_network(meta.config.model, home, len(meta.classes), meta.pixels.size, effect)
        checkpoint.restore(network, weights, file)
        recipe, size = find_recipe(meta.config.recipe, home), asked.batch_size
        try_recipe(meta.config.recipe, recipe, meta.pixels.size)
        batches = eval_batches(folder, dataset, split, recipe, meta.pixels, size, effect)
        network = mixed(network, effect.precision, meta.config.keep_fp32)
        scores = evaluate_network(network, batches, size, each_batch)
    return Evaluation(
        checkpoint=str(file),
        dataset=str(folder),
        split=split,
        rows=scores.rows,
        correct=scores.correct,
        accuracy=scores.accuracy,
        loss=scores.loss,
        same_data=meta.dataset_digest == dataset.digest,
    )


def check_classes(meta: checkpoint.Meta, dataset: Dataset, file: Path, folder: Path) -> None:
    """Raise ContractError unless checkpoint and dataset give each class the same number."""
    if meta.classes == dataset.classes:
        return
    pairs = zip((*meta.classes, None), (*dataset.classes, None), strict=False)
    number, (ours, theirs) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    raise ContractError(
        f"{file} was trained on other classes than {folder} has: class {number} is {ours!r} there and {theirs!r} here; "
        f"shard with the training set's class list ('dataprep shard --classes')"
    )
