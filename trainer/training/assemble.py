"""Build the network, the optimizer and the training step of a run, for `trainer run` and the doctor."""

from collections.abc import Callable
from typing import Any

from trainer.nn.all_reduce import OverRanks
from trainer.nn.cast import mixed
from trainer.nn.network import build_network
from trainer.nn.optimizer import OPTIMIZERS, parameter_groups, rate_scale
from trainer.nn.step import StepOptions, TrainStep
from trainer.plan.run_plan import RunPlan
from trainer.training.finetune import start_from


def network_and_step(
    plan: RunPlan, rates: list[float], note: Callable[[str], None], fresh: bool = True
) -> tuple[Any, TrainStep]:
    """Return the network and its training step. `rates` has the learning rate of each update.

    `note` is called with a sentence about each change to the weights. `fresh` is False for a resumed run, which
    ignores --init. Raises TrainerError or ContractError if --init, --freeze or --lr-scale does not fit the model.
    """
    config, effect = plan.config, plan.effect
    outputs = plan.task.outputs(plan.dataset.classes)
    network = build_network(config.model, plan.home, outputs, plan.pixels.size, effect)
    for change in start_from(network, config, plan.home, outputs, plan.pixels.size, fresh):
        note(change)
    groups = parameter_groups(network.trainable_params(), plan.weight_decay, rates, rate_scale(config.lr_scale))
    optimizer = OPTIMIZERS[plan.optimizer].make(groups, rates)
    network = mixed(network, effect.precision, config.keep_fp32)
    scaler = effect.precision.scaler.make() if effect.precision.scaler else None
    over_ranks = OverRanks(optimizer.parameters, effect.num_shards) if effect.num_shards > 1 else None
    options = StepOptions(config.accumulate, config.clip_norm, config.ema, over_ranks)
    return network, TrainStep(network, plan.task.loss(config, plan.class_weights), optimizer, scaler, options)
