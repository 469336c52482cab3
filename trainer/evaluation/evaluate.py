"""Counts a network's hits on a split, each row exactly once; and `trainer eval`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas.counting import many
from schemas.dataset import Dataset, load_dataset
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.errors import TrainerError
from trainer.evaluation.details import TOP, ClassScore, Details, WorstRow
from trainer.evaluation.restore import LoadedModel, Show, in_effect, restore
from trainer.feed.integrity import check_split
from trainer.feed.pipeline import check_batch, keyed_batches, pipeline_errors
from trainer.plan.run_plan import demand
from trainer.runs import checkpoint
from trainer.runs.folder import scratch

USUAL_SIDE = 224  # to lay the pipeline out before the checkpoint, which knows the side, can be read


@dataclass(frozen=True)
class Evaluation:
    """What `trainer eval` found. `same_data` says whether the dataset is the one that the checkpoint was trained on;
    `epoch` and `step` say how long it was trained.

    `top5` is the share of rows whose label is among the five highest logits, None with five classes or fewer.
    `confusion[label][predicted]` counts rows; `worst` are those of the highest loss, the worst first.
    """

    checkpoint: str
    epoch: int
    step: int
    dataset: str
    split: str
    rows: int
    correct: int
    accuracy: float
    top5: float | None
    loss: float
    same_data: bool
    classes: tuple[ClassScore, ...]
    confusion: tuple[tuple[int, ...], ...]
    worst: tuple[WorstRow, ...]


def evaluate_checkpoint(
    path: Path,
    folder: Path,
    split: str,
    asked: RunConfig,
    show: Show,
    each_batch: Callable[[], None],
    keep: int = 20,
    home: Path = Path(),
) -> Evaluation:
    """Score a checkpoint, or a run's best one, on a split of a sealed dataset; `keep` of the worst rows are named.

    `asked` carries device settings only; model, recipe and pixels are the checkpoint's; `home` is as in RunPlan.
    Raises TrainerError, or ContractError when the data is damaged or has other classes.
    """
    file, folder, home = checkpoint.find(path).resolve(), folder.resolve(), home.resolve()
    dataset = open_split(folder, split, asked.full_check)
    needs = demand([dataset.splits[split]], USUAL_SIDE, asked.batch_size)
    effect = in_effect(asked, show, needs)
    with scratch(None), pipeline_errors(folder):
        ready = restore(file, home, effect)
        check_classes(ready.meta, dataset, file, folder)
        details = _examine(ready, dataset, folder, split, asked.batch_size, keep, each_batch)
    if details.rows != dataset.splits[split].rows:
        raise TrainerError(
            f"{split} gave {many(details.rows, 'row')} of the {dataset.splits[split].rows} that were sealed; "
            "run 'dataprep verify'"
        )
    return Evaluation(
        checkpoint=str(file),
        epoch=ready.meta.epoch,
        step=ready.meta.step,
        dataset=str(folder),
        split=split,
        rows=details.rows,
        correct=details.correct,
        accuracy=details.correct / details.rows,
        top5=details.in_top / details.rows if len(dataset.classes) > TOP else None,
        loss=details.loss_sum / details.rows,
        same_data=ready.meta.dataset_digest == dataset.digest,
        classes=details.by_class,
        confusion=tuple(tuple(map(int, counts)) for counts in details.confusion),
        worst=details.worst,
    )


def open_split(folder: Path, split: str, full_check: bool) -> Dataset:
    """Return the dataset after checking a split. Raise TrainerError if it has no rows, ContractError if damaged."""
    dataset = load_dataset(folder)
    if split not in dataset.splits or not dataset.splits[split].rows:
        raise TrainerError(f"{folder} has no rows in split '{split}'; it has {', '.join(dataset.splits)}")
    check_split(folder, dataset, split, full_check)
    return dataset


def _examine(
    ready: LoadedModel,
    dataset: Dataset,
    folder: Path,
    split: str,
    batch_size: int,
    keep: int,
    each_batch: Callable[[], None],
) -> Details:
    details = Details(dataset.classes, keep)
    batches = keyed_batches(folder, dataset, split, ready.recipe, ready.meta.pixels, batch_size, ready.effect)
    for images, labels, keys in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
        check_batch(folder, labels, len(dataset.classes))
        details.add(ready.logits(images, batch_size), labels, map(str, keys))
        each_batch()
    return details


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
