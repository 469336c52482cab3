"""Starts `trainer`: the console script, and `python -m trainer`."""

import importlib.util
import os
import sys
from types import ModuleType


def main() -> None:
    """Run the program. A file of the user's that Python loads in place of a part of it is named in a sentence."""
    shadows = _load_shadows()
    _refuse(shadows.obstacle("schemas", "trainer"))
    try:
        from trainer.cli.commands import main as run

        _refuse(shadows.loaded())
        run()
    except Exception as error:
        _refuse(shadows.cause(error))
        raise


def _load_shadows() -> ModuleType:
    """schemas/process/shadows.py by its path: `schemas` may be what is in the way."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = importlib.util.spec_from_file_location("_shadows", os.path.join(home, "schemas", "process", "shadows.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _refuse(why: str | None) -> None:
    if why is None:
        return
    sys.stderr.write(f"Error: {why}\n")
    sys.stderr.flush()
    os._exit(1)  # MindSpore, loaded by half, aborts where Python ends in order


if __name__ == "__main__":
    main()
