"""Checks before a run that need neither MindSpore nor user code. `unchecked` lists the checks that are left out."""

from pathlib import Path

from schemas.dataset import load_dataset
from trainer.config import RunConfig, check_module, is_installed, is_own
from trainer.errors import TrainerError, disk_error
from trainer.feed.integrity import check_indexes, check_sizes
from trainer.nn.models import MINDCV, MODELS
from trainer.nn.tasks import find_task
from trainer.plan.run_plan import RunPlan
from trainer.runs import checkpoint
from trainer.runs.folder import LAST, check_out

NO_BOARD = "--tensorboard needs tensorboardX: pip install tensorboardX"


def check_start(plan: RunPlan) -> None:
    """Raise TrainerError or ContractError if the run cannot start.

    The checks cover the run folder, the number of ranks, user modules, packages, the weights file and shard sizes.
    """
    config = plan.config
    check_out(config.out, plan.folder)
    if is_own(config.model) and not config.model.startswith(MINDCV):
        check_module("model", config.model, plan.home)
    if config.init is not None and not resumes(plan):
        _check_init(plan.home / config.init)
    if config.tensorboard and not is_installed("tensorboardX"):
        raise TrainerError(NO_BOARD)
    check_sizes(plan.folder, [plan.dataset.splits[name] for name in plan.used_splits])


def check_sealed(config: RunConfig) -> None:
    """Raise ContractError if the dataset is missing, damaged in size or index, or of a kind without a task.

    It takes a fraction of a second, so call it before MindSpore is imported. `check_data` also compares the bytes.
    """
    folder = Path(config.dataset).resolve()
    dataset = load_dataset(folder)
    task = find_task(dataset.schema.kind)
    task.check_dataset(folder, dataset)
    splits = [name for name in ("train", "val") if name in dataset.splits]
    check_sizes(folder, [dataset.splits[name] for name in splits])
    check_indexes(folder, [dataset.splits[name] for name in splits])


def unchecked(plan: RunPlan) -> list[str]:
    """Return the checks that a run makes before its first step but check_start does not make."""
    config = plan.config
    items = ["the bytes of the shards and their indexes"]
    if config.model not in MODELS:
        items.append(f"that {config.model} returns a network for {len(plan.dataset.classes)} classes")
    if config.init is not None and not resumes(plan):
        items.append(f"that the weights in {config.init} fit the model")
    if config.freeze or config.lr_scale or config.keep_fp32:
        items.append("that --freeze, --lr-scale and --keep-fp32 match parameters of the model")
    return items


def resumes(plan: RunPlan) -> bool:
    """Return True if there is a checkpoint to resume from, whose weights replace those of --init."""
    return plan.config.out is not None and (Path(plan.config.out) / LAST).exists()


def _check_init(path: Path) -> None:
    file = checkpoint.find(path)
    try:
        with file.open("rb") as stream:
            stream.read(1)
    except OSError as error:
        raise disk_error(error, f"--init {file} cannot be read") from None
