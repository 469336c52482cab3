"""Time and memory to the first batch: python -m benchmarks.peers.first_batch SET trainer|default."""

import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.folder import BATCH, started, tell
from benchmarks.peers.mindspore_read import transforms


def main() -> None:
    """Open the set, take one batch and stop."""
    import mindspore.dataset as ds

    from trainer.config import RunConfig
    from trainer.device.context import apply, this_machine
    from trainer.feed.pipeline import train_batches
    from trainer.plan.prepare import check_data
    from trainer.plan.run_plan import RunPlan, plan_run

    def ours(plan: RunPlan) -> Any:
        check_data(plan, ("train",))
        figures["checks_s"] = time.perf_counter() - began
        return train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, BATCH, plan.effect)

    def default(folder: Path) -> Any:
        """The same batches from MindDataset as its manual has it: no settings, no checks."""
        names = [str(path) for path in sorted(folder.glob("train.mindrecord*")) if path.suffix != ".db"]
        return ds.MindDataset(names, ["image", "label"]).map(transforms(), "image").batch(BATCH)

    figures = started()
    before = _peak_mb()
    began = time.perf_counter()
    plan = plan_run(RunConfig(sys.argv[1], recipe="imagenet", batch_size=BATCH), this_machine("CPU"))
    apply(plan.effect)
    rows = ours(plan) if sys.argv[2] == "trainer" else default(plan.folder)
    next(iter(rows.create_tuple_iterator(num_epochs=1, output_numpy=True)))
    figures["first_s"] = time.perf_counter() - began
    figures["grown_mb"] = _peak_mb() - before
    tell(figures)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
