"""What a run will do, resolved before MindSpore is loaded: all refusals that need no MindSpore happen here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.counting import many
from schemas.dataset import Dataset, Shard, Split, file_problems, file_sha256, load_dataset, size_problems
from schemas.errors import ContractError
from schemas.shard_check import shard_problem
from trainer.config import RunConfig
from trainer.decisions import Begun, Decision, asked
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
SINK_COLUMN_BYTES = 256 << 20  # what a column of a batch may have on its way to the device
UNMEASURED = "ImageNet's: the dataset was not measured"
FULL_CHECK_BYTES = 2 << 30  # up to here every byte is hashed before a run: seconds, against a crash in the decoder


@dataclass(frozen=True)
class RunPlan:
    """One run, fully resolved. `steps` is the number of batches in an epoch; `lr` the peak of the schedule."""

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

    @property
    def task(self) -> Task:
        """The task of the dataset's record kind."""
        return find_task(self.dataset.schema.kind)

    @property
    def train_split(self) -> Split:
        """The split that is trained on; plan_run has refused a dataset without it."""
        return self.dataset.splits["train"]

    @property
    def val_split(self) -> Split | None:
        """The split that is evaluated after each epoch; None when the dataset has none, or an empty one."""
        split = self.dataset.splits.get("val")
        return split if split is not None and split.rows else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know before the run goes on."""
        return self.effect.warnings

    @property
    def used_splits(self) -> tuple[str, ...]:
        """The splits that the run opens."""
        return ("train",) if self.val_split is None else ("train", "val")


def plan_run(config: RunConfig, machine: Machine, begun: Begun | None = None) -> RunPlan:
    """Resolve a request on a machine; `begun` is what a run that goes on used before.

    Raises TrainerError for a request, ContractError for data that will not do.
    """
    check_model_name(config.model)
    _check_forms(config)
    recipe = _with_options(find_recipe(config.recipe), config)
    folder = Path(config.dataset).resolve()
    dataset = load_dataset(folder)
    _check_task(folder, dataset, recipe)
    pixels, pixels_why = _pixels(config.image_size, recipe, dataset)
    splits = [dataset.splits[name] for name in ("train", "val") if name in dataset.splits]
    ranks = machine.ranks or config.ranks or 1
    steps = _steps(config.batch_size, ranks, dataset, folder)
    effect = decide(config, machine, steps, demand(splits, pixels.size, config.batch_size), begun)
    _check_sink_column(effect, config.batch_size, pixels.size)
    updates = decide_updates(config, config.batch_size * effect.num_shards * config.accumulate, begun)
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
            Decision("image size", asked(config.image_size), str(pixels.size), f"recipe {config.recipe}"),
            Decision("mean / std", "default", scale, pixels_why, notable=pixels_why == UNMEASURED),
            *_mixing(config, recipe),
            *updates.decisions,
            *_extras(config, dataset, steps, effect.num_shards),
            Decision(
                "steps per epoch",
                "default",
                str(steps),
                _dropped_rows(dataset.splits["train"].rows, steps * config.batch_size * effect.num_shards),
                notable=True,
            ),
        ),
    )


def _check_task(folder: Path, dataset: Dataset, recipe: Recipe) -> None:
    task = find_task(dataset.schema.kind)
    if (recipe.mixup or recipe.cutmix) and not task.classifies:
        raise TrainerError(f"mixup and cutmix need class labels; {folder} has records of kind '{dataset.schema.kind}'")
    task.check_dataset(folder, dataset)


def _dropped_rows(rows: int, used: int) -> str:
    dropped = f", of which the last {rows - used} fill no batch and are left out" if rows > used else ""
    return many(rows, "row") + dropped


def _check_forms(config: RunConfig) -> None:
    """Raise TrainerError for a text that has not the form its option asks for: it is used late, but told here."""
    parse_scales(config.lr_scale)
    _ = config.profile_steps


def _extras(config: RunConfig, dataset: Dataset, steps: int, ranks: int) -> list[Decision]:
    """The lines of what a plain run does without; raises TrainerError for what this dataset cannot serve."""
    found = []
    if config.accumulate > 1:
        if config.accumulate > config.epochs * steps:
            raise TrainerError(
                f"--accumulate {config.accumulate} is more than the {many(config.epochs * steps, 'batch', 'batches')} "
                "of the run, so the weights would never move; give a smaller one"
            )
        batches = many(config.accumulate, "batch", "batches")
        images = f"{many(config.accumulate * config.batch_size * ranks, 'image')} per update"
        found.append(Decision("accumulate", str(config.accumulate), batches, images))
    if config.clip_norm is not None:
        bound = asked(config.clip_norm)
        found.append(Decision("clip norm", bound, bound, "over all gradients at once"))
    if config.ema is not None:
        found.append(Decision("ema", asked(config.ema), asked(config.ema), "the averages are evaluated and kept"))
    if config.patience is not None:
        if "val" not in dataset.splits or not dataset.splits["val"].rows:
            raise TrainerError("--patience needs a val split to watch; shard with --val 0.1, or leave it out")
        epochs = many(config.patience, "epoch")
        found.append(Decision("patience", str(config.patience), epochs, "without a rise of val accuracy"))
    return found


def demand(splits: Sequence[Split], side: int, batch_size: int) -> Demand:
    """What these splits ask of the pipeline when they are open at once, of images with a side of so many pixels."""
    shards = [shard for split in splits for shard in split.shards]
    rows = sum(shard.rows for shard in shards)
    return Demand(
        files=len(shards),
        row_bytes=sum(shard.bytes for shard in shards) // max(1, rows),
        sample_bytes=3 * side**2 * FLOAT_BYTES,
        batch_size=batch_size,
    )


def _with_options(recipe: Recipe, config: RunConfig) -> Recipe:
    given: dict[str, Any] = {"mixup": config.mixup, "cutmix": config.cutmix, "erasing": config.erasing}
    return replace(recipe, **{name: value for name, value in given.items() if value is not None})


def _mixing(config: RunConfig, recipe: Recipe) -> tuple[Decision, ...]:
    """A line for each way of mixing that is asked for or in effect."""
    both = recipe.mixup and recipe.cutmix
    hows = {
        "mixup": "one of mixup and cutmix for each batch" if both else "each batch; soft labels",
        "cutmix": "one of mixup and cutmix for each batch" if both else "each batch; soft labels",
        "erasing": "chance that a square of 2 to 33 % of an image becomes the mean colour",
    }
    return tuple(
        Decision(
            name, asked(getattr(config, name)), f"{getattr(recipe, name):g}" if getattr(recipe, name) else "off", how
        )
        for name, how in hows.items()
        if getattr(recipe, name) or getattr(config, name) is not None
    )


def _steps(batch_size: int, ranks: int, dataset: Dataset, folder: Path) -> int:
    train = dataset.splits.get("train")
    if train is None or not train.rows:
        raise ContractError(f"{folder} has no train split to learn from; it has {', '.join(dataset.splits) or 'none'}")
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
            f"a batch of {many(batch_size, 'image')} of {size} px is too large to sink "
            f"({batch_size * image >> 20} MiB, below "
            f"{SINK_COLUMN_BYTES >> 20} are possible); use --batch-size {(SINK_COLUMN_BYTES - 1) // image} or --no-sink"
        )


def _pixels(size: int | None, recipe: Recipe, dataset: Dataset) -> tuple[Pixels, str]:
    size = recipe.image_size if size is None else size
    if recipe.mean is not None and recipe.std is not None:
        return Pixels(size, recipe.mean, recipe.std), "fixed by the recipe"
    if dataset.pixels is None:
        return Pixels(size, IMAGENET_MEAN, IMAGENET_STD), UNMEASURED
    # A channel without variation would divide by zero.
    red, green, blue = (max(value, 1.0) for value in dataset.pixels.std)
    why = f"measured on {many(dataset.pixels.images, 'image')} while sharding"
    return Pixels(size, dataset.pixels.mean, (red, green, blue)), why


def check_files(folder: Path, dataset: Dataset, name: str, full: bool) -> None:
    """Raise ContractError unless the files of the split `name` are those that were sealed, and fit dataset.json.

    Sizes, headers and indexes always; every byte when the split is small or `full`. MindSpore's readers and decoders
    die by a signal on some damaged bytes, so this is asked before they are opened.
    """
    split = dataset.splits[name]
    problems = file_problems(folder, split.shards)
    if not problems and (full or sum(shard.bytes for shard in split.shards) <= FULL_CHECK_BYTES):
        problems = [problem for shard in split.shards if (problem := _byte_problem(folder, shard))]
    if not problems:
        problems = [said for shard in split.shards if (said := shard_problem(folder, shard, dataset.schema))]
    _refuse(folder, problems)


def check_sizes(folder: Path, splits: Iterable[Split]) -> None:
    """Raise ContractError unless the splits' files are there with the sizes that were sealed. Reads none of them."""
    _refuse(folder, [problem for split in splits for shard in split.shards for problem in size_problems(folder, shard)])


def _refuse(folder: Path, problems: Sequence[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more; 'dataprep verify' lists all)" if len(problems) > 1 else ""
        remedy = "restore it from a copy, or shard again with --overwrite"
        raise ContractError(f"{folder} is damaged: {problems[0]}{more}; {remedy}")


def _byte_problem(folder: Path, shard: Shard) -> str | None:
    if file_sha256(folder / shard.name) == shard.sha256:
        return None
    return f"{shard.name} is not the file that was sealed (its sha256 differs)"
