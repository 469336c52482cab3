"""Results of trials, with made-up figures; nothing is measured."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.device.context import Machine
from trainer.doctor.advice import conclude, recommended
from trainer.doctor.remedies import HELPS, NO_GAIN, UNCERTAIN, Remedy
from trainer.doctor.session import Session
from trainer.doctor.stages import CompiledStep, Measurement, Stage
from trainer.doctor.trials import Trials
from trainer.doctor.verdict import Rates
from trainer.errors import TrainerError
from trainer.plan.run_plan import plan_run
from trainer.signals import StopSignals

pytestmark = pytest.mark.slow

MORE = Remedy("--prefetch 16", {"prefetch": 16}, price="more memory")
HALF = Remedy("--amp-level O2", {"amp_level": "O2"})


RATES = Rates(4000, 300, 250, feed=100, step=300, feed_cpu_s=0.01, step_cpu_s=0.001, cores=None)


class Scripted(Session):
    """A session whose turns give the rates that the test has written down for a part's name, round by round.

    "loop" stands for all loops, in which the remedies have their own names again.
    """

    rates: dict[str, list[float]]
    loops: dict[str, list[float]]

    def rounds(
        self, parts: Sequence[Stage], count: int, seconds: float, least: int = 1
    ) -> dict[str, list[Measurement]]:
        script = self.loops if any(part.name in self.loops for part in parts if part.name != "own") else self.rates
        return {
            part.name: [
                Measurement(int(rate), 1.0, 1.0, 0) for rate in _next(script.setdefault(part.name, [100.0]), count)
            ]
            for part in parts
        }


def _next(rates: list[float], count: int) -> list[float]:
    """The next rates of a script; its last one stands for all that follow."""
    taken = (rates + [rates[-1]] * count)[:count]
    rates[:] = rates[count:] or [rates[-1]]
    return taken


@pytest.fixture
def trials(stripes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trials:
    machine = Machine(ascend=False, cores=2)
    monkeypatch.setattr("trainer.doctor.session.this_machine", lambda device: machine)
    monkeypatch.setattr(CompiledStep, "compile", lambda self: None)
    plan = plan_run(RunConfig(str(stripes), device="CPU"), machine)
    session = Scripted(plan, tmp_path, 10.0, StopSignals(), lambda text: None)
    session.loops = {}
    return Trials(session, CompiledStep(plan), RATES)


def script(trials: Trials, more: Sequence[float] = (101.0,), half: Sequence[float] = (100.0,)) -> None:
    assert isinstance(trials.session, Scripted)
    trials.session.rates = {"own": [100.0], MORE.flags: list(more), HALF.flags: list(half)}


def in_the_loop(trials: Trials, *rates: float) -> None:
    assert isinstance(trials.session, Scripted)
    trials.session.loops = {MORE.flags: list(rates)}


def outcome(trials: Trials) -> str:
    [advice] = conclude(trials.tried, trials.rates)
    return advice.outcome


def test_remedy_is_recommended_with_its_gain_in_the_whole_loop(trials: Trials) -> None:
    script(trials, more=[150.0])
    trials.feed([MORE], 1.0)
    in_the_loop(trials, 140.0)
    trials.loop(60.0)
    [advice] = recommended(conclude(trials.tried, RATES))
    assert (advice.flags, advice.evidence.part, advice.gain) == ("--prefetch 16", "loop", 1.4)


def test_remedy_that_slows_the_loop_is_not_recommended(trials: Trials) -> None:
    script(trials, more=[150.0])
    trials.feed([MORE], 1.0)
    in_the_loop(trials, 90.0)
    trials.loop(60.0)
    assert outcome(trials) == NO_GAIN


def test_uncertain_trial_has_more_rounds_and_may_become_certain(trials: Trials) -> None:
    script(trials, more=[150.0, 150.0, 90.0, 150.0, 150.0, 150.0])
    trials.feed([MORE], 1.0)
    assert [(one.rounds, one.won, one.outcome) for one in trials.tried] == [(6, 5, HELPS)]


def test_trial_that_stays_uncertain_says_how_often_it_gained(trials: Trials) -> None:
    script(trials, more=[150.0, 150.0, 90.0, 90.0, 150.0, 150.0])
    trials.feed([MORE], 1.0)
    assert [(one.rounds, one.won, one.outcome) for one in trials.tried] == [(6, 4, UNCERTAIN)]


def test_certain_trial_has_no_further_rounds(trials: Trials) -> None:
    script(trials, more=[150.0])
    trials.feed([MORE], 1.0)
    assert [one.rounds for one in trials.tried] == [3]


def test_nothing_is_tried_in_the_loop_if_no_stage_gained(trials: Trials) -> None:
    script(trials)
    trials.feed([MORE], 1.0)
    trials.loop(60.0)
    assert [one.part for one in trials.tried] == ["feed"]
    assert trials.left_out == []


def test_flags_without_time_are_left_out(trials: Trials) -> None:
    trials.rates = replace(RATES, step_cpu_s=0.01, cores=2)  # the step takes cores too, so the loop must tell
    script(trials, more=[150.0])
    trials.feed([MORE], 1.0)
    trials.loop(0.0)
    trials.compiled.compile_s = 5.0
    trials.step([HALF], 4.0, must=False)
    assert trials.left_out == ["--prefetch 16 in the whole loop", "--amp-level O2"]
    assert outcome(trials) == UNCERTAIN


def test_first_remedy_of_the_bottleneck_is_tried_even_without_time(trials: Trials) -> None:
    script(trials)
    trials.compiled.compile_s = 5.0
    trials.step([HALF, MORE], -1.0, must=True)
    assert [one.flags for one in trials.tried] == ["--amp-level O2"]
    assert trials.left_out == ["--prefetch 16"]


def test_skipped_remedies_are_tried_if_time_remains(trials: Trials) -> None:
    script(trials)
    trials.compiled.compile_s = 5.0
    trials.step([HALF], 4.0, must=False)
    assert (trials.promising, trials.left_out) == ([], ["--amp-level O2"])
    trials.try_left_out(60.0)
    assert ([one.flags for one in trials.tried], trials.left_out) == (["--amp-level O2"], [])


def test_loop_without_enough_time_only_confirms_the_trial_of_the_stage(trials: Trials) -> None:
    trials.rates = replace(RATES, feed=1e6, step=1.0)  # 32 s a step
    script(trials, half=[150.0])
    trials.step([HALF], 0.0, must=True)
    trials.loop(30.0)
    assert trials.left_out == ["--amp-level O2 in the whole loop"]
    [advice] = recommended(conclude(trials.tried, trials.rates))
    assert (advice.flags, advice.gain) == ("--amp-level O2", 1.5)


def test_copy_on_the_same_disk_is_not_tried(trials: Trials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trials.copy(Remedy("copy it", copy=True), [], 1.0)
    assert trials.left_out == [f"copy it ({tmp_path.parent} is on the same disk; set TMPDIR to another disk)"]


def test_level_that_does_not_run_is_listed_with_its_reason(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: CompiledStep) -> None:
        raise RuntimeError("\n  no kernel for float16\nmore of it")

    monkeypatch.setattr(CompiledStep, "compile", fail)
    trials.step([HALF], 4.0, must=False)
    assert trials.failed == {"--amp-level O2": "no kernel for float16"}
    assert trials.tried == []


def test_flags_that_do_not_fit_together_are_listed(trials: Trials) -> None:
    script(trials)
    trials.feed([Remedy("--batch-size 9999", {"batch_size": 9999})], 1.0)
    assert "larger than the train split" in trials.failed["--batch-size 9999"]
    with pytest.raises(TrainerError):
        trials.session.planned(batch_size=9999)
