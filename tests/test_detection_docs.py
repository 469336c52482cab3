"""The worked examples of docs/detection.md run as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import ROOT

pytestmark = pytest.mark.slow
TEXT = (ROOT / "docs" / "detection.md").read_text()
# Fewer epochs than printed: enough to see that the network learns.
EPOCHS = {"range(24)": "range(8)", "range(6)": "range(4)"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, each named by the sentence before it."""
    for name, code in re.findall(
        r"`(\w+\.py)`[^`]*:\n\n```python\n(.*?)```", TEXT.replace("`module:factory`", ""), re.DOTALL
    ):
        for printed, shorter in EPOCHS.items():
            code = code.replace(printed, shorter)
        (tmp_path / name).write_text(code)
    return tmp_path


def run(folder: Path, section: str) -> str:
    """Run the commands of a section; return what they print."""
    commands = re.search(rf"## {section}.*?```bash\n(.*?)```", TEXT, re.DOTALL)
    assert commands
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    script = "set -e\n" + commands[1].replace("dataprep ", f"{sys.executable} -m dataprep ").replace(
        "\npython ", f"\n{sys.executable} "
    )
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_detector_finds_objects(folder: Path) -> None:
    found = re.search(r"(\d+) of (\d+) objects found", run(folder, "A detector"))
    assert found
    assert int(found[1]) > 0.4 * int(found[2])


def test_the_segmenter_finds_discs_and_squares(folder: Path) -> None:
    shares = re.search(r"disc and square: ([\d.]+), ([\d.]+), ([\d.]+)", run(folder, "A segmenter"))
    assert shares
    assert min(map(float, shares.groups())) > 0.6
