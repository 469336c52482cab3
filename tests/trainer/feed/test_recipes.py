import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
import numpy as np
import pytest
from PIL import Image

from schemas.dataset import load_dataset
from trainer.config import RunConfig
from trainer.device.context import InEffect, Machine
from trainer.errors import TrainerError
from trainer.evaluation.evaluate import evaluate_checkpoint
from trainer.feed import augment, pipeline
from trainer.feed.mixing import scaled
from trainer.feed.pipeline import try_recipe
from trainer.feed.recipes import RECIPES, Pixels, Recipe, find_recipe
from trainer.nn.models import find_factory
from trainer.plan.run_plan import plan_run
from trainer.runs import checkpoint
from trainer.runs.checkpoint import Meta

pytestmark = pytest.mark.slow

PHOTO_RECIPES = ("imagenet", "randaugment", "autoaugment", "trivial")

OWN = """
from mindspore.dataset import vision
from trainer.feed.recipes import Recipe, squeezed

def plain(size): return [vision.Decode(), vision.Resize((size, size))]
def right(): return Recipe(48, plain, plain, mean=(10.0, 20.0, 30.0), std=(50.0, 50.0, 50.0), mixup=0.2)
def to_grey(size): return [*plain(size), vision.ConvertColor(vision.ConvertMode.COLOR_RGB2GRAY)]
def grey(): return Recipe(48, plain, to_grey)
def floats(): return Recipe(48, lambda size: [*plain(size), vision.ToTensor()], plain)
def fails(): return Recipe(48, lambda size: [vision.Resize((size, size))], plain)
def unscaled(): return Recipe(48, plain, plain, mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))
def half(): return Recipe(48, plain, plain, mean=(10.0, 20.0, 30.0))
def sideless(): return Recipe("48", plain, plain)
def listed(): return plain(48)
def asking(size): return right()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ownrecipes.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "ownrecipes", raising=False)
    return tmp_path


def picture(width: int, height: int, border: int) -> Any:
    """Green with a red border of so many pixels, as the bytes of a PNG."""
    image = Image.new("RGB", (width, height), (200, 0, 0))
    image.paste((0, 200, 0), (border, border, width - border, height - border))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return np.frombuffer(buffer.getvalue(), np.uint8)


def apply(transforms: list[Any], image: Any, times: int = 1) -> list[Any]:
    rows = ds.NumpySlicesDataset([image] * times, ["image"]).map(transforms, ["image"])
    return [found for (found,) in rows.create_tuple_iterator(num_epochs=1, output_numpy=True)]


@pytest.mark.parametrize("name", RECIPES)
def test_training_and_evaluation_agree_on_size_mean_and_std(name: str, cpu: InEffect) -> None:
    recipe, mean, std = RECIPES[name], (50.0, 0.0, 0.0), (50.0, 100.0, 100.0)
    flat = picture(96, 64, 0)  # green throughout
    for form in (recipe.train, recipe.evaluate):
        [image] = apply(form(40), flat)
        assert (image.shape, image.dtype) == ((40, 40, 3), np.uint8)
    [seen] = apply(scaled(recipe.evaluate(40), mean, std), flat)
    assert (seen.shape, seen.dtype) == ((3, 40, 40), np.float32)
    np.testing.assert_allclose(seen.mean((1, 2)), [-1, 2, 0], atol=1e-5)
    if name in ("imagenet", "small", "none"):  # the others change colours, that being their point
        [trained] = apply(scaled(recipe.train(40), mean, std), flat)
        np.testing.assert_allclose(trained, seen, atol=1e-5)


@pytest.mark.parametrize(("name", "share"), [*((name, 224 / 256) for name in PHOTO_RECIPES), ("small", 1), ("none", 1)])
def test_evaluation_uses_the_center_crop_of_the_crop_ratio(name: str, share: float, cpu: InEffect) -> None:
    """Of 256 pixels with a border of 16 the middle 224 are without one, and all of it with one."""
    [image] = apply(RECIPES[name].evaluate(224), picture(256, 256, 16))
    assert bool((image[:, 0, 0] > 100).all()) is (share == 1)
    [nearly] = apply(RECIPES[name].evaluate(224), picture(256, 256, 20))
    assert (nearly[:, 0, 0] > 100).all()


@pytest.mark.parametrize("name", ["randaugment", "autoaugment", "trivial"])
def test_augmentation_changes_images_in_many_ways(name: str, cpu: InEffect) -> None:
    plain, augmented = (
        {tuple(np.unique(image.reshape(-1, 3), axis=0)[-1]) for image in apply(RECIPES[one].train(32), flat, 60)}
        for one, flat in (("imagenet", picture(64, 64, 0)), (name, picture(64, 64, 0)))
    )
    assert len(plain) == 1
    assert len(augmented) >= 5


@pytest.mark.parametrize("name", ["randaugment", "trivial"])
def test_rotation_fills_with_grey(name: str, cpu: InEffect) -> None:
    images = apply(RECIPES[name].train(32), picture(64, 64, 0), 200)
    assert sum(bool((image == augment.GREY).all(-1).any()) for image in images) > 5


@pytest.mark.parametrize("operations", [augment.randaugment, augment.trivial])
def test_no_image_is_shifted_out_of_the_frame(operations: Callable[[], list[Any]], cpu: InEffect) -> None:
    image = np.random.default_rng(0).integers(150, 250, (64, 64, 3)).astype(np.uint8)
    augmented = apply(operations(), image, 300)
    assert max(float((one == augment.GREY).all(-1).mean()) for one in augmented) < 0.8
    assert 0.02 < np.mean([np.array_equal(one, image) for one in augmented]) < 0.25


def test_strength_0_does_not_change_an_image(cpu: InEffect) -> None:
    image = np.random.default_rng(0).integers(60, 200, (32, 32, 3)).astype(np.uint8)
    for operation in augment._operations(augment.FullStrength(0.99, 0.5, 135.0, 0.99, 6)):
        np.testing.assert_array_equal(operation(0.0)(image), image)
        assert not np.array_equal(operation(1.0)(image), image)


def test_user_recipe_is_found_in_the_given_directory(own: Path, stripes: Path, cpu: InEffect) -> None:
    config = RunConfig(str(stripes), recipe="ownrecipes:right", batch_size=8, cutmix=1.0)
    plan = plan_run(config, Machine(ascend=False, cores=2), home=own)
    assert plan.pixels == Pixels(48, (10.0, 20.0, 30.0), (50.0,) * 3)
    assert (plan.recipe.mixup, plan.recipe.cutmix) == (0.2, 1.0)
    assert {line.setting: line.asked for line in plan.decisions}["mixup"] == "default"
    try_recipe(config.recipe, plan.recipe, 48)


def test_checkpoint_is_evaluated_with_the_users_recipe(own: Path, stripes: Path, cpu: InEffect) -> None:
    pixels = Pixels(48, (10.0, 20.0, 30.0), (50.0,) * 3)
    meta = Meta(RunConfig("x", recipe="ownrecipes:right"), ("across", "down", "plain"), "", pixels, 1, 1, None)
    checkpoint.save(own / "best.ckpt", find_factory("tiny", own)(num_classes=3), meta)
    asked = RunConfig("", device="CPU", workers=1)
    assert evaluate_checkpoint(own, stripes, "val", asked, lambda lines: None, lambda: None, home=own).rows == 13


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("imgenet", "unknown recipe 'imgenet'; did you mean 'imagenet'"),
        ("norecipes:right", "recipe 'norecipes:right': no module 'norecipes'"),
        ("ownrecipes:missing", "ownrecipes has no function 'missing'"),
        ("ownrecipes:listed", "returned a list, expected a trainer.feed.recipes.Recipe"),
        ("ownrecipes:asking", "cannot be called without arguments"),
        ("ownrecipes:unscaled", r"mean is \(0.5, 0.5, 0.5\), expected three numbers .* on the scale 0..255"),
        ("ownrecipes:half", "sets only one of mean and std"),
        ("ownrecipes:sideless", "image_size is '48'"),
    ],
)
def test_invalid_user_recipe_is_rejected(name: str, sentence: str, own: Path) -> None:
    with pytest.raises(TrainerError, match=sentence):
        find_recipe(name, own)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("grey", r"evaluate\(48\) returns uint8 of shape \(48, 48\), expected uint8 of shape \(48, 48, 3\)"),
        ("floats", r"train\(48\) returns float32 of shape \(3, 48, 48\)"),
        ("fails", r"train\(48\) fails on a grey JPEG: map operation: \[Resize\] failed"),
    ],
)
def test_user_recipe_with_wrong_images_is_rejected(name: str, sentence: str, own: Path, cpu: InEffect) -> None:
    with pytest.raises(TrainerError, match=sentence):
        try_recipe(f"ownrecipes:{name}", find_recipe(f"ownrecipes:{name}", own), 48)


def test_recipes_own_mixing_reaches_the_batches(stripes: Path, cpu: InEffect) -> None:
    recipe = Recipe(32, RECIPES["none"].train, RECIPES["none"].evaluate, mixup=0.5)
    pixels = Pixels(32, (100.0,) * 3, (30.0,) * 3)
    batches = pipeline.train_batches(stripes, load_dataset(stripes), recipe, pixels, 8, cpu)
    assert next(iter(batches.create_tuple_iterator(num_epochs=1, output_numpy=True)))[1].shape == (8, 3)
