"""The trainer's own pipeline at its own settings: python -m benchmarks.peers.trainer_read SET."""

import sys
from collections.abc import Iterable
from typing import Any

from benchmarks.peers.epoch import epoch
from benchmarks.peers.folder import BATCH


def main() -> None:
    """Read an epoch, as `trainer run --recipe imagenet --batch-size 64` does."""
    from trainer.config import RunConfig
    from trainer.device.context import apply, this_machine
    from trainer.feed.pipeline import train_batches
    from trainer.plan.run_plan import plan_run

    def batches() -> Iterable[Any]:
        plan = plan_run(RunConfig(sys.argv[1], recipe="imagenet", batch_size=BATCH), this_machine("CPU"))
        apply(plan.effect)
        rows = train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, BATCH, plan.effect)
        iterator: Iterable[Any] = rows.create_tuple_iterator(num_epochs=1, output_numpy=True)
        return iterator

    epoch(batches)


if __name__ == "__main__":
    main()
