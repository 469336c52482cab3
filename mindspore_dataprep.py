"""Entry points of the console scripts, under a unique name, so that another package named `trainer` is detected."""

import importlib.util
import os
import sys


def dataprep() -> None:
    """Run the console script `dataprep`."""
    _check("dataprep")
    from dataprep.__main__ import main

    main()


def trainer() -> None:
    """Run the console script `trainer`."""
    _check("trainer")
    from trainer.__main__ import main

    main()


def _check(package: str) -> None:
    """Exit with a message if Python would load another package of this name than the one beside this file."""
    spec = importlib.util.find_spec(package)
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), package)
    paths = [*(spec.submodule_search_locations or []), spec.origin] if spec else []
    folder = next((path for path in paths if path), "nothing")
    if not (os.path.exists(folder) and os.path.samefile(folder, own)):
        sys.exit(
            f"Error: {folder} shadows a module: Python loads it as '{package}' instead of {own}; rename it, or remove "
            "its folder from PYTHONPATH"
        )
