"""Puts a run's network, optimizer, precision and step together, for `trainer run` and for what measures it."""

from collections.abc import Callable
from typing import Any

from trainer.nn.all_reduce import OverRanks
from trainer.nn.cast import mixed
from trainer.nn.network import build_network
from trainer.nn.optimizer import OPTIMIZERS, parameter_groups, rate_scale
from trainer.nn.step import StepOptions, TrainStep
from trainer.nn.tasks.classification import SmoothedCrossEntropy
from trainer.plan.run_plan import RunPlan
from trainer.training.finetune import start_from


def network_and_step(
    plan: RunPlan, rates: list[float], tell: Callable[[str], None], fresh: bool = True
) -> tuple[Any, TrainStep]:
    """The network, and the step that trains it with the rate of each update from `rates`.

    `tell` receives a message per change of the weights. A resumed run is not `fresh`: it has its own weights. Raise
    TrainerError and ContractError.
    """
    config, effect = plan.config, plan.effect
    classes = len(plan.dataset.classes)
    network = build_network(config.model, plan.home, classes, plan.pixels.size, effect)
    for said in start_from(network, config, plan.home, classes, plan.pixels.size, fresh):
        tell(said)
    groups = parameter_groups(network.trainable_params(), plan.weight_decay, rates, rate_scale(config.lr_scale))
    optimizer = OPTIMIZERS[plan.optimizer].make(groups, rates)
    network = mixed(network, effect.precision, config.keep_fp32)
    scaler = effect.precision.scaler.make() if effect.precision.scaler else None
    over_ranks = OverRanks(optimizer.parameters, effect.num_shards) if effect.num_shards > 1 else None
    options = StepOptions(config.accumulate, config.clip_norm, config.ema, over_ranks)
    return network, TrainStep(network, SmoothedCrossEntropy(config.label_smoothing), optimizer, scaler, options)
