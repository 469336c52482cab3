"""`trainer eval`: score a checkpoint on a split, each row exactly once, and write the result to disk."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas.counting import many
from schemas.dataset import Dataset, load_dataset
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.errors import TrainerError, disk_error
from trainer.evaluation.details import TOP, Details, Evaluation, picture_name, write_report
from trainer.evaluation.label_scores import LabelEvaluation, LabelTable, write_label_report
from trainer.evaluation.restore import LoadedModel, Show, in_effect, restore
from trainer.feed.integrity import check_files
from trainer.feed.picture import Unreadable, thumbnail
from trainer.feed.pipeline import check_batch, encoded_at, eval_batches, keyed_batches, pipeline_errors
from trainer.nn.tasks import find_task
from trainer.nn.tasks.multilabel import THRESHOLD
from trainer.plan.run_plan import demand
from trainer.runs import checkpoint
from trainer.runs.folder import EVALUATIONS, PICTURES, contains_run, scratch

USUAL_SIDE = 224  # pixels; for the plan of the pipeline, made before the checkpoint with the image size is read
THUMBNAIL_SIDE = 320  # pixels; a thumbnail is about 20 KB
MAX_THUMBNAILS = 200


def evaluate_checkpoint(
    path: Path,
    folder: Path,
    split: str,
    config: RunConfig,
    show: Show,
    after_batch: Callable[[], None],
    keep: int = 20,
    home: Path = Path(),
    threshold: float = THRESHOLD,
) -> Evaluation | LabelEvaluation:
    """Score a checkpoint, or the best checkpoint of a run folder, on a split. Return scores and the `keep` worst rows.

    Only the device settings and batch size of `config` are used; model and recipe come from the checkpoint. `home` is
    as in RunPlan, `show` as in in_effect. If rows have several classes, `threshold` is the probability from which a
    class is predicted. `after_batch` may raise an exception to stop. Raises TrainerError if the
    split has no rows, and ContractError if the data is damaged or has other classes.
    """
    file, folder, home = checkpoint.find(path).resolve(), folder.resolve(), home.resolve()
    dataset = open_split(folder, split, config.full_check)
    needs = demand([dataset.splits[split]], USUAL_SIDE, config.batch_size)
    effect = in_effect(config, show, needs)
    with scratch(None), pipeline_errors(folder):
        model = restore(file, home, effect)
        model.require_classes("eval")
        check_kind(model, dataset, folder)
        check_classes(model.meta, dataset, file, folder)
        if model.task.several:
            table = _label_table(model, dataset, folder, split, config.batch_size, after_batch)
            same = model.meta.dataset_digest == dataset.digest
            return table.evaluation(str(file), str(folder), split, threshold, same)
        details = _evaluate(model, dataset, folder, split, config.batch_size, keep, after_batch)
    if details.rows != dataset.splits[split].rows:
        raise TrainerError(
            f"{split} has {many(dataset.splits[split].rows, 'sealed row')}, but {details.rows} were read; "
            "run 'dataprep verify'"
        )
    return Evaluation(
        checkpoint=str(file),
        epoch=model.meta.epoch,
        step=model.meta.step,
        dataset=str(folder),
        split=split,
        rows=details.rows,
        correct=details.correct,
        accuracy=details.correct / details.rows,
        top5=details.in_top / details.rows if len(dataset.classes) > TOP else None,
        loss=details.loss_sum / details.rows,
        same_data=model.meta.dataset_digest == dataset.digest,
        classes=details.by_class,
        confusion=details.confusion,
        worst=details.worst,
    )


def open_split(folder: Path, split: str, full_check: bool) -> Dataset:
    """Check a split and return the dataset. Raises TrainerError if the split is empty, ContractError if damaged."""
    dataset = load_dataset(folder)
    if split not in dataset.splits or not dataset.splits[split].rows:
        raise TrainerError(f"{folder} has no rows in split '{split}'; its splits are {', '.join(dataset.splits)}")
    check_files(folder, dataset, split, full_check)
    find_task(dataset.schema.kind).check_labels(folder, dataset, split)
    return dataset


def _evaluate(
    model: LoadedModel,
    dataset: Dataset,
    folder: Path,
    split: str,
    batch_size: int,
    keep: int,
    after_batch: Callable[[], None],
) -> Details:
    details = Details(dataset.classes, keep)
    batches = keyed_batches(folder, dataset, split, model.recipe, model.meta.pixels, batch_size, model.effect)
    for images, labels, keys in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
        check_batch(folder, labels, len(dataset.classes))
        details.add(model.logits(images, batch_size), labels, map(str, keys))
        after_batch()
    return details


def _label_table(
    model: LoadedModel, dataset: Dataset, folder: Path, split: str, batch_size: int, after_batch: Callable[[], None]
) -> LabelTable:
    """Return the probabilities and targets of all rows."""
    assert model.task.probabilities is not None
    table = LabelTable(dataset.classes)
    source = folder, dataset, split, model.recipe, model.meta.pixels, batch_size, model.effect
    for images, targets in eval_batches(*source, model.task.columns).create_tuple_iterator(
        num_epochs=1, output_numpy=True
    ):
        table.add(model.task.probabilities(model.logits(images, batch_size)), targets)
        after_batch()
    return table


def check_kind(model: LoadedModel, dataset: Dataset, folder: Path) -> None:
    """Raise ContractError if the dataset has records of another kind than the training data."""
    if model.meta.kind != dataset.schema.kind:
        raise ContractError(
            f"{model.file} was trained on records of kind {model.meta.kind}, and {folder} has records of kind "
            f"{dataset.schema.kind}; shard the images with --schema {model.meta.kind}"
        )


def check_classes(meta: checkpoint.Meta, dataset: Dataset, file: Path, folder: Path) -> None:
    """Raise ContractError unless checkpoint and dataset have the same classes in the same order."""
    if meta.classes == dataset.classes:
        return
    pairs = zip((*meta.classes, None), (*dataset.classes, None), strict=False)
    number, (ours, theirs) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    raise ContractError(
        f"{file} and {folder} have different classes: class {number} is {ours!r} in the checkpoint and "
        f"{theirs!r} in the dataset; shard with the class list of the training set ('dataprep shard --classes')"
    )


@dataclass(frozen=True)
class EvaluationFiles:
    """Folder of the files of an evaluation, its run (None with --report), and the error if writing failed."""

    folder: Path
    run: Path | None = None
    error: str = ""


def write_evaluation(
    evaluation: Evaluation | LabelEvaluation, checkpoint: Path, report: Path | None
) -> EvaluationFiles | None:
    """Write tables and thumbnails to `report`, or to RUN/eval/<split> if `checkpoint` is a run folder.

    Returns None, and writes nothing, if `checkpoint` is a file and `report` is None. Raises TrainerError if `report`
    cannot be written. If a run folder cannot be written, such as the folder of another user, the result has the error.
    """
    if report is not None:
        _write(report, evaluation)
        return EvaluationFiles(report)
    if not contains_run(checkpoint):
        return None
    folder = checkpoint / EVALUATIONS / evaluation.split
    try:
        _write(folder, evaluation)
    except TrainerError as error:
        return EvaluationFiles(folder, checkpoint, str(error))
    return EvaluationFiles(folder, checkpoint)


def _write(folder: Path, evaluation: Evaluation | LabelEvaluation) -> None:
    if isinstance(evaluation, LabelEvaluation):
        write_label_report(folder, evaluation)
        return
    write_report(folder, evaluation)
    write_thumbnails(folder, evaluation)


def write_thumbnails(folder: Path, evaluation: Evaluation) -> int:
    """Write thumbnails of the worst rows as FOLDER/worst/0001.jpg etc., replacing earlier files. Return the number.

    An image that Pillow cannot read is left out. Raises TrainerError if the folder cannot be written.
    """
    folder = folder.absolute()
    thumbnails = _thumbnails(evaluation)  # before the earlier files are deleted
    try:
        (folder / PICTURES).mkdir(parents=True, exist_ok=True)
        for path in (folder / PICTURES).glob("[0-9][0-9][0-9][0-9].jpg"):
            path.unlink()
        for number, content in thumbnails.items():
            (folder / picture_name(number)).write_bytes(content)
    except OSError as error:
        raise disk_error(error, f"cannot write the thumbnails into {folder / PICTURES}") from None
    return len(thumbnails)


def _thumbnails(evaluation: Evaluation) -> dict[int, bytes]:
    """Return the thumbnails as JPEG bytes, by index in `evaluation.worst`."""
    worst = evaluation.worst[:MAX_THUMBNAILS]
    rows = {number: each.row for number, each in enumerate(worst) if each.row is not None}
    if not rows:
        return {}
    folder = Path(evaluation.dataset)
    with scratch(None):
        images = encoded_at(folder, load_dataset(folder), evaluation.split, list(rows.values()))
    thumbnails = {}
    for number, row in rows.items():
        key, image = images[row]
        if key == worst[number].key:
            with contextlib.suppress(Unreadable):
                thumbnails[number] = thumbnail(image, THUMBNAIL_SIDE)
    return thumbnails
