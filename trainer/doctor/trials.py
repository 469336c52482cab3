"""Tries what might make a run faster: on the part that it is for, and in the whole loop; rounds are interleaved."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from schemas.counting import many
from trainer.doctor.advice import decides_alone, for_the_loop
from trainer.doctor.remedies import LEAST_ROUNDS as ROUNDS
from trainer.doctor.remedies import NO_GAIN, UNCERTAIN, Remedy, Tried, weigh
from trainer.doctor.samples import Row, as_set, shrunk
from trainer.doctor.session import Session
from trainer.doctor.stages import CompiledStep, Measurement, Stage, feeding, loop_part, pipeline_part, step_part
from trainer.doctor.storage import forget
from trainer.doctor.verdict import Rates
from trainer.errors import TrainerError, first_line
from trainer.plan.run_plan import RunPlan

FIRST_ROUNDS = 0.6  # of a trial's time; the rest is for more rounds of what they leave uncertain
LOOP_STEPS = 3  # of a turn in the loop at least: two that are not counted, and one
REPEATS = 64  # of a sample, so that its epochs are no shorter than those of a set
FAILURES = (RuntimeError, ValueError, TypeError, TrainerError)  # how it is said that flags do not go here


class Trials:
    """Gathers what came of the trials: `tried`, what `failed` and why, and what time was `left_out` for."""

    def __init__(self, session: Session, trainee: CompiledStep, rates: Rates) -> None:
        """`rates` are those without any remedy."""
        self.session = session
        self.trainee = trainee
        self.rates = rates
        self.tried: list[Tried] = []
        self.failed: dict[str, str] = {}
        self.left_out: list[str] = []
        self._loops: dict[str, Callable[..., Stage]] = {}
        self._late: list[Remedy] = []

    @property
    def promising(self) -> list[Tried]:
        """What is to be tried in the whole loop."""
        return [one for one in for_the_loop(self.tried, self.rates) if one.flags in self._loops]

    def feed(self, remedies: Sequence[Remedy], seconds: float) -> None:
        """Try flags on the feed."""
        own, parts, chosen = pipeline_part("own", self.session.plan, feeding), [], []
        for remedy in remedies:
            try:
                plan = self.session.planned(**remedy.changes)
            except TrainerError as error:
                self.failed[remedy.flags] = str(error)
                continue
            chosen.append(remedy)
            parts.append(pipeline_part(remedy.flags, plan, feeding))
            self._loops[remedy.flags] = partial(loop_part, remedy.flags, plan, self.trainee)
        if chosen:
            self.session.tell(f"trying {', '.join(one.flags for one in chosen)}")
        self._weigh("feed", own, parts, chosen, seconds)

    def resize(self, remedy: Remedy, rows: Sequence[Row], seconds: float) -> None:
        """Try other stored sizes on the feed, with the same rows on both sides."""
        session = self.session
        assert remedy.resize is not None
        if len(rows) < session.plan.config.batch_size:
            self.left_out.append(f"{remedy.flags} (the rows are too large for a sample)")
            return
        session.tell(f"trying {remedy.flags} on {many(len(rows), 'row')}")
        began = session.clock()
        as_they_are = as_set(rows, session.scratch / "as_they_are", session.plan)
        small = shrunk(rows, remedy.resize, session.plan, session.stop.check)
        resized = as_set(small, session.scratch / "resized", session.plan)
        own, other = pipeline_part("own", as_they_are, _repeated), pipeline_part(remedy.flags, resized, _repeated)
        self._weigh("feed", own, [other], [remedy], seconds - (session.clock() - began))
        self._loops[remedy.flags] = partial(loop_part, remedy.flags, resized, self.trainee, _repeated)

    def copy(self, remedy: Remedy, rows: Sequence[Row], seconds: float) -> None:
        """Try the feed on a copy of some rows in the temporary folder, read from its disk at first."""
        session, folder = self.session, self.session.scratch
        if folder.stat().st_dev == session.plan.folder.stat().st_dev:
            self.left_out.append(f"{remedy.flags} ({folder.parent} is on the same disk; set TMPDIR to another)")
            return
        session.tell(f"trying {remedy.flags} on {len(rows)} rows in {folder.parent}")
        began = session.clock()
        copied = as_set(rows, folder / "copy", session.plan)
        for shard in copied.train_split.shards:
            forget(copied.folder / shard.name)
        own, other = pipeline_part("own", session.plan, feeding), pipeline_part(remedy.flags, copied, _repeated)
        remedy = replace(remedy, price=f"{remedy.price}; measured in {folder.parent}")
        self._weigh("feed", own, [other], [remedy], seconds - (session.clock() - began))
        self._loops[remedy.flags] = partial(loop_part, remedy.flags, copied, self.trainee, _repeated)

    def step(self, remedies: Sequence[Remedy], seconds: float, must: bool) -> None:
        """Try flags on the step, one after the other: each is compiled, and takes memory.

        One for which there is no time is left out, but for the first where one `must` be tried.
        """
        session = self.session
        until = session.clock() + seconds
        step_s = session.plan.config.batch_size / self.rates.step
        least_s = self.trainee.compile_s + 2 * ROUNDS * step_s
        for place, remedy in enumerate(remedies):
            began = session.clock()
            if until - began < least_s and not (must and place == 0):
                self.left_out.append(remedy.flags)
                self._late.append(remedy)
                continue
            session.tell(f"trying {remedy.flags}")
            left = (until - began) / (len(remedies) - place)
            try:
                other = CompiledStep(session.planned(**remedy.changes))
                other.compile()
            except FAILURES as error:
                self.failed[remedy.flags] = first_line(error)
                continue
            session.stop.check()
            own, part = step_part("own", self.trainee), step_part(remedy.flags, other)
            self._weigh("step", own, [part], [remedy], left - (session.clock() - began))
            if self.tried[-1].outcome != NO_GAIN:  # else it would hold its memory for nothing
                self._loops[remedy.flags] = partial(loop_part, remedy.flags, other.plan, other)

    def try_left_out(self, seconds: float) -> None:
        """Try on the step what there was no time for, in time that has become free."""
        late, self._late = self._late, []
        self.left_out = [text for text in self.left_out if text not in {one.flags for one in late}]
        self.step(late, seconds, must=False)

    def loop(self, seconds: float) -> None:
        """Try what promises most in the whole loop, which is what a user gets."""
        chosen = self.promising
        if not chosen:
            return
        step_s = self.session.plan.config.batch_size / min(self.rates.feed, self.rates.step)
        needed_s = (1 + len(chosen)) * ROUNDS * LOOP_STEPS * step_s
        # Of what its part decides alone the loop would only be a confirmation: no more time than is given for that.
        if seconds <= 0 or (seconds < needed_s and all(decides_alone(one, self.rates) for one in chosen)):
            self.left_out += [f"{one.flags} in the whole loop" for one in chosen]
            return
        self.session.tell(f"trying {', '.join(one.flags for one in chosen)} in the whole loop")
        own = loop_part("own", self.session.plan, self.trainee, full=self.rates.feed > self.rates.step)
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
        found = {remedy.flags: _judged(remedy, part, *pairs[remedy.flags]) for remedy in remedies}
        doubtful = [one for one in others if found[one.name].outcome == UNCERTAIN]
        if doubtful and self.session.clock() < until:
            again = self.session.rounds([own, *doubtful], ROUNDS, until - self.session.clock(), 0)
            for remedy in remedies:
                if remedy.flags in again:
                    before, after = pairs[remedy.flags]
                    found[remedy.flags] = _judged(remedy, part, before + again["own"], after + again[remedy.flags])
        self.tried += found.values()


def _judged(remedy: Remedy, part: str, before: Sequence[Measurement], after: Sequence[Measurement]) -> Tried:
    early, late = ([turn.images_per_s for turn in turns] for turns in (before, after))
    cpu_before = _cpu_per_image(before)
    return weigh(remedy, part, early, late, _cpu_per_image(after) / cpu_before if cpu_before else 1.0)


def _cpu_per_image(turns: Sequence[Measurement]) -> float:
    return statistics.median(turn.cpu_s / turn.images if turn.images else 0.0 for turn in turns)


def _repeated(plan: RunPlan) -> Any:
    return feeding(plan).repeat(REPEATS)
