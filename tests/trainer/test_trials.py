"""What follows from a trial, with figures that are made up and nothing measured."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.device import Machine
from trainer.errors import TrainerError
from trainer.plan import plan_run
from trainer.remedies import Remedy
from trainer.session import Session
from trainer.signals import StopSignals
from trainer.stages import Part, Trainee, Turn
from trainer.trials import Trials

MORE = Remedy("--prefetch 16", {"prefetch": 16}, price="more memory")
HALF = Remedy("--amp-level O2", {"amp_level": "O2"})


class Scripted(Session):
    """A session whose turns give the rates that the test has written down for a part's name."""

    rates: dict[str, float]

    def rounds(self, parts: Sequence[Part], count: int, seconds: float, least: int = 1) -> dict[str, list[Turn]]:
        return {part.name: [Turn(int(self.rates[part.name]), 1.0, 1.0, 0)] * 3 for part in parts}


@pytest.fixture
def trials(stripes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trials:
    machine = Machine(ascend=False, cores=2)
    monkeypatch.setattr("trainer.session.this_machine", lambda device: machine)
    monkeypatch.setattr(Trainee, "compile", lambda self: None)
    plan = plan_run(RunConfig(str(stripes), device="CPU"), machine)
    session = Scripted(plan, tmp_path, 10.0, StopSignals(), lambda text: None)
    return Trials(session, Trainee(plan, tmp_path), {"feed": 100.0, "step": 300.0})


def script(trials: Trials, rates: dict[str, float]) -> None:
    assert isinstance(trials.session, Scripted)
    trials.session.rates = rates


def test_remedy_that_helps_is_confirmed_in_the_whole_loop(trials: Trials) -> None:
    script(trials, {"own": 100.0, "--prefetch 16": 150.0, "with": 140.0})
    trials.feed([MORE], 1.0)
    confirmed = trials.confirm(1.0)
    assert confirmed is not None
    assert (confirmed.flags, confirmed.part, confirmed.gain) == ("--prefetch 16", "loop", 1.4)
    assert [one.flags for one in trials.best] == ["--prefetch 16"]


def test_remedy_that_slows_the_loop_is_recommended_no_longer(trials: Trials) -> None:
    script(trials, {"own": 100.0, "--prefetch 16": 150.0, "with": 90.0})
    trials.feed([MORE], 1.0)
    confirmed = trials.confirm(1.0)
    assert confirmed is not None
    assert confirmed.gain == 0.9
    assert trials.best == []


def test_nothing_is_confirmed_where_nothing_helped(trials: Trials) -> None:
    script(trials, {"own": 100.0, "--prefetch 16": 101.0})
    trials.feed([MORE], 1.0)
    assert trials.confirm(1.0) is None
    assert trials.left_out == []


def test_time_that_is_over_is_told(trials: Trials) -> None:
    script(trials, {"own": 100.0, "--prefetch 16": 150.0})
    trials.feed([MORE], 1.0)
    assert trials.confirm(0.0) is None
    trials.trainee.compile_s = 5.0
    trials.step([HALF], 4.0)
    assert trials.left_out == ["--prefetch 16 in the whole loop", "--amp-level O2"]


def test_level_that_does_not_run_is_told_with_its_reason(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Trainee) -> None:
        raise RuntimeError("\n  no kernel for float16\nmore of it")

    monkeypatch.setattr(Trainee, "compile", fail)
    trials.step([HALF], 4.0)
    assert trials.failed == {"--amp-level O2": "no kernel for float16"}
    assert trials.tried == []


def test_flags_that_do_not_go_together_are_told(trials: Trials) -> None:
    script(trials, {"own": 100.0})
    trials.feed([Remedy("--batch-size 9999", {"batch_size": 9999})], 1.0)
    assert "larger than the train split" in trials.failed["--batch-size 9999"]
    with pytest.raises(TrainerError):
        trials.session.planned(batch_size=9999)
