"""Entry point of the console script `trainer` and of `python -m trainer`."""

import importlib.util
import os
import sys
from types import ModuleType


def main() -> None:
    """Run the program. If a file of the user shadows a module of the program, print the path of the file and exit."""
    shadows = _load_shadows()
    _exit_if(shadows.obstacle("schemas", "trainer"))
    try:
        from trainer.cli.commands import main as run

        _exit_if(shadows.loaded())
        run()
    except Exception as error:
        _exit_if(shadows.cause(error))
        raise


def _load_shadows() -> ModuleType:
    """Load schemas/process/shadows.py by its path, because `schemas` itself may be shadowed."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = importlib.util.spec_from_file_location("_shadows", os.path.join(home, "schemas", "process", "shadows.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _exit_if(problem: str | None) -> None:
    if problem is None:
        return
    sys.stderr.write(f"Error: {problem}\n")
    sys.stderr.flush()
    os._exit(1)  # a partly loaded MindSpore would abort at a normal exit


if __name__ == "__main__":
    main()
