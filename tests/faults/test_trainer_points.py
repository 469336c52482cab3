"""`trainer run` at a few drawn calls to the file system: each fails or is where the process is killed.

The rest of the points are for the program itself, by hand: `python -m tests.faults.trainer_points FOLDER COUNT SEED`.
"""

from pathlib import Path

import pytest

from tests.faults.harness import NoCompiler
from tests.faults.trainer_points import run

pytestmark = pytest.mark.slow


def test_fault_is_reported_and_the_resumed_run_gives_the_weights_of_an_uninterrupted_run(tmp_path: Path) -> None:
    try:
        found = list(run(tmp_path, 3, 20, keep=2))
    except NoCompiler as missing:
        pytest.skip(str(missing))
    assert len(found) == 3
    assert [one for one in found if one.wrong] == []
