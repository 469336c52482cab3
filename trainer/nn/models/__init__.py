"""Table of the built-in models by name.

`mindcv:NAME` is a model of the package mindcv. Any other name is `module:factory`, a user's function that takes
num_classes=N and optionally image_size=S.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.config import find_function, is_own
from trainer.errors import WrongUsage, nearest

# name -> module:factory. The modules are imported at first use, because models import MindSpore.
MODELS = {
    "tiny": "trainer.nn.models.tiny:tiny",
    "resnet18": "trainer.nn.models.resnet:resnet18",
    "resnet34": "trainer.nn.models.resnet:resnet34",
    "resnet50": "trainer.nn.models.resnet:resnet50",
    "resnet101": "trainer.nn.models.resnet:resnet101",
    "resnet152": "trainer.nn.models.resnet:resnet152",
    "mobilenet_v3": "trainer.nn.models.mobilenet:mobilenet_v3",
    "convnext_tiny": "trainer.nn.models.convnext:convnext_tiny",
    "vit_small": "trainer.nn.models.vit:vit_small",
}
MINDCV = "mindcv:"


def check_model_name(name: str) -> None:
    """Raise WrongUsage unless `name` is built in or has the form `module:factory`. The model is not imported."""
    if name not in MODELS and not is_own(name):
        raise WrongUsage(f"unknown model '{name}'; {nearest(name, MODELS)}, mindcv:NAME, or your own module:factory")


def find_factory(name: str, folder: Path) -> Callable[..., Any]:
    """Return the factory of the model `name`; a user's module is also searched for in `folder`.

    Raises TrainerError if the module or function does not exist. An error inside the module keeps its traceback.
    """
    check_model_name(name)
    if name.startswith(MINDCV):
        from trainer.nn.models.zoo import mindcv_factory

        return mindcv_factory(name.removeprefix(MINDCV))
    if name in MODELS:
        return find_function("model", MODELS[name], folder)
    return find_function("model", name, folder)
