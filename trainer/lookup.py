"""Finds a function of the user's by `module:function`, for models and recipes alike."""

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.errors import WrongUsage


def is_own(name: str) -> bool:
    """Whether `name` has the form `module:function`. Imports nothing."""
    module, colon, function = name.partition(":")
    return bool(colon and module and function.isidentifier())


def is_installed(package: str) -> bool:
    """Whether the package could be imported. Imports nothing."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return bool(package) and importlib.util.find_spec(package) is not None


def module_is_there(kind: str, name: str, folder: Path) -> None:
    """Raise TrainerError when the module of `module:function`, or the package around it, is not to be found.

    Imports nothing, so it does not tell whether the function is in it. The rest is as in find_function.
    """
    package = name.partition(":")[0].partition(".")[0]
    here = importlib.machinery.PathFinder.find_spec(package, [str(folder)])
    if here is None and not is_installed(package):
        raise WrongUsage(_no_module(kind, name, package, folder))


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
        raise WrongUsage(_no_module(kind, name, error.name, folder)) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise WrongUsage(f"{kind} '{name}': {module_name} has no function '{function_name}'")
    return function  # type: ignore[no-any-return]


def _no_module(kind: str, name: str, module: str, folder: Path) -> str:
    return f"{kind} '{name}': no module '{module}' is installed or lies in {folder}"
