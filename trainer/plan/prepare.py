"""The steps shared by all commands that read the training pipeline: check the data, then set up MindSpore."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trainer.device.context import apply
from trainer.feed.integrity import check_files
from trainer.feed.pipeline import pipeline_errors, try_recipe
from trainer.plan.run_plan import RunPlan
from trainer.runs.folder import scratch


def check_data(plan: RunPlan, splits: Sequence[str], after_each: Callable[[], None] = lambda: None) -> None:
    """Raise ContractError unless the files and labels of `splits` agree with dataset.json."""
    for split in splits:
        check_files(plan.folder, plan.dataset, split, plan.config.full_check)
        plan.task.check_labels(plan.folder, plan.dataset, split)
        after_each()


@contextlib.contextmanager
def prepared(
    plan: RunPlan, parent: Path | None = None, find_key: Callable[[], str | None] = lambda: None
) -> Iterator[Path]:
    """Set up the device and try the recipe, in a scratch folder in `parent` (see scratch); yield that folder.

    Call check_data first. Errors of the data pipeline inside name the dataset (see pipeline_errors). Raise
    TrainerError if the device or the recipe cannot be used.
    """
    with scratch(parent) as folder, pipeline_errors(plan.folder, find_key):
        apply(plan.effect)
        try_recipe(plan.config.recipe, plan.recipe, plan.pixels.size)
        yield folder
