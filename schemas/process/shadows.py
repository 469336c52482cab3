"""Finds a file of the user's that Python takes for a part of this program, or for a package that it needs.

Such files lie in the working directory or in a folder of PYTHONPATH, which Python searches before its own. So this
module imports nothing but what Python itself has loaded before it, and is loaded by its path, not by its name.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which may be in the way
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# Packages that are needed, and a part of each that a file or folder of the same name does not have.
_PARTS = {"click": "core", "numpy": "version", "PIL": "Image", "tqdm": "std", "mindspore": "common"}
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def obstacle(*packages: str) -> str | None:
    """Return a sentence that names what would be loaded in place of these packages of ours or of those they need."""
    for name in packages:
        found = _found(name)
        if found and not os.path.samefile(os.path.join(_HOME, name), os.path.dirname(found)):
            return _sentence(found, name, os.path.join(_HOME, name))
    for name, part in _PARTS.items():
        found = _found(name)
        if found and not _has(os.path.dirname(found), os.path.basename(found), part):
            return _sentence(found, name, f"the package {name}")
    return None


def loaded() -> str | None:
    """Return a sentence that names a file which was loaded in place of a module of Python's own."""
    return _replaced((name, path) for name, path in _loaded() if name in sys.stdlib_module_names)


def cause(error: BaseException) -> str | None:
    """Return a sentence that names the file which was loaded in place of a module of Python's or of a package, and so
    may be the cause of `error`; None if there is no such file.
    """
    return _replaced((name, path) for name, path in [*_left_by(error), *_loaded()] if name not in _PARTS)


def _loaded() -> list[tuple[str, str | None]]:
    return [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]


def _replaced(modules: Iterable[tuple[str, str | None]]) -> str | None:
    for name, path in modules:
        folder = _user_folder(path) if path and "." not in name else None
        if folder and (other := _found(name, without=folder)):
            return _sentence(str(path), name, other)
    return None


def _sentence(found: str, name: str, instead: str) -> str:
    path = os.path.dirname(found) if os.path.basename(found).startswith("__init__.") else found
    named = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    folder = os.path.dirname(os.path.abspath(path))
    way = "take that folder out of PYTHONPATH" if folder in named else "start this program from another folder"
    return f"{path} is in the way: Python loads it as '{name}', in place of {instead}; rename it, or {way}"


def _found(name: str, without: str | None = None) -> str | None:
    """The file that Python would load as `name`, if any; `without` leaves out a folder of the path."""
    for finder in sys.meta_path:
        path = None
        if without is not None:
            if getattr(finder, "__name__", "") != "PathFinder":
                continue
            path = [entry for entry in sys.path if os.path.abspath(entry) != without]
        look: Any = getattr(finder, "find_spec", None)
        spec = look(name, path) if look else None
        if spec is not None:
            return spec.origin if spec.origin and os.path.isfile(spec.origin) else None
    return None


def _has(folder: str, file: str, part: str) -> bool:
    """Return True if the module `file` in `folder` is a package with this part."""
    return file.startswith("__init__.") and any(name.split(".")[0] == part for name in os.listdir(folder))


def _left_by(error: BaseException | None) -> Iterator[tuple[str, str]]:
    """Names and files of the modules that `error` came through: one that fails while it is loaded is not kept."""
    while error is not None:
        trace = error.__traceback__
        files = [getattr(error, "filename", None)] if isinstance(error, SyntaxError) else []
        while trace is not None:
            files.append(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        for file in files:
            if isinstance(file, str):
                stem = os.path.splitext(os.path.basename(file))[0]
                yield (os.path.basename(os.path.dirname(file)) if stem == "__init__" else stem), file
        error = error.__cause__ or error.__context__


def _user_folder(path: str) -> str | None:
    """The folder of sys.path in which a module lies as `path`, if it is neither Python's, nor of packages, nor ours."""
    if not path.endswith((".py", ".so")):  # a console script, whose folder is on the path too
        return None
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.basename(path).startswith("__init__."):
        folder = os.path.dirname(folder)
    standard = os.path.dirname(os.__file__)
    if folder == _HOME or (folder + os.sep).startswith(standard + os.sep):
        return None
    if folder not in map(os.path.abspath, sys.path):
        return None
    installed = any(part in ("site-packages", "dist-packages") for part in folder.split(os.sep))
    installed |= any(name.endswith((".dist-info", ".egg-info")) for name in os.listdir(folder))
    return None if installed else folder
