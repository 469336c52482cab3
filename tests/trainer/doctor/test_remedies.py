from dataclasses import replace
from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.device.context import Machine
from trainer.doctor.remedies import (
    HELPS,
    NO_GAIN,
    UNCERTAIN,
    FeedConditions,
    Remedy,
    Tried,
    amp_remedies,
    feed_remedies,
    jit_remedies,
    outcome_of,
    step_remedies,
    weigh,
)
from trainer.feed.recipes import RECIPES
from trainer.plan.run_plan import plan_run

CONFIG = RunConfig("", recipe="imagenet")
CONDITIONS = FeedConditions(workers=8, prefetch=8, cores=8, image_side=224, short_side=480)


def flags(found: list[Remedy]) -> list[str]:
    return [one.flags for one in found]


def test_large_images_are_tried_smaller_first() -> None:
    found = feed_remedies(CONFIG, RECIPES["imagenet"], CONDITIONS)
    assert flags(found) == ["dataprep shard ... --resize 256", "--workers 4", "--prefetch 16"]
    assert found[0].resize == 256
    assert found[2].changes == {"prefetch": 16}


@pytest.mark.parametrize(("short_side", "tried"), [(320, True), (319, False)])
def test_smaller_shards_are_tried_only_if_images_are_much_larger_than_needed(short_side: int, tried: bool) -> None:
    found = feed_remedies(CONFIG, RECIPES["imagenet"], replace(CONDITIONS, short_side=short_side))
    assert any(one.resize for one in found) is tried


def test_cheaper_recipe_keeps_the_side_that_was_asked_for() -> None:
    conditions = replace(CONDITIONS, short_side=256)
    [cheaper, *_] = feed_remedies(replace(CONFIG, recipe="trivial", image_size=96), RECIPES["trivial"], conditions)
    assert cheaper.changes == {"recipe": "imagenet"}
    own = feed_remedies(
        replace(CONFIG, recipe="mine:make"), RECIPES["none"], replace(conditions, image_side=64, short_side=64)
    )
    assert own[0].changes == {"recipe": "imagenet", "image_size": 64}
    assert own[0].flags == "--recipe imagenet --image-size 64"


def test_runs_with_mixing_or_erasing_are_tried_without_it() -> None:
    recipe = replace(RECIPES["imagenet"], mixup=0.2, erasing=0.25)
    found = feed_remedies(CONFIG, recipe, replace(CONDITIONS, short_side=256))
    assert flags(found)[0] == "--mixup 0 --erasing 0"
    assert found[0].changes == {"mixup": 0.0, "erasing": 0.0}


def test_idle_cores_are_tried_unless_there_is_only_one_core() -> None:
    few = feed_remedies(CONFIG, RECIPES["imagenet"], replace(CONDITIONS, short_side=256, workers=2))
    assert flags(few)[0] == "--workers 8"
    one = feed_remedies(
        CONFIG, RECIPES["imagenet"], replace(CONDITIONS, short_side=256, workers=1, cores=1, prefetch=128)
    )
    assert one == []


def test_step_is_tried_at_every_other_level_and_with_twice_the_batch() -> None:
    found = step_remedies(CONFIG, "Ascend", "O2", graph=True, rows=64)
    levels = ["--amp-level auto", "--amp-level O3", "--amp-level O1", "--amp-level O0"]
    assert flags(found) == [levels[0], "--batch-size 64", *levels[1:]]
    assert flags(step_remedies(CONFIG, "Ascend", "O2", graph=False, rows=63)) == ["--mode graph", *levels]


@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
@pytest.mark.parametrize("graph", [True, False])
def test_o0_is_the_first_to_try_on_cpu(level: str, graph: bool) -> None:
    assert flags(step_remedies(CONFIG, "CPU", level, graph, rows=64))[0] == "--amp-level O0"
    assert flags(amp_remedies("CPU", level))[0] == "--amp-level O0"


def test_float16_is_the_last_to_try_on_cpu() -> None:
    assert flags(step_remedies(CONFIG, "CPU", "O0", graph=False, rows=64))[:2] == ["--mode graph", "--batch-size 64"]


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "auto"])
@pytest.mark.parametrize("device", ["CPU", "Ascend"])
def test_each_other_level_is_tried_once(device: str, level: str) -> None:
    assert sorted([level, *(one.removeprefix("--amp-level ") for one in flags(amp_remedies(device, level)))]) == [
        *("O0", "O1", "O2", "O3", "auto")
    ]


@pytest.mark.parametrize(
    ("gain", "won", "rounds", "outcome"),
    [
        (1.45, 3, 3, HELPS),
        (1.05, 3, 3, HELPS),
        (1.0499, 3, 3, NO_GAIN),  # not worth a flag, however steady
        (0.5, 0, 3, NO_GAIN),
        (1.45, 2, 3, UNCERTAIN),
        (1.45, 2, 2, UNCERTAIN),  # two rounds are chance
        (1.45, 1, 1, UNCERTAIN),
        (1.45, 4, 5, UNCERTAIN),
        (1.45, 5, 6, HELPS),  # as rare by chance as three of three
        (1.45, 4, 6, UNCERTAIN),
    ],
)
def test_gain_below_five_percent_is_none_and_one_that_is_not_steady_is_uncertain(
    gain: float, won: int, rounds: int, outcome: str
) -> None:
    assert outcome_of(gain, won, rounds) == outcome


def test_trial_keeps_medians_spread_and_rounds() -> None:
    found = weigh(Remedy("--x", price="different rounding"), "step", [1, 3, 2], [4, 9, 5])
    assert found == Tried("--x", "step", 2, 5, 3.0, 2.5, 4.0, 3, 3, HELPS, "different rounding")


def test_slow_reading_is_tried_on_a_copy_and_not_with_smaller_shards() -> None:
    found = feed_remedies(CONFIG, RECIPES["imagenet"], replace(CONDITIONS, reading=True))
    assert flags(found) == ["copy the shards to a local disk", "--workers 4", "--prefetch 16"]
    assert found[0].copy


def test_more_threads_than_cores_are_tried_with_as_many() -> None:
    found = feed_remedies(CONFIG, RECIPES["imagenet"], replace(CONDITIONS, short_side=256, workers=16))
    assert flags(found)[0] == "--workers 8"


def test_levels_of_graph_compilation_are_tried_on_ascend_alone(stripes: Path) -> None:
    found = jit_remedies(CONFIG, "Ascend", graph=True)
    assert flags(found) == ["--jit-level O0", "--jit-level O1", "--jit-level O2"]
    assert flags(jit_remedies(replace(CONFIG, jit_level="O1"), "Ascend", graph=True)) == flags([found[0], found[2]])
    assert not jit_remedies(CONFIG, "CPU", graph=True)
    assert not jit_remedies(CONFIG, "Ascend", graph=False)
    assert not jit_remedies(replace(CONFIG, graph_kernel=True), "Ascend", graph=True)
    for one in found:
        config = replace(CONFIG, dataset=str(stripes), batch_size=8, device="Ascend", **one.changes)
        setup = plan_run(config, Machine(ascend=True, cores=2)).effect.setup
        assert f"jit_config={{'jit_level': '{one.flags[-2:]}'}}" in str(setup[1])
