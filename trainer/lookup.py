"""Finds a function of the user's by `module:function`, for models and recipes alike."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.errors import WrongUsage


def is_own(name: str) -> bool:
    """Whether `name` has the form `module:function`. Imports nothing."""
    module, colon, function = name.partition(":")
    return bool(colon and module and function.isidentifier())


def find_function(kind: str, name: str, folder: Path) -> Callable[..., Any]:
    """The function `module:function` stands for; the module is looked for in `folder` too. `kind` says what it makes.

    Raises TrainerError when there is no such module or function; an error inside the module keeps its traceback.
    """
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not error.name or not (module_name + ".").startswith(error.name + "."):
            raise
        raise WrongUsage(f"{kind} '{name}': no module '{error.name}' is installed or lies in {folder}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise WrongUsage(f"{kind} '{name}': {module_name} has no function '{function_name}'")
    return function  # type: ignore[no-any-return]
