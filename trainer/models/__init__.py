"""The models by name; any other is `module:factory`, a function of the user's that takes num_classes=N."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.errors import TrainerError, nearest

# name -> where its factory is. Imported at first use, since a model imports MindSpore.
MODELS = {
    "tiny": "trainer.models.tiny:tiny",
    "resnet18": "trainer.models.resnet:resnet18",
    "resnet50": "trainer.models.resnet:resnet50",
}


def check_model_name(name: str) -> None:
    """Raise TrainerError unless `name` is in the table or has the form `module:factory`. Imports nothing."""
    module, colon, factory = name.partition(":")
    if name not in MODELS and not (colon and module and factory.isidentifier()):
        raise TrainerError(f"unknown model '{name}'; {nearest(name, MODELS)}, or your own as module:factory")


def find_factory(name: str, folder: Path) -> Callable[..., Any]:
    """The function that makes the model `name`; a user's module is looked for in `folder` too.

    Raises TrainerError when there is no such module or function; an error inside the module keeps its traceback.
    """
    check_model_name(name)
    module_name, _, factory_name = MODELS.get(name, name).partition(":")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not error.name or not (module_name + ".").startswith(error.name + "."):
            raise
        raise TrainerError(f"model '{name}': no module '{error.name}' is installed or lies in {folder}") from None
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        raise TrainerError(f"model '{name}': {module_name} has no function '{factory_name}'")
    return factory  # type: ignore[no-any-return]
