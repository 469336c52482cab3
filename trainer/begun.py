"""Settings that the first process of a run had in effect: a resume keeps them, or warns before it computes anything."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Begun:
    """The settings of a run's first steps that its weights depend on. Those that were not recorded are empty or None.

    `level` is the instruction set of the CPU kernels, `mindspore` the version. `workers` are the threads that decode:
    each draws its own random numbers, so augmentation depends on how many there are. `optimizer`, `lr` (peak) and
    `weight_decay` may come from a table of defaults that has changed since. `affinity` counts the cores that the
    process was allowed to run on: with another number the last bits of a step on CPU differ (measured on 2.10).
    """

    level: str
    mindspore: str
    workers: int | None = None
    ranks: int | None = None
    optimizer: str | None = None
    lr: float | None = None
    weight_decay: float | None = None
    affinity: int | None = None
