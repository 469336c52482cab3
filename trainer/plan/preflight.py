"""What a look at files and names tells of a run before it begins, so that one that cannot begin is refused at once.

Imports neither MindSpore nor code of the user's: what only these can tell is in `unchecked`.
"""

from pathlib import Path

from schemas.counting import many
from trainer.config import is_installed, is_own, module_is_there
from trainer.errors import NO_RESUME, TrainerError, disk_error, use_weights
from trainer.nn.models import MINDCV, MODELS
from trainer.plan.run_plan import RunPlan, check_sizes
from trainer.runs import checkpoint
from trainer.runs.folder import LAST, check_place, holds_run
from trainer.runs.history import begun_with

NO_BOARD = "--tensorboard needs tensorboardX: pip install tensorboardX"


def check_beginning(plan: RunPlan, home: Path) -> None:
    """Raise TrainerError or ContractError for what cannot begin in the working directory `home`: a folder that is
    taken, a module or package that is missing, weights that are not there, shards of another size than was sealed.
    """
    config = plan.config
    check_ranks(check_place(config.out, plan.folder), plan.effect.num_shards)
    if is_own(config.model) and not config.model.startswith(MINDCV):
        module_is_there("model", config.model, home)
    if config.init is not None and not _goes_on(plan):
        _check_init(home / config.init)
    if config.tensorboard and not is_installed("tensorboardX"):
        raise TrainerError(NO_BOARD)
    check_sizes(plan.folder, [plan.dataset.splits[name] for name in plan.used_splits])


def check_ranks(run: Path, ranks: int) -> None:
    """Raise TrainerError for a run that has begun in the folder `run` when it, or what is asked for, has several ranks.

    The place of such a run is counted in batches of all ranks together, so no other number of ranks can take it up.
    """
    if not holds_run(run):
        return
    begun = begun_with(str(run))
    before = None if begun is None else begun.ranks
    if ranks == 1 and (before is None or before == 1):
        return
    counts = "" if before is None else f" with {many(before, 'rank')}, now it is {ranks}"
    last = run / LAST
    raise TrainerError(f"{run} was begun{counts}; {NO_RESUME}; {use_weights(last if last.exists() else None)}")


def unchecked(plan: RunPlan) -> list[str]:
    """What a run looks at before its first step, and check_beginning does not."""
    config = plan.config
    found = ["the bytes of the shards and their indexes"]
    if config.model not in MODELS:
        found.append(f"that {config.model} makes a network for {len(plan.dataset.classes)} classes")
    if config.init is not None and not _goes_on(plan):
        found.append(f"that the weights in {config.init} fit the model")
    if config.freeze or config.lr_scale or config.keep_fp32:
        found.append("that --freeze, --lr-scale and --keep-fp32 name parts of the model")
    return found


def _goes_on(plan: RunPlan) -> bool:
    return plan.config.out is not None and (Path(plan.config.out) / LAST).exists()


def _check_init(path: Path) -> None:
    file = checkpoint.find(path)
    try:
        with file.open("rb") as stream:
            stream.read(1)
    except OSError as error:
        raise disk_error(error, f"--init {file} cannot be read") from None
