"""Try remedies on feed or step and in the whole loop, in rounds interleaved with the current settings."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from trainer.doctor.advice import decides_alone, for_the_loop
from trainer.doctor.notes import Trying
from trainer.doctor.remedies import LEAST_ROUNDS as ROUNDS
from trainer.doctor.remedies import NO_GAIN, UNCERTAIN, Remedy, Tried, weigh
from trainer.doctor.samples import Row, resize_rows, write_dataset
from trainer.doctor.session import Session
from trainer.doctor.stages import CompiledStep, Measurement, Stage, feeding, loop_stage, pipeline_stage, step_stage
from trainer.doctor.storage import drop_from_cache
from trainer.doctor.verdict import Rates
from trainer.errors import TrainerError, first_line
from trainer.plan.run_plan import RunPlan

FIRST_ROUNDS = 0.6  # share of the time of a trial; the rest is for more rounds if the result is uncertain
LOOP_STEPS = 3  # least number of steps per measurement of the loop: two warm-up steps, and a counted step
REPEATS = 64  # repetitions of a sample, so that its epochs are as long as the epochs of a dataset
FAILURES = (RuntimeError, ValueError, TypeError, TrainerError)  # raised for flags that do not work here


class Trials:
    """Trials: their results (`tried`), flags with errors (`failed`), and flags that were not tried (`left_out`)."""

    def __init__(self, session: Session, compiled: CompiledStep, rates: Rates) -> None:
        """Prepare trials of the run in `compiled`. `rates` are the stage rates with the current settings."""
        self.session = session
        self.compiled = compiled
        self.rates = rates
        self.tried: list[Tried] = []
        self.failed: dict[str, str] = {}
        self.left_out: list[str] = []
        self._loops: dict[str, Callable[..., Stage]] = {}
        self._late: list[Remedy] = []

    @property
    def promising(self) -> list[Tried]:
        """Return the trials to repeat in the whole loop."""
        return [one for one in for_the_loop(self.tried, self.rates) if one.flags in self._loops]

    def feed(self, remedies: Sequence[Remedy], seconds: float) -> None:
        """Try flags on the feed, for about `seconds`."""
        own, parts, chosen = pipeline_stage("own", self.session.plan, feeding), [], []
        for remedy in remedies:
            try:
                plan = self.session.planned(**remedy.changes)
            except TrainerError as error:
                self.failed[remedy.flags] = str(error)
                continue
            chosen.append(remedy)
            parts.append(pipeline_stage(remedy.flags, plan, feeding))
            self._loops[remedy.flags] = partial(loop_stage, remedy.flags, plan, self.compiled)
        if chosen:
            self.session.tell(Trying(tuple(one.flags for one in chosen)))
        self._weigh("feed", own, parts, chosen, seconds)

    def resize(self, remedy: Remedy, rows: Sequence[Row], seconds: float) -> None:
        """Try resized images on the feed, compared with the same rows in the stored size."""
        session = self.session
        assert remedy.resize is not None
        if len(rows) < session.plan.config.batch_size:
            self.left_out.append(f"{remedy.flags} (the rows are too large to sample)")
            return
        session.tell(Trying((remedy.flags,), len(rows)))
        began = session.clock()
        as_they_are = write_dataset(rows, session.scratch / "as_they_are", session.plan)
        small = resize_rows(rows, remedy.resize, session.plan, session.stop.check)
        resized = write_dataset(small, session.scratch / "resized", session.plan)
        own, other = pipeline_stage("own", as_they_are, _repeated), pipeline_stage(remedy.flags, resized, _repeated)
        self._weigh("feed", own, [other], [remedy], seconds - (session.clock() - began))
        self._loops[remedy.flags] = partial(loop_stage, remedy.flags, resized, self.compiled, _repeated)

    def copy(self, remedy: Remedy, rows: Sequence[Row], seconds: float) -> None:
        """Try the feed on a copy of some rows in the temporary folder. The first read of the copy comes from disk."""
        session, folder = self.session, self.session.scratch
        if folder.stat().st_dev == session.plan.folder.stat().st_dev:
            self.left_out.append(f"{remedy.flags} ({folder.parent} is on the same disk; set TMPDIR to another disk)")
            return
        session.tell(Trying((remedy.flags,), len(rows), folder.parent))
        began = session.clock()
        copied = write_dataset(rows, folder / "copy", session.plan)
        for shard in copied.train_split.shards:
            drop_from_cache(copied.folder / shard.name)
        own, other = pipeline_stage("own", session.plan, feeding), pipeline_stage(remedy.flags, copied, _repeated)
        remedy = replace(remedy, price=f"{remedy.price}; measured in {folder.parent}")
        self._weigh("feed", own, [other], [remedy], seconds - (session.clock() - began))
        self._loops[remedy.flags] = partial(loop_stage, remedy.flags, copied, self.compiled, _repeated)

    def step(self, remedies: Sequence[Remedy], seconds: float, must: bool) -> None:
        """Try flags on the step, one after another, because each compiled step takes memory.

        Flags are left out when the time is over. If `must` is True, the first flag is tried in any case.
        """
        session = self.session
        until = session.clock() + seconds
        step_s = session.plan.config.batch_size / self.rates.step
        least_s = self.compiled.compile_s + 2 * ROUNDS * step_s
        for number, remedy in enumerate(remedies):
            began = session.clock()
            if until - began < least_s and not (must and number == 0):
                self.left_out.append(remedy.flags)
                self._late.append(remedy)
                continue
            session.tell(Trying((remedy.flags,)))
            left = (until - began) / (len(remedies) - number)
            try:
                other = CompiledStep(session.planned(**remedy.changes))
                other.compile()
            except FAILURES as error:
                self.failed[remedy.flags] = first_line(error)
                continue
            session.stop.check()
            own, part = step_stage("own", self.compiled), step_stage(remedy.flags, other)
            self._weigh("step", own, [part], [remedy], left - (session.clock() - began))
            if self.tried[-1].outcome != NO_GAIN:  # else its memory is released
                self._loops[remedy.flags] = partial(loop_stage, remedy.flags, other.plan, other)

    def try_left_out(self, seconds: float) -> None:
        """Try the remedies of the step that were left out, for about `seconds`."""
        late, self._late = self._late, []
        self.left_out = [text for text in self.left_out if text not in {one.flags for one in late}]
        self.step(late, seconds, must=False)

    def loop(self, seconds: float) -> None:
        """Try the most promising remedies in the whole loop, for about `seconds`."""
        chosen = self.promising
        if not chosen:
            return
        step_s = self.session.plan.config.batch_size / min(self.rates.feed, self.rates.step)
        needed_s = (1 + len(chosen)) * ROUNDS * LOOP_STEPS * step_s
        # If the stage alone decides, a trial in the loop only confirms the result and is not worth extra time.
        if seconds <= 0 or (seconds < needed_s and all(decides_alone(one, self.rates) for one in chosen)):
            self.left_out += [f"{one.flags} in the whole loop" for one in chosen]
            return
        self.session.tell(Trying(tuple(one.flags for one in chosen), in_loop=True))
        own = loop_stage("own", self.session.plan, self.compiled, full=self.rates.feed > self.rates.step)
        parts = [self._loops[one.flags](full=self._feed_is_faster(one)) for one in chosen]
        self._weigh("loop", own, parts, [Remedy(one.flags, price=one.price) for one in chosen], seconds)

    def _feed_is_faster(self, tried: Tried) -> bool:
        feed, step = (tried.after if tried.part == part else getattr(self.rates, part) for part in ("feed", "step"))
        return bool(feed > step)

    def _weigh(
        self, part: str, own: Stage, others: Sequence[Stage], remedies: Sequence[Remedy], seconds: float
    ) -> None:
        if not others:
            return
        until = self.session.clock() + seconds
        turns = self.session.rounds([own, *others], ROUNDS, FIRST_ROUNDS * seconds, ROUNDS)
        pairs = {remedy.flags: (list(turns["own"]), list(turns[remedy.flags])) for remedy in remedies}
        results = {remedy.flags: _judged(remedy, part, *pairs[remedy.flags]) for remedy in remedies}
        doubtful = [one for one in others if results[one.name].outcome == UNCERTAIN]
        if doubtful and self.session.clock() < until:
            again = self.session.rounds([own, *doubtful], ROUNDS, until - self.session.clock(), 0)
            for remedy in remedies:
                if remedy.flags in again:
                    before, after = pairs[remedy.flags]
                    results[remedy.flags] = _judged(remedy, part, before + again["own"], after + again[remedy.flags])
        self.tried += results.values()


def _judged(remedy: Remedy, part: str, before: Sequence[Measurement], after: Sequence[Measurement]) -> Tried:
    early, late = ([turn.images_per_s for turn in turns] for turns in (before, after))
    cpu_before = _cpu_per_image(before)
    return weigh(remedy, part, early, late, _cpu_per_image(after) / cpu_before if cpu_before else 1.0)


def _cpu_per_image(turns: Sequence[Measurement]) -> float:
    return statistics.median(turn.cpu_s / turn.images if turn.images else 0.0 for turn in turns)


def _repeated(plan: RunPlan) -> Any:
    return feeding(plan).repeat(REPEATS)
