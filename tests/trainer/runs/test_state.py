import pytest

from trainer.runs.state import RunState


def test_best_epoch_is_the_last_of_equals_and_improvement_is_strict() -> None:
    state = RunState()
    taken = [state.improves(epoch, accuracy) for epoch, accuracy in enumerate([0.5, 0.7, 0.6, 0.7, 0.7], start=1)]
    assert taken == [True, True, False, True, True]
    assert (state.best_epoch, state.best_accuracy, state.rise_epoch) == (5, 0.7, 2)


def test_without_a_val_split_the_last_epoch_is_best() -> None:
    state = RunState()
    assert [state.improves(epoch, None) for epoch in (1, 2)] == [True, True]
    assert (state.best_epoch, state.best_accuracy) == (2, None)


@pytest.mark.parametrize(
    ("step", "evaluated", "rise", "patience", "over"),
    [
        (0, True, 0, 1, False),
        (60, True, 1, None, True),
        (60, False, 1, None, False),
        (30, True, 1, None, False),
        (30, True, 1, 2, True),
        (30, True, 2, 2, False),
        (35, True, 1, 2, False),
    ],
)
def test_run_is_over_after_its_last_step_or_patience(
    step: int, evaluated: bool, rise: int, patience: int | None, over: bool
) -> None:
    state = RunState(step=step, evaluated=evaluated, rise_epoch=rise)
    assert state.is_over(60, 10, patience) is over


def test_stored_form_gives_the_same_state_back() -> None:
    state = RunState(step=3, meter={"loss_sum": 0.1 + 0.2}, last={"epoch": 1, "val_loss": None})
    assert RunState.from_json(state.to_json()) == state
