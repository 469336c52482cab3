"""A training run, or a half of it alone: images/s once all is warm.

python -m benchmarks.peers.loop_parts SET OUT feed|compute|loop MODEL SIDE WORKERS
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.peers.folder import started, tell
from trainer.config import RunConfig
from trainer.plan.run_plan import RunPlan

EPOCHS = 2  # the first one compiles and warms up
SECONDS = 15.0  # of a half


def half(plan: RunPlan, kind: str) -> dict[str, float]:
    """What `trainer doctor` measures: batches that nobody uses, or the step on one batch again and again."""
    from trainer.doctor.stages import CompiledStep, feeding, measure, pipeline_stage, step_stage

    part = pipeline_stage("feed", plan, feeding) if kind == "feed" else step_stage("step", CompiledStep(plan))
    turn = measure(part, SECONDS, lambda: None)
    return {"images_per_s": turn.images_per_s, "cpu_ms_an_image": 1000 * turn.cpu_s / turn.images}


def loop(plan: RunPlan) -> dict[str, float]:
    """`trainer run` with all that it does around a step; by what it wrote of its last epoch."""
    from trainer.cli.progress import make_progress
    from trainer.loop import train
    from trainer.runs.folder import METRICS
    from trainer.signals import StopSignals

    began = time.process_time()
    result = train(plan.config, make_progress(sys.stderr, plan.steps), StopSignals())
    spent = time.process_time() - began
    epochs = [json.loads(line) for line in (Path(result.run) / METRICS).read_text().splitlines()]
    images = plan.steps * plan.config.batch_size
    return {
        "images_per_s": images / epochs[-1]["train_s"],
        "cpu_ms_an_image": 1000 * spent / (images * EPOCHS),
        "data_wait": result.data_wait or 0.0,
    }


def main() -> None:
    """Time one part."""
    import mindspore  # noqa: F401 - part of the start-up

    from trainer.device.context import apply, this_machine
    from trainer.plan.run_plan import plan_run

    begun = started()
    folder, out, kind, model, side, workers = sys.argv[1:]
    config = RunConfig(
        folder,
        out=str(Path(out) / "run"),
        model=model,
        image_size=int(side),
        workers=int(workers),
        epochs=EPOCHS,
        device="CPU",
    )
    plan = plan_run(config, this_machine("CPU"))
    if kind == "loop":
        tell(begun | loop(plan))
        return
    apply(plan.effect)
    tell(begun | half(plan, kind))


if __name__ == "__main__":
    main()
