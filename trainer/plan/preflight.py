"""Checks before a run that need neither MindSpore nor user code. `unchecked` lists the checks that are left out."""

from pathlib import Path

from schemas.counting import many
from trainer.config import check_module, is_installed, is_own
from trainer.errors import NO_RESUME, TrainerError, disk_error, use_weights
from trainer.feed.integrity import check_sizes
from trainer.nn.models import MINDCV, MODELS
from trainer.plan.run_plan import RunPlan
from trainer.runs import checkpoint
from trainer.runs.folder import LAST, check_out, contains_run
from trainer.runs.history import start_settings

NO_BOARD = "--tensorboard needs tensorboardX: pip install tensorboardX"


def check_start(plan: RunPlan) -> None:
    """Raise TrainerError or ContractError if the run cannot start.

    The checks cover the run folder, the number of ranks, user modules, packages, the weights file and shard sizes.
    """
    config = plan.config
    check_ranks(check_out(config.out, plan.folder), plan.effect.num_shards)
    if is_own(config.model) and not config.model.startswith(MINDCV):
        check_module("model", config.model, plan.home)
    if config.init is not None and not _resumes(plan):
        _check_init(plan.home / config.init)
    if config.tensorboard and not is_installed("tensorboardX"):
        raise TrainerError(NO_BOARD)
    check_sizes(plan.folder, [plan.dataset.splits[name] for name in plan.used_splits])


def check_ranks(run: Path, ranks: int) -> None:
    """Raise TrainerError if the folder `run` has a run to resume, and that run or the request has several ranks.

    A step count depends on the number of ranks, so no run with several ranks can be resumed.
    """
    if not contains_run(run):
        return
    start = start_settings(str(run))
    before = None if start is None else start.ranks
    if ranks == 1 and (before is None or before == 1):
        return
    counts = "" if before is None else f" with {many(before, 'rank')}, now it is {ranks}"
    last = run / LAST
    raise TrainerError(f"{run} was started{counts}; {NO_RESUME}; {use_weights(last if last.exists() else None)}")


def unchecked(plan: RunPlan) -> list[str]:
    """Return the checks that a run makes before its first step but check_start does not make."""
    config = plan.config
    items = ["the bytes of the shards and their indexes"]
    if config.model not in MODELS:
        items.append(f"that {config.model} returns a network for {len(plan.dataset.classes)} classes")
    if config.init is not None and not _resumes(plan):
        items.append(f"that the weights in {config.init} fit the model")
    if config.freeze or config.lr_scale or config.keep_fp32:
        items.append("that --freeze, --lr-scale and --keep-fp32 match parameters of the model")
    return items


def _resumes(plan: RunPlan) -> bool:
    return plan.config.out is not None and (Path(plan.config.out) / LAST).exists()


def _check_init(path: Path) -> None:
    file = checkpoint.find(path)
    try:
        with file.open("rb") as stream:
            stream.read(1)
    except OSError as error:
        raise disk_error(error, f"--init {file} cannot be read") from None
