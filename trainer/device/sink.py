"""Settings of data sinking, in which the device runs a number of steps between two callbacks."""

import math
from dataclasses import dataclass, replace

from trainer.config import RunConfig
from trainer.decisions import Call, Decision, requested

MODEL_TRAIN = "mindspore.train.Model.train"
PREFERRED = range(20, 501)  # steps per sink: short enough for preemption, long enough for full speed


@dataclass(frozen=True)
class Sink:
    """Settings of data sinking.

    `size` is the number of batches per sink, 0 if unknown. The loss, stop signals and --save-every are checked every
    `callback_steps` steps.
    """

    on: bool
    size: int
    callback_steps: int
    decisions: tuple[Decision, ...]

    @property
    def call(self) -> Call:
        """Call of Model.train. On CPU the sink size is -1, because other sizes corrupt MindSpore's step numbers."""
        return Call(MODEL_TRAIN, {"dataset_sink_mode": self.on, "sink_size": self.size if self.size > 0 else -1})


def decide_sink(config: RunConfig, device: str, graph: bool, steps: int) -> Sink:
    """Return the sink settings for an epoch of `steps` batches, 0 if unknown or if nothing is trained.

    MindSpore drops the last batches of an epoch unless the sink size divides the number of batches, so the size is
    lowered to a divisor.
    """
    on, why = _on(config.sink, device, graph)
    if config.profile is not None and on:
        on, why = False, "--profile needs single steps, which sinking hides"
    size, size_why = _size(config.sink_size, on, steps)
    callback_steps = size if on and graph and size else 1
    shown = str(size) if on and size else "one epoch" if on else "off"
    cadence = "every step" if callback_steps == 1 else f"every {callback_steps} steps"
    return Sink(
        on=on,
        size=size,
        callback_steps=callback_steps,
        decisions=(
            Decision("sink", requested(config.sink), requested(on), why),
            Decision("sink size", requested(config.sink_size), shown, size_why),
            Decision("callbacks", "default", cadence, "when loss, stop signals and --save-every are checked"),
        ),
    )


def _on(sink: bool | None, device: str, graph: bool) -> tuple[bool, str]:
    if device == "CPU":
        return False, "MindSpore cannot sink on CPU" + (" and would ignore the request silently" if sink else "")
    if sink is not None:
        return sink, "requested"
    if not graph:
        return False, "pynative mode runs single steps"
    return True, "the device fetches its own batches"


def _size(size: int | None, on: bool, steps: int) -> tuple[int, str]:
    if not on:
        return 0, "sinking is off"
    if not steps:
        return size or 0, "the length of an epoch is unknown"
    if size is None:
        preferred = [n for n in PREFERRED if steps % n == 0]
        return (max(preferred), f"divides the epoch of {steps}") if preferred else (steps, "the whole epoch")
    divisor = max(n for n in range(1, min(size, steps) + 1) if steps % n == 0)
    return divisor, "requested" if divisor == size else f"the next lower divisor of the epoch of {steps}"


def decide_pipeline(config: RunConfig, sink: bool) -> tuple[bool, bool, tuple[Decision, ...]]:
    """Return (one pipeline per epoch, fast recovery, decisions), the settings that a resume depends on.

    A pipeline per epoch is seeded by (seed, epoch), so a resume replays at most one epoch and draws the same
    augmentation. With data sinking, one pipeline keeps its device queue and compiled graph for the whole run. With
    data sinking, a resume replays the whole pipeline, or skips to the step and redraws augmentation (fast recovery).
    """
    per_epoch = not sink and not config.autotune
    fast = sink and not config.exact_resume
    if per_epoch:
        why = "seeded by (seed, epoch): a resume replays at most one epoch"
    elif sink:
        why = "a new pipeline would need a new device queue and compilation"
    else:
        why = "tuned by autotune during the run; a resume replays all data of the run"
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
    """Return the epoch argument and the call of Model.train, to train from step `start` to the end of `epochs` epochs.

    `steps` is the number of batches per epoch. With a sink size, MindSpore counts each sink as an epoch. If a run that
    started on another device resumes within a sink, the sink size is lowered to a divisor of `start`. Otherwise,
    MindSpore would silently go back to the end of the last sink.
    """
    size = int(call.arguments["sink_size"])
    if size == -1:
        size = steps
    size = math.gcd(size, start) if call.arguments["dataset_sink_mode"] else steps
    arguments = {**call.arguments, "initial_epoch": start // size}
    if call.arguments["dataset_sink_mode"]:
        arguments["sink_size"] = size
    return epochs * steps // size, replace(call, arguments=arguments)
