"""What a run will do, resolved before MindSpore is loaded: all refusals that need no MindSpore happen here."""

from dataclasses import dataclass
from pathlib import Path

from schemas.dataset import Dataset, Shard, Split, file_problems, file_sha256, load_dataset
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.decision import Decision, asked
from trainer.device import InEffect, Machine, decide
from trainer.errors import TrainerError, nearest
from trainer.models import check_model_name
from trainer.optim import OPTIMIZERS
from trainer.recipes import IMAGENET_MEAN, IMAGENET_STD, RECIPES, Recipe, Rgb

FULL_CHECK_BYTES = 2 << 30  # up to here every byte is hashed before a run: seconds, against a crash in the decoder


@dataclass(frozen=True)
class Pixels:
    """How images reach the model: side of the square in pixels, mean and std per channel on the scale 0..255."""

    size: int
    mean: Rgb
    std: Rgb


@dataclass(frozen=True)
class RunPlan:
    """One run, fully resolved. `steps` is the number of batches in an epoch; `lr` the peak of the schedule."""

    config: RunConfig
    folder: Path
    dataset: Dataset
    effect: InEffect
    recipe: Recipe
    pixels: Pixels
    lr: float
    weight_decay: float
    steps: int
    decisions: tuple[Decision, ...]

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
    def used_splits(self) -> tuple[str, ...]:
        """The splits that the run opens."""
        return ("train",) if self.val_split is None else ("train", "val")


def plan_run(config: RunConfig, machine: Machine) -> RunPlan:
    """Resolve a request on a machine. Raises TrainerError for a request, ContractError for data that will not do."""
    check_model_name(config.model)
    recipe = find_recipe(config.recipe)
    optimizer = OPTIMIZERS.get(config.optimizer)
    if optimizer is None:
        raise TrainerError(f"unknown optimizer '{config.optimizer}'; {nearest(config.optimizer, OPTIMIZERS)}")
    effect = decide(config, machine)
    folder = Path(config.dataset).resolve()
    dataset = load_dataset(folder)
    steps = _steps(config.batch_size * effect.num_shards, dataset, folder)
    pixels, pixels_why = _pixels(config.image_size, recipe, dataset)
    lr = optimizer.lr if config.lr is None else config.lr
    weight_decay = optimizer.weight_decay if config.weight_decay is None else config.weight_decay
    scale = f"{', '.join(f'{v:.1f}' for v in pixels.mean)} / {', '.join(f'{v:.1f}' for v in pixels.std)}"
    return RunPlan(
        config=config,
        folder=folder,
        dataset=dataset,
        effect=effect,
        recipe=recipe,
        pixels=pixels,
        lr=lr,
        weight_decay=weight_decay,
        steps=steps,
        decisions=(
            *effect.decisions,
            Decision("image size", asked(config.image_size), str(pixels.size), f"recipe {config.recipe}"),
            Decision("mean / std", "default", scale, pixels_why),
            Decision(
                "peak lr",
                asked(config.lr),
                f"{lr:g}",
                f"{config.optimizer}, batch {config.batch_size * effect.num_shards}, cosine",
            ),
            Decision("weight decay", asked(config.weight_decay), f"{weight_decay:g}", "not on norms and biases"),
            Decision("steps an epoch", "default", str(steps), f"{dataset.splits['train'].rows} rows, the rest dropped"),
        ),
    )


def find_recipe(name: str) -> Recipe:
    """The recipe of that name; raises TrainerError that suggests the near one."""
    if name not in RECIPES:
        raise TrainerError(f"unknown recipe '{name}'; {nearest(name, RECIPES)}")
    return RECIPES[name]


def _steps(batch_size: int, dataset: Dataset, folder: Path) -> int:
    train = dataset.splits.get("train")
    if train is None or not train.rows:
        raise ContractError(f"{folder} has no train split to learn from; it has {', '.join(dataset.splits) or 'none'}")
    if len(dataset.classes) < 2:
        raise ContractError(f"{folder} has {len(dataset.classes)} class; a classifier needs two")
    if batch_size > train.rows:
        raise TrainerError(
            f"a batch of {batch_size} is larger than the train split ({train.rows} rows); "
            f"use --batch-size {train.rows} or less"
        )
    return train.rows // batch_size


def _pixels(size: int | None, recipe: Recipe, dataset: Dataset) -> tuple[Pixels, str]:
    size = recipe.image_size if size is None else size
    if recipe.mean is not None and recipe.std is not None:
        return Pixels(size, recipe.mean, recipe.std), "fixed by the recipe"
    if dataset.pixels is None:
        return Pixels(size, IMAGENET_MEAN, IMAGENET_STD), "ImageNet's: the dataset was not measured"
    # A channel without variation would divide by zero.
    red, green, blue = (max(value, 1.0) for value in dataset.pixels.std)
    why = f"measured on {dataset.pixels.images} images while sharding"
    return Pixels(size, dataset.pixels.mean, (red, green, blue)), why


def check_files(folder: Path, split: Split, full: bool) -> None:
    """Raise ContractError unless the split's files are those that were sealed.

    Sizes and index digests always; every byte when the split is small or `full`. MindSpore's decoders die by a
    signal on some damaged bytes, so this is asked before they are opened.
    """
    problems = file_problems(folder, split.shards)
    if not problems and (full or sum(shard.bytes for shard in split.shards) <= FULL_CHECK_BYTES):
        problems = [problem for shard in split.shards if (problem := _byte_problem(folder, shard))]
    if problems:
        more = f" (and {len(problems) - 1} more; 'dataprep verify' lists all)" if len(problems) > 1 else ""
        remedy = "restore it from a copy, or shard again with --overwrite"
        raise ContractError(f"{folder} is damaged: {problems[0]}{more}; {remedy}")


def _byte_problem(folder: Path, shard: Shard) -> str | None:
    if file_sha256(folder / shard.name) == shard.sha256:
        return None
    return f"{shard.name} is not the file that was sealed (its sha256 differs)"
