"""Every command of the README is run here, in its order, in a fresh folder."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.tools.sample import draw_sample

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent


def blocks(language: str, text: str = README) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if line]
PROGRAMS = [line for line in COMMANDS if line.split()[0] in ("dataprep", "trainer")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader would stand: some photos, and a job file."""
    place = tmp_path_factory.mktemp("readme")
    draw_sample(place / "photos", images=600)
    (place / "job.toml").write_text(next(blocks("toml")))
    return place


def run(command: list[str], folder: Path) -> str:
    env = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_readmes_commands_run_one_after_the_other(folder: Path) -> None:
    assert len(PROGRAMS) >= 8
    for line in PROGRAMS:
        assert run(shlex.split(line), folder) or "--out" in line, line


@pytest.mark.slow
def test_the_readmes_program_reads_every_row(folder: Path) -> None:
    (program,) = blocks("python")
    said = run([sys.executable, "-c", program], folder)
    rows = re.search(r'"train": \{\s+"rows": (\d+)', (folder / "dataset" / "dataset.json").read_text())
    assert rows is not None
    assert said == f"{rows[1]} rows\n"


@pytest.mark.slow
def test_the_tutorials_pipeline_gives_a_batch(folder: Path) -> None:
    (program,) = blocks("python", (ROOT / "docs" / "tutorial.md").read_text())
    said = run([sys.executable, "-c", program.replace("set/train", "dataset/train")], folder)
    assert said == "(32, 3, 224, 224) int32\n"


@pytest.mark.slow
def test_the_demo_ends_above_95_percent(tmp_path: Path) -> None:
    assert "bash scripts/demo.sh" in COMMANDS
    said = run(["bash", str(ROOT / "scripts" / "demo.sh"), str(tmp_path / "demo")], tmp_path)
    accuracy = re.search(r"val accuracy ([\d.]+)%", said)
    assert accuracy is not None
    assert float(accuracy[1]) >= 95
    assert "found     1,207 = 1,203 written + 3 rejected + 1 ignored" in said


def test_ci_calls_the_readmes_test_command() -> None:
    assert "bash scripts/test.sh" in COMMANDS
    assert "scripts/test.sh" in (ROOT / ".ci" / "run").read_text()


def test_every_other_command_is_an_install_from_here() -> None:
    rest = [line for line in COMMANDS if line not in PROGRAMS and not line.startswith("bash scripts/")]
    assert rest == ["pip install ."]
