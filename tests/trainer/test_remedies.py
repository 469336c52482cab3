from dataclasses import replace
from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.device import Machine
from trainer.plan import plan_run
from trainer.recipes import RECIPES
from trainer.remedies import Place, Remedy, Tried, feed_remedies, jit_remedies, step_remedies, weigh

CONFIG = RunConfig("", recipe="imagenet")
PLACE = Place(workers=8, prefetch=8, cores=8, image_side=224, short_side=480)


def flags(found: list[Remedy]) -> list[str]:
    return [one.flags for one in found]


def test_large_images_are_tried_smaller_first() -> None:
    found = feed_remedies(CONFIG, RECIPES["imagenet"], PLACE)
    assert flags(found) == ["dataprep shard ... --resize 256", "--workers 4", "--prefetch 16"]
    assert found[0].resize == 256
    assert found[2].changes == {"prefetch": 16}


@pytest.mark.parametrize(("short_side", "tried"), [(320, True), (319, False)])
def test_shards_are_tried_smaller_only_where_much_is_left_to_shrink(short_side: int, tried: bool) -> None:
    found = feed_remedies(CONFIG, RECIPES["imagenet"], replace(PLACE, short_side=short_side))
    assert any(one.resize for one in found) is tried


def test_cheaper_recipe_keeps_the_side_that_was_asked_for() -> None:
    place = replace(PLACE, short_side=256)
    [cheaper, *_] = feed_remedies(replace(CONFIG, recipe="trivial", image_size=96), RECIPES["trivial"], place)
    assert cheaper.changes == {"recipe": "imagenet"}
    own = feed_remedies(
        replace(CONFIG, recipe="mine:make"), RECIPES["none"], replace(place, image_side=64, short_side=64)
    )
    assert own[0].changes == {"recipe": "imagenet", "image_size": 64}


def test_what_mixes_and_erases_is_tried_without() -> None:
    recipe = replace(RECIPES["imagenet"], mixup=0.2, erasing=0.25)
    found = feed_remedies(CONFIG, recipe, replace(PLACE, short_side=256))
    assert flags(found)[0] == "--mixup 0 --erasing 0"
    assert found[0].changes == {"mixup": 0.0, "erasing": 0.0}


def test_idle_cores_are_tried_and_one_core_has_nothing_to_try() -> None:
    few = feed_remedies(CONFIG, RECIPES["imagenet"], replace(PLACE, short_side=256, workers=2))
    assert flags(few)[0] == "--workers 8"
    one = feed_remedies(CONFIG, RECIPES["imagenet"], replace(PLACE, short_side=256, workers=1, cores=1, prefetch=128))
    assert one == []


def test_step_is_tried_at_every_other_level_and_with_twice_the_batch() -> None:
    found = step_remedies(CONFIG, "O2", graph=True, rows=64)
    levels = ["--amp-level auto", "--amp-level O3", "--amp-level O1", "--amp-level O0"]
    assert flags(found) == [levels[0], "--batch-size 64", *levels[1:]]
    assert flags(step_remedies(CONFIG, "O2", graph=False, rows=63)) == ["--mode graph", *levels]


@pytest.mark.parametrize(
    ("before", "after", "gain", "helps"),
    [
        ([100, 50, 100], [120, 60, 150], 1.2, True),
        ([100, 50, 100], [120, 60, 100], 1.2, False),  # one round without
        ([100, 100, 100], [104, 104, 104], 1.04, False),  # not worth a flag
        ([100, 100], [200, 200], 2.0, False),  # two rounds are chance
        ([100, 100, 100], [200, 180, 190], 1.9, True),
    ],
)
def test_trial_recommends_what_gained_in_every_round(
    before: list[float], after: list[float], gain: float, helps: bool
) -> None:
    found = weigh(Remedy("--x", price="dear"), "feed", before, after)
    assert (found.gain, found.helps, found.price) == (pytest.approx(gain), helps, "dear")


def test_trial_keeps_the_medians_of_both_sides() -> None:
    assert weigh(Remedy("--x"), "step", [1, 3, 2], [4, 9, 5]) == Tried("--x", "step", 2, 5, 3.0, True)


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
