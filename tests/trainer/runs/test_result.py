import pytest

from trainer.device.precision import overflow_advice
from trainer.runs.result import TrainResult, slow_feed, warn_of_skipped


def result(**changes: object) -> TrainResult:
    return TrainResult("run", "best.ckpt", 1, 0.5, 0.5, 1, 20, 3.0, None, "digest", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("skipped", "said"),
    [
        (0, None),
        (1, None),
        (2, "2 of 20 updates were skipped because gradients overflowed, so the model has learnt less"),
        (
            18,
            "18 of 20 updates were skipped because gradients overflowed, so the weights have hardly changed; do",
        ),
    ],
)
def test_a_run_warns_when_many_of_its_updates_were_skipped(skipped: int, said: str | None) -> None:
    warning = warn_of_skipped(skipped, 20, "do this")
    assert warning is said or (said is not None and str(warning).startswith(said))


def test_run_with_few_updates_is_reported_as_not_trained() -> None:
    assert [result(updates=20, skipped=skipped).learnt for skipped in (0, 17, 18, 20)] == [True, True, False, False]
    assert result().learnt, "a result of an earlier version, which did not count updates"


def test_result_of_an_earlier_version_is_read() -> None:
    text = result(updates=3, skipped=1, warning="w").to_json()
    assert TrainResult.from_json(text) == result(updates=3, skipped=1, warning="w")
    assert TrainResult.from_json(result().to_json().replace(', "updates": 0', "")).updates == 0


def test_advice_for_scale_1_does_not_recommend_a_lower_scale() -> None:
    assert "--loss-scale" not in overflow_advice(1.0)
    assert "--loss-scale below 1024" in overflow_advice(1024.0)


@pytest.mark.parametrize(
    ("waits", "named"),
    [([0.02, 0.4, 0.03], 1), ([0.4, 0.4, 0.38], None), ([0.5], None), ([None, None], None), ([0.3, 0.1], 0)],
)
def test_rank_that_waits_for_data_much_longer_than_the_others_is_named(
    waits: list[float | None], named: int | None
) -> None:
    sentence = slow_feed([{"rank": rank, "host": f"h{rank}", "data_wait": wait} for rank, wait in enumerate(waits)])
    assert sentence is None if named is None else str(sentence).startswith(f"rank {named} on h{named} ")
