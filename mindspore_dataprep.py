"""Where the console scripts start: under a name that no project has, so that one which has a `trainer` is noticed."""

import importlib.util
import os
import sys


def dataprep() -> None:
    """The console script `dataprep`."""
    _check("dataprep")
    from dataprep.__main__ import main

    main()


def trainer() -> None:
    """The console script `trainer`."""
    _check("trainer")
    from trainer.__main__ import main

    main()


def _check(package: str) -> None:
    """Exit with a sentence if Python would load another package of this name than the one beside this file."""
    spec = importlib.util.find_spec(package)
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), package)
    places = [*(spec.submodule_search_locations or []), spec.origin] if spec else []
    folder = next((place for place in places if place), "nothing")
    if not (os.path.exists(folder) and os.path.samefile(folder, own)):
        sys.exit(
            f"Error: {folder} is in the way: Python loads it as '{package}', in place of {own}; rename it, or take its "
            "folder out of PYTHONPATH"
        )
