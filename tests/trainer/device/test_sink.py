import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config import RunConfig
from trainer.device.sink import Sink, decide_pipeline, decide_sink, rounds


def ascend(steps: int, graph: bool = True, **asked: object) -> Sink:
    return decide_sink(RunConfig("d", **asked), "Ascend", graph, steps)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "asked", "size"),
    [
        (1000, None, 500),
        (626, None, 313),
        (7, None, 7),
        (1009, None, 1009),
        (1000, 100, 100),
        (1000, 300, 250),
        (6, 99, 6),
    ],
)
def test_size_divides_the_epoch(steps: int, asked: int | None, size: int) -> None:
    sink = ascend(steps, sink_size=asked)
    assert (sink.size, sink.callback_steps, sink.call.arguments) == (
        size,
        size,
        {"dataset_sink_mode": True, "sink_size": size},
    )


def test_callback_interval_is_in_the_table() -> None:
    told = {one.setting: (one.asked, one.effect, one.why) for one in ascend(1000, sink_size=300).decisions}
    assert told["sink size"] == ("300", "250", "the next lower divisor of the epoch of 1000")
    assert told["callbacks"][:2] == ("default", "every 250 steps")


def test_pynative_mode_has_callbacks_at_every_step() -> None:
    assert ascend(1000, graph=False, sink=True, sink_size=100).callback_steps == 1


def test_on_cpu_nothing_sinks_and_no_size_reaches_mindspore() -> None:
    sink = decide_sink(RunConfig("d", sink=True, sink_size=5), "CPU", True, 10)
    assert (sink.on, sink.callback_steps, sink.call.arguments) == (
        False,
        1,
        {"dataset_sink_mode": False, "sink_size": -1},
    )


@given(st.integers(1, 400), st.integers(1, 5), st.integers(1, 400), st.data())
def test_sink_calls_cover_all_steps_from_any_step_to_the_end(
    steps: int, epochs: int, asked: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, epochs * steps - 1))
    count, call = rounds(ascend(steps, sink_size=asked).call, epochs, steps, start)
    size, first = call.arguments["sink_size"], call.arguments["initial_epoch"]
    assert steps % size == 0
    assert first * size == start  # nothing is trained twice or left out
    assert count * size == epochs * steps


def test_calls_without_sink_are_epochs() -> None:
    call = decide_sink(RunConfig("d"), "CPU", True, 6).call
    count, call = rounds(call, 3, 6, 8)
    assert (count, call.arguments) == (3, {"dataset_sink_mode": False, "sink_size": -1, "initial_epoch": 1})


def test_a_run_without_sink_has_a_pipeline_per_epoch_and_resumes_exactly() -> None:
    per_epoch, fast_recovery, (pipeline, resume) = decide_pipeline(RunConfig("d"), sink=False)
    assert (per_epoch, fast_recovery) == (True, False)
    assert (pipeline.effect, resume.effect) == ("one per epoch", "exact")


@pytest.mark.parametrize(
    ("config", "fast", "effect"),
    [(RunConfig("d"), True, "order exact, augmentation redrawn"), (RunConfig("d", exact_resume=True), False, "exact")],
)
def test_a_sunk_run_keeps_its_pipeline_and_skips_to_the_step_unless_exactness_is_requested(
    config: RunConfig, fast: bool, effect: str
) -> None:
    per_epoch, fast_recovery, (pipeline, resume) = decide_pipeline(config, sink=True)
    assert (per_epoch, fast_recovery) == (False, fast)
    assert (pipeline.effect, resume.effect) == ("one per run", effect)


def test_autotune_keeps_its_pipeline_for_the_run() -> None:
    per_epoch, fast_recovery, (pipeline, _) = decide_pipeline(RunConfig("d", autotune=True), sink=False)
    assert (per_epoch, fast_recovery) == (False, False)
    assert "replays all data" in pipeline.why
