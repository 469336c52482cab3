"""Steps shared by all commands that read the training pipeline: check the data, then set up MindSpore."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trainer.device.context import apply
from trainer.feed.integrity import check_files
from trainer.feed.pipeline import pipeline_errors, try_recipe
from trainer.plan.run_plan import RunPlan
from trainer.runs.folder import scratch


def check_data(plan: RunPlan, splits: Sequence[str], after_each: Callable[[], None] = lambda: None) -> None:
    """Raise ContractError if files or labels of `splits` do not match dataset.json.

    `after_each` is called after each split.
    """
    for split in splits:
        check_files(plan.folder, plan.dataset, split, plan.config.full_check)
        plan.task.check_labels(plan.folder, plan.dataset, split)
        after_each()


@contextlib.contextmanager
def prepared(
    plan: RunPlan, parent: Path | None = None, find_key: Callable[[], str | None] = lambda: None
) -> Iterator[Path]:
    """Set up the device, try the recipe, and yield a scratch folder in `parent`.

    Call check_data first. Errors of the data pipeline name the dataset and the key from `find_key` (see
    pipeline_errors). Raises TrainerError if the device or the recipe cannot be used.
    """
    with scratch(parent) as folder, pipeline_errors(plan.folder, find_key):
        apply(plan.effect)
        try_recipe(plan.config.recipe, plan.recipe, plan.pixels.size)
        yield folder
