"""How many steps the device takes by itself before the program sees anything again: pure arithmetic on steps."""

import math
from dataclasses import dataclass, replace

from trainer.config import RunConfig
from trainer.decisions import Call, Decision, requested

MODEL_TRAIN = "mindspore.train.Model.train"
LIKED = range(20, 501)  # steps a sink: few enough for a preemption's grace, many enough to cost nothing


@dataclass(frozen=True)
class Sink:
    """Whether the device fetches its own batches, and how many (`size`) before it comes back; 0: not known yet.

    `seen` is after how many steps loss, signals and saves are looked at: each callback of a step is one of those.
    """

    on: bool
    size: int
    seen: int
    decisions: tuple[Decision, ...]

    @property
    def call(self) -> Call:
        """The training call. On CPU a size would spoil MindSpore's step numbers, so -1 is given (measured on 2.10)."""
        return Call(MODEL_TRAIN, {"dataset_sink_mode": self.on, "sink_size": self.size if self.size > 0 else -1})


def decide_sink(config: RunConfig, device: str, graph: bool, steps: int) -> Sink:
    """Sink for an epoch of `steps` batches; 0 when nothing is trained, or the number is not known.

    MindSpore loses the end of an epoch that the size does not divide, so the largest divisor below is taken.
    """
    on, why = _on(config.sink, device, graph)
    if config.profile is not None and on:
        on, why = False, "--profile begins and ends at a step, and a sink hides the steps"
    size, size_why = _size(config.sink_size, on, steps)
    seen = size if on and graph and size else 1
    shown = str(size) if on and size else "one epoch" if on else "off"
    cadence = "after each step" if seen == 1 else f"every {seen} steps"
    return Sink(
        on=on,
        size=size,
        seen=seen,
        decisions=(
            Decision("sink", requested(config.sink), requested(on), why),
            Decision("sink size", requested(config.sink_size), shown, size_why),
            Decision("seen", "default", cadence, "when loss, stop signals and --save-every are looked at"),
        ),
    )


def _on(sink: bool | None, device: str, graph: bool) -> tuple[bool, str]:
    if device == "CPU":
        return False, "MindSpore cannot sink on CPU" + (" and would ignore the request silently" if sink else "")
    if sink is not None:
        return sink, "requested"
    if not graph:
        return False, "in pynative mode each step is to be seen"
    return True, "the device fetches its own batches"


def _size(size: int | None, on: bool, steps: int) -> tuple[int, str]:
    if not on:
        return 0, "nothing is sunk"
    if not steps:
        return size or 0, "the length of an epoch is not known"
    if size is None:
        liked = [n for n in LIKED if steps % n == 0]
        return (max(liked), f"divides the epoch of {steps}") if liked else (steps, "the whole epoch")
    fitting = max(n for n in range(1, min(size, steps) + 1) if steps % n == 0)
    return fitting, "requested" if fitting == size else f"the largest below that divides the epoch of {steps}"


def decide_pipeline(config: RunConfig, sink: bool) -> tuple[bool, bool, tuple[Decision, ...]]:
    """Return (one pipeline per epoch, fast recovery, decisions): what a resumed run reads again before its first step.

    A pipeline of one epoch is seeded by (seed, epoch), so a resumed run replays a part of one epoch at most and draws
    the same augmentation. A sunk pipeline keeps its device queue and compiled graph for the whole run; there MindSpore
    either replays all of it, at feed speed, or skips to the step and draws the augmentation anew (fast recovery).
    """
    per_epoch = not sink and not config.autotune
    fast = sink and not config.exact_resume
    if per_epoch:
        why = "seeded by (seed, epoch): a resume replays a part of one epoch at most"
    elif sink:
        why = "a new one would need a new device queue and compilation"
    else:
        why = "autotune tunes it while it runs; a resume replays all data of the run"
    resume, resume_why = ("order exact, augmentation redrawn", "fast recovery; --exact-resume replays all data instead")
    if not fast:
        resume, resume_why = "exact", "the pipeline replays its random state"
    return (
        per_epoch,
        fast,
        (
            Decision("pipeline", "default", "one per epoch" if per_epoch else "one per run", why),
            Decision("resume", "exact" if config.exact_resume else "default", resume, resume_why),
        ),
    )


def rounds(call: Call, epochs: int, steps: int, start: int) -> tuple[int, Call]:
    """What Model.train is given to train up to `epochs` from step `start` on: its "epochs", and its call.

    With a sink size each sink is an epoch to MindSpore. A run that goes on at a step that no sink ends at (it was begun
    on another device) takes the largest size that leads there; MindSpore would silently go back to the last sink.
    """
    size = int(call.arguments["sink_size"])
    if size == -1:
        size = steps
    size = math.gcd(size, start) if call.arguments["dataset_sink_mode"] else steps
    arguments = {**call.arguments, "initial_epoch": start // size}
    if call.arguments["dataset_sink_mode"]:
        arguments["sink_size"] = size
    return epochs * steps // size, replace(call, arguments=arguments)
