"""Find a user's file that shadows this program, a package that it needs, or the standard library.

Such files are in the working directory or a folder of PYTHONPATH, which Python searches first. Therefore this
module imports only modules that Python has already loaded, and is itself loaded by path, not by name.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which may be shadowed
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# Required packages, each with a module that distinguishes it from a user's file or folder of the same name.
_PARTS = {"click": "core", "numpy": "version", "PIL": "Image", "tqdm": "std", "mindspore": "common"}
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def obstacle(*packages: str) -> str | None:
    """Return a sentence that names a file that shadows one of `packages` or of their dependencies; else None."""
    for name in packages:
        path = _origin(name)
        if path and not os.path.samefile(os.path.join(_HOME, name), os.path.dirname(path)):
            return _sentence(path, name, os.path.join(_HOME, name))
    for name, part in _PARTS.items():
        path = _origin(name)
        if path and not _has(os.path.dirname(path), os.path.basename(path), part):
            return _sentence(path, name, f"the package {name}")
    return None


def loaded() -> str | None:
    """Return a sentence that names a loaded file that shadows a module of the standard library; else None."""
    return _replaced((name, path) for name, path in _loaded() if name in sys.stdlib_module_names)


def cause(error: BaseException) -> str | None:
    """Return a sentence that names a file that may have caused `error` by shadowing a module; else None."""
    return _replaced((name, path) for name, path in [*_traceback_modules(error), *_loaded()] if name not in _PARTS)


def _loaded() -> list[tuple[str, str | None]]:
    return [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]


def _replaced(modules: Iterable[tuple[str, str | None]]) -> str | None:
    for name, path in modules:
        folder = _user_folder(path) if path and "." not in name else None
        if folder and (other := _origin(name, without=folder)):
            return _sentence(str(path), name, other)
    return None


def _sentence(path: str, name: str, instead: str) -> str:
    path = os.path.dirname(path) if os.path.basename(path).startswith("__init__.") else path
    listed = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    folder = os.path.dirname(os.path.abspath(path))
    remedy = "remove that folder from PYTHONPATH" if folder in listed else "start this program from another folder"
    return f"{path} shadows a module: Python loads it as '{name}' instead of {instead}; rename it, or {remedy}"


def _origin(name: str, without: str | None = None) -> str | None:
    """Return the file that Python would load as `name`; `without` is a folder of sys.path to skip."""
    for finder in sys.meta_path:
        path = None
        if without is not None:
            if getattr(finder, "__name__", "") != "PathFinder":
                continue
            path = [entry for entry in sys.path if os.path.abspath(entry) != without]
        find_spec: Any = getattr(finder, "find_spec", None)
        spec = find_spec(name, path) if find_spec else None
        if spec is not None:
            return spec.origin if spec.origin and os.path.isfile(spec.origin) else None
    return None


def _has(folder: str, file: str, part: str) -> bool:
    """Return True if the module `file` in `folder` is a package with the module `part`."""
    return file.startswith("__init__.") and any(name.split(".")[0] == part for name in os.listdir(folder))


def _traceback_modules(error: BaseException | None) -> Iterator[tuple[str, str]]:
    """Yield name and file of each module in the traceback: sys.modules lacks a module that failed to load."""
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
    """Return the folder of sys.path that contains the module `path`; else None (Python, packages, this program)."""
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
