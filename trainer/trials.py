"""Tries what might make a run faster: on the part that it is for, by turns with what there is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from schemas.counting import many
from trainer.errors import TrainerError
from trainer.plan import RunPlan
from trainer.remedies import LEAST_ROUNDS as ROUNDS
from trainer.remedies import Remedy, Tried, weigh
from trainer.sampling import Row, as_set, shrunk
from trainer.session import Session
from trainer.stages import Part, Trainee, feeding, loop_part, pipeline_part, step_part

REPEATS = 64  # of a sample, so that its epochs are no shorter than those of a set
FAILURES = (RuntimeError, ValueError, TypeError, TrainerError)  # how it is said that flags do not go here


class Trials:
    """Gathers what came of the trials: `tried`, what `failed` and why, and what time was `left_out` for."""

    def __init__(self, session: Session, trainee: Trainee, rates: Mapping[str, float]) -> None:
        """`rates` has the images/s of feed and step without any remedy."""
        self.session = session
        self.trainee = trainee
        self.rates = rates
        self.tried: list[Tried] = []
        self.failed: dict[str, str] = {}
        self.left_out: list[str] = []
        self._loops: dict[str, Callable[..., Part]] = {}

    @property
    def best(self) -> list[Tried]:
        """What helped, the most first."""
        return sorted((one for one in self.tried if one.helps), key=lambda one: -one.gain)

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
            self._loops[remedy.flags] = partial(loop_part, "with", plan, self.trainee)
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
        as_they_are = as_set(rows, Path.cwd() / "as_they_are", session.plan)
        small = shrunk(rows, remedy.resize, session.plan, session.stop.check)
        resized = as_set(small, Path.cwd() / "resized", session.plan)
        own, other = pipeline_part("own", as_they_are, _repeated), pipeline_part(remedy.flags, resized, _repeated)
        self._weigh("feed", own, [other], [remedy], seconds - (session.clock() - began))
        self._loops[remedy.flags] = partial(loop_part, "with", resized, self.trainee, _repeated)

    def step(self, remedies: Sequence[Remedy], seconds: float) -> None:
        """Try flags on the step, one after the other: each is compiled, and takes memory."""
        session = self.session
        until = session.clock() + seconds
        for place, remedy in enumerate(remedies):
            began = session.clock()
            if until - began < self.trainee.compile_s:
                self.left_out.append(remedy.flags)
                continue
            session.tell(f"trying {remedy.flags}")
            left = (until - began) / (len(remedies) - place)
            try:
                other = Trainee(session.planned(**remedy.changes), session.home)
                other.compile()
            except FAILURES as error:
                self.failed[remedy.flags] = _first_line(error)
                continue
            session.stop.check()
            own, part = step_part("own", self.trainee), step_part(remedy.flags, other)
            self._weigh("step", own, [part], [remedy], left - (session.clock() - began))
            if self.tried[-1].helps:  # else it would hold its memory for nothing
                self._loops[remedy.flags] = partial(loop_part, "with", other.plan, other)

    def confirm(self, seconds: float) -> Tried | None:
        """The best remedy in the whole loop; None when none helped, or no time is left for it.

        One that makes the loop slower is a recommendation no longer.
        """
        best = next((one for one in self.best if one.flags in self._loops), None)
        if best is None:
            return None
        if seconds <= 0:
            self.left_out.append(f"{best.flags} in the whole loop")
            return None
        self.session.tell(f"trying {best.flags} in the whole loop")
        after = {**self.rates, best.part: best.after}
        own = loop_part("own", self.session.plan, self.trainee, full=self.rates["feed"] > self.rates["step"])
        other = self._loops[best.flags](full=after["feed"] > after["step"])
        turns = self.session.rounds([own, other], ROUNDS, seconds, ROUNDS)
        rates = [[turn.images_per_s for turn in done] for done in turns.values()]
        confirmed = weigh(Remedy(best.flags, price=best.price), "loop", *rates)
        if confirmed.gain < 1:
            self.tried[self.tried.index(best)] = replace(best, helps=False)
        return confirmed

    def _weigh(self, part: str, own: Part, others: Sequence[Part], remedies: Sequence[Remedy], seconds: float) -> None:
        turns = self.session.rounds([own, *others], ROUNDS, seconds, ROUNDS) if others else {}
        rates = {name: [turn.images_per_s for turn in done] for name, done in turns.items()}
        for remedy in remedies:
            self.tried.append(weigh(remedy, part, rates["own"], rates[remedy.flags]))


def _repeated(plan: RunPlan) -> Any:
    return feeding(plan).repeat(REPEATS)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
