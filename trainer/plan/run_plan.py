"""RunPlan: a run with all settings resolved before MindSpore is imported. plan_run checks the request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schemas.counting import many
from schemas.dataset import Dataset, Split, load_dataset
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.decisions import Decision, StartSettings, requested
from trainer.device.context import InEffect, Machine, decide
from trainer.errors import TrainerError
from trainer.feed.recipes import IMAGENET_MEAN, IMAGENET_STD, Pixels, Recipe, find_recipe
from trainer.feed.threads import Demand
from trainer.nn.models import check_model_name
from trainer.nn.optimizer import parse_scales
from trainer.nn.tasks import find_task
from trainer.nn.tasks.task import Task
from trainer.plan.optimizer_defaults import decide_updates

FLOAT_BYTES = 4
SINK_COLUMN_BYTES = 256 << 20  # limit of one column of a batch with data sinking
UNMEASURED = "ImageNet's: dataset.json has no statistics"


@dataclass(frozen=True)
class RunPlan:
    """Plan of a run with all settings resolved.

    `steps` is the number of batches per epoch, `lr` the peak learning rate. User modules and --init are looked up in
    `home`, the directory in which the command was started.
    """

    config: RunConfig
    folder: Path
    dataset: Dataset
    effect: InEffect
    recipe: Recipe
    pixels: Pixels
    optimizer: str
    lr: float
    weight_decay: float
    steps: int
    decisions: tuple[Decision, ...]
    home: Path

    @property
    def task(self) -> Task:
        """The task of the dataset's record kind."""
        return find_task(self.dataset.schema.kind)

    @property
    def train_split(self) -> Split:
        """The training split; plan_run rejects a dataset without one."""
        return self.dataset.splits["train"]

    @property
    def class_weights(self) -> tuple[float, ...] | None:
        """Weight of each class in the loss, on average 1 per row; None for equal weights. Unused classes have 1."""
        if self.config.class_weights == "none":
            return None
        counts = self.train_split.class_rows
        used = sum(count > 0 for count in counts)
        return tuple(sum(counts) / (used * count) if count else 1.0 for count in counts)

    @property
    def val_split(self) -> Split | None:
        """The split that is evaluated after each epoch; None if the val split is missing or empty."""
        split = self.dataset.splits.get("val")
        return split if split is not None and split.rows else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to show before the run starts."""
        return self.effect.warnings

    @property
    def used_splits(self) -> tuple[str, ...]:
        """The names of the splits that the run reads."""
        return ("train",) if self.val_split is None else ("train", "val")


def plan_run(config: RunConfig, machine: Machine, start: StartSettings | None = None, home: Path = Path()) -> RunPlan:
    """Return the plan of the run `config` on `machine`.

    `start` has the settings of a run to resume. User modules are looked up in `home`. Raises TrainerError if the
    request is invalid, and ContractError if the dataset is unusable.
    """
    home = home.resolve()
    check_model_name(config.model)
    _check_forms(config)
    recipe = _with_options(find_recipe(config.recipe, home), config)
    folder = Path(config.dataset).resolve()
    dataset = load_dataset(folder)
    _check_task(folder, dataset, recipe)
    pixels, pixels_why = _pixels(config.image_size, recipe, dataset)
    splits = [dataset.splits[name] for name in ("train", "val") if name in dataset.splits]
    ranks = machine.ranks or config.ranks or 1
    steps = _steps(config.batch_size, ranks, dataset, folder)
    effect = decide(config, machine, steps, demand(splits, pixels.size, config.batch_size), start)
    _check_sink_column(effect, config.batch_size, pixels.size)
    updates = decide_updates(config, config.batch_size * effect.num_shards * config.accumulate, start)
    scale = f"{', '.join(f'{v:.1f}' for v in pixels.mean)} / {', '.join(f'{v:.1f}' for v in pixels.std)}"
    return RunPlan(
        config=config,
        folder=folder,
        dataset=dataset,
        effect=effect,
        recipe=recipe,
        pixels=pixels,
        optimizer=updates.optimizer,
        lr=updates.lr,
        weight_decay=updates.weight_decay,
        steps=steps,
        decisions=(
            *effect.decisions,
            Decision("image size", requested(config.image_size), str(pixels.size), f"recipe {config.recipe}"),
            Decision("mean / std", "default", scale, pixels_why, notable=pixels_why == UNMEASURED),
            *_mixing(config, recipe),
            *updates.decisions,
            *_extras(config, dataset, steps, effect.num_shards),
            *_metric(find_task(dataset.schema.kind)),
            Decision(
                "steps per epoch",
                "default",
                str(steps),
                _dropped_rows(dataset.splits["train"].rows, steps * config.batch_size * effect.num_shards),
                notable=True,
            ),
        ),
        home=home,
    )


def _check_task(folder: Path, dataset: Dataset, recipe: Recipe) -> None:
    task = find_task(dataset.schema.kind)
    if (recipe.mixup or recipe.cutmix) and not task.classifies:
        raise TrainerError(f"mixup and cutmix need class labels; {folder} has records of kind '{dataset.schema.kind}'")
    task.check_dataset(folder, dataset)


def _metric(task: Task) -> list[Decision]:
    """Return the decision on the metric if it is not accuracy: progress and files call the metric val accuracy."""
    if not task.several:
        return []
    return [Decision("val metric", "default", task.metric, "reported as val accuracy", notable=True)]


def _dropped_rows(rows: int, used: int) -> str:
    dropped = f"; the last {rows - used} do not fill a batch and are dropped" if rows > used else ""
    return many(rows, "row") + dropped


def _check_forms(config: RunConfig) -> None:
    """Raise TrainerError if an option that is first used late in a run has a malformed value."""
    parse_scales(config.lr_scale)
    _ = config.profile_steps


def _extras(config: RunConfig, dataset: Dataset, steps: int, ranks: int) -> list[Decision]:
    """Return the decisions on optional features. Raises TrainerError if a feature does not fit the dataset."""
    decisions = []
    if config.accumulate > 1:
        if config.accumulate > config.epochs * steps:
            raise TrainerError(
                f"--accumulate {config.accumulate} is more than the {many(config.epochs * steps, 'batch', 'batches')} "
                "of the run, so the weights would never be updated; use a smaller value"
            )
        batches = many(config.accumulate, "batch", "batches")
        images = f"{many(config.accumulate * config.batch_size * ranks, 'image')} per update"
        decisions.append(Decision("accumulate", str(config.accumulate), batches, images))
    if config.clip_norm is not None:
        bound = requested(config.clip_norm)
        decisions.append(Decision("clip norm", bound, bound, "global norm of all gradients"))
    if config.ema is not None:
        decisions.append(
            Decision(
                "ema", requested(config.ema), requested(config.ema), "the averaged weights are evaluated and saved"
            )
        )
    if config.class_weights != "none":
        if not find_task(dataset.schema.kind).classifies:
            raise TrainerError("--class-weights balanced needs records of one class each")
        decisions.append(
            Decision("class weights", "balanced", "balanced", "inversely proportional to the rows in train")
        )
    if config.val_every > 1:
        if "val" not in dataset.splits or not dataset.splits["val"].rows:
            raise TrainerError("--val-every needs a val split; shard with --val 0.1, or omit --val-every")
        epochs = f"every {many(config.val_every, 'epoch')} and after the last"
        decisions.append(Decision("evaluation", str(config.val_every), epochs, ""))
    if config.patience is not None:
        if "val" not in dataset.splits or not dataset.splits["val"].rows:
            raise TrainerError("--patience needs a val split; shard with --val 0.1, or omit --patience")
        epochs = many(config.patience, "epoch")
        decisions.append(Decision("patience", str(config.patience), epochs, "without improvement of val accuracy"))
    return decisions


def demand(splits: Sequence[Split], side: int, batch_size: int) -> Demand:
    """Return the demand of a pipeline that has `splits` open at once; `side` is the image side in pixels."""
    shards = [shard for split in splits for shard in split.shards]
    rows = sum(shard.rows for shard in shards)
    return Demand(
        files=len(shards),
        row_bytes=sum(shard.bytes for shard in shards) // max(1, rows),
        sample_bytes=3 * side**2 * FLOAT_BYTES,
        batch_size=batch_size,
    )


def _with_options(recipe: Recipe, config: RunConfig) -> Recipe:
    return replace(
        recipe,
        mixup=recipe.mixup if config.mixup is None else config.mixup,
        cutmix=recipe.cutmix if config.cutmix is None else config.cutmix,
        erasing=recipe.erasing if config.erasing is None else config.erasing,
    )


def _mixing(config: RunConfig, recipe: Recipe) -> tuple[Decision, ...]:
    """Return one decision for each kind of mixing that is requested or in effect."""
    both = recipe.mixup and recipe.cutmix
    reasons = {
        "mixup": "mixup or cutmix, drawn per batch" if both else "per batch; soft labels",
        "cutmix": "mixup or cutmix, drawn per batch" if both else "per batch; soft labels",
        "erasing": "probability of filling a square of 2 to 33 % of an image with the mean colour",
    }
    return tuple(
        Decision(
            name,
            requested(getattr(config, name)),
            f"{getattr(recipe, name):g}" if getattr(recipe, name) else "off",
            reason,
        )
        for name, reason in reasons.items()
        if getattr(recipe, name) or getattr(config, name) is not None
    )


def _steps(batch_size: int, ranks: int, dataset: Dataset, folder: Path) -> int:
    train = dataset.splits.get("train")
    if train is None or not train.rows:
        raise ContractError(f"{folder} has no train split; its splits are {', '.join(dataset.splits) or 'none'}")
    whole = batch_size * ranks
    if train.rows < ranks:
        raise TrainerError(f"the train split has {train.rows} rows, fewer than the {ranks} ranks; use fewer --ranks")
    if whole > train.rows:
        of_all = f" of {batch_size} on each of {ranks} ranks" if ranks > 1 else ""
        raise TrainerError(
            f"a batch of {whole}{of_all} is larger than the train split ({many(train.rows, 'row')}); "
            f"use --batch-size {train.rows // ranks} or less"
        )
    return train.rows // whole


def _check_sink_column(effect: InEffect, batch_size: int, size: int) -> None:
    image = 3 * size * size * 4
    if effect.sink and batch_size * image >= SINK_COLUMN_BYTES:
        raise TrainerError(
            f"a batch of {many(batch_size, 'image')} of {size} px is too large for data sinking "
            f"({batch_size * image >> 20} MiB, the limit is {SINK_COLUMN_BYTES >> 20} MiB); use "
            f"--batch-size {(SINK_COLUMN_BYTES - 1) // image} or --no-sink"
        )


def _pixels(size: int | None, recipe: Recipe, dataset: Dataset) -> tuple[Pixels, str]:
    size = recipe.image_size if size is None else size
    if recipe.mean is not None and recipe.std is not None:
        return Pixels(size, recipe.mean, recipe.std), "fixed by the recipe"
    if dataset.pixels is None:
        return Pixels(size, IMAGENET_MEAN, IMAGENET_STD), UNMEASURED
    # A constant channel has a std of 0, and the normalisation would divide by zero.
    red, green, blue = (max(value, 1.0) for value in dataset.pixels.std)
    why = f"measured on {many(dataset.pixels.images, 'image')} while sharding"
    return Pixels(size, dataset.pixels.mean, (red, green, blue)), why
