"""Parts of a training run, each alone, in milliseconds a step once all is warm.

python -m benchmarks.peers.train_parts SET OUT feed|compute|whole
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.peers.folder import started, tell
from trainer.config import RunConfig
from trainer.plan import RunPlan

EPOCHS = 2  # the first one warms up
WARM_STEPS = 3  # the first one compiles


def feed(plan: RunPlan) -> float:
    """Batches that nobody uses."""
    from trainer.data import train_batches

    size = plan.config.batch_size
    batches = train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, size, plan.effect)
    iterator = batches.create_tuple_iterator(num_epochs=EPOCHS, output_numpy=True)
    for _ in range(EPOCHS):
        began = time.perf_counter()
        for _ in iterator:
            pass
    return 1000 * (time.perf_counter() - began) / plan.steps


def compute(plan: RunPlan) -> float:
    """The trainer's own step on one batch again and again."""
    import numpy as np
    from mindspore import Tensor

    from trainer.network import build_network
    from trainer.objective import SmoothedCrossEntropy
    from trainer.optim import OPTIMIZERS, parameter_groups
    from trainer.step import TrainStep

    config, side = plan.config, plan.pixels.size
    network = build_network(config.model, Path.cwd(), len(plan.dataset.classes), side, plan.effect)
    groups = parameter_groups(network.trainable_params(), plan.weight_decay)
    optimizer = OPTIMIZERS[config.optimizer].make(groups, [plan.lr] * (plan.steps + WARM_STEPS))
    network = plan.effect.precision.amp.make(network)
    scaler = plan.effect.precision.scaler.make() if plan.effect.precision.scaler else None
    step = TrainStep(network, SmoothedCrossEntropy(config.label_smoothing), optimizer, scaler).set_train(True)
    rng = np.random.default_rng(0)
    images = Tensor(rng.standard_normal((config.batch_size, 3, side, side), np.float32))
    labels = Tensor(rng.integers(0, len(plan.dataset.classes), config.batch_size).astype(np.int32))
    for number in range(WARM_STEPS + plan.steps):
        if number == WARM_STEPS:
            began = time.perf_counter()
        step(images, labels).asnumpy()
    return 1000 * (time.perf_counter() - began) / plan.steps


def whole(plan: RunPlan) -> float:
    """`trainer run`; what it wrote of its last epoch."""
    from trainer.loop import train
    from trainer.progress import make_progress
    from trainer.runfolder import METRICS
    from trainer.signals import StopSignals

    result = train(plan.config, make_progress(sys.stderr, plan.steps), StopSignals())
    last = json.loads((Path(result.run) / METRICS).read_text().splitlines()[-1])
    return float(1000 * last["train_s"] / plan.steps)


def main() -> None:
    """Time one part."""
    import mindspore  # noqa: F401 - part of the start-up

    from trainer.device import apply, this_machine
    from trainer.plan import plan_run

    begun = started()
    config = RunConfig(sys.argv[1], out=str(Path(sys.argv[2]) / "run"), epochs=EPOCHS)
    plan = plan_run(config, this_machine("CPU"))
    if sys.argv[3] != "whole":
        apply(plan.effect)
    part = {"feed": feed, "compute": compute, "whole": whole}[sys.argv[3]]
    tell(begun | {"ms_a_step": part(plan), "steps": plan.steps})


if __name__ == "__main__":
    main()
