from typing import Any

import numpy as np
import pytest
from mindspore.dataset import transforms, vision

from trainer.doctor.python_ops import python_ops
from trainer.feed.augment import randaugment
from trainer.feed.recipes import RECIPES

pytestmark = pytest.mark.slow


def mirrored(image: Any) -> Any:
    return np.fliplr(image)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([vision.Decode(), vision.RandomHorizontalFlip()], ()),
        ([vision.Decode(), mirrored], ("mirrored",)),
        ([vision.RandomErasing()], ("RandomErasing",)),
        # A PIL image makes of all that follows, though it has a C++ form, a Python transform.
        ([vision.Decode(to_pil=True), vision.CenterCrop(8), vision.ToTensor()], ("Decode", "CenterCrop")),
        ([vision.Decode(to_pil=True), vision.ToTensor(), vision.HWC2CHW()], ("Decode",)),
        ([transforms.RandomApply([vision.RandomErasing()], 0.5)], ("RandomErasing",)),
        ([transforms.RandomChoice([vision.CutOut(4), mirrored])], ("mirrored",)),
        ([mirrored, mirrored], ("mirrored",)),
        (randaugment(), ()),
    ],
)
def test_python_transforms_are_recognised_by_type(given: list[Any], names: tuple[str, ...]) -> None:
    assert python_ops(given) == names


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_that_come_with_the_trainer_have_none(name: str) -> None:
    assert python_ops(RECIPES[name].train(32)) == ()
