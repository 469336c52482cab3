"""Names are read as UTF-8 in every locale: one identity on all machines.

Python in the locale C, with its UTF-8 mode forbidden, stands for all others: it decodes names as ASCII.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dataprep import items
from dataprep.options import Budget
from tests.dataprep.examples import Files, digests, picture, shard

OTHER = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LIBRARY = """
import sys
assert sys.getfilesystemencoding() == "ascii"
from dataclasses import replace
from pathlib import Path
from tests.dataprep.examples import Silent, QUICK
from dataprep import pipeline
from dataprep.options import Budget
options = replace(QUICK, max_rejects=Budget(1.0, True), quarantine=Path(sys.argv[3]))
print(pipeline.shard(Path(sys.argv[1]), Path(sys.argv[2]), options, Silent()).digest)
"""


@pytest.fixture
def source(files: Files) -> Path:
    """Classes whose order by other encodings is another, and a refused file that is not UTF-8."""
    root = files({f"{name}/{number}.jpg": picture(number) for number in range(4) for name in ("café", "猫", "犬")})
    with open(os.fsencode(root / "猫") + b"/\xff.jpg", "wb") as file:
        file.write(b"text")
    return root.rename(root.with_name("数据源"))


def python(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, *arguments]
    return subprocess.run(command, env={**os.environ, **OTHER}, capture_output=True, timeout=120, check=False)


@pytest.mark.slow
def test_the_library_makes_the_same_set_in_another_locale(source: Path, tmp_path: Path) -> None:
    here = shard(source, tmp_path / "here", max_rejects=Budget(1.0, True))
    done = python("-c", LIBRARY, str(source), str(tmp_path / "there"), str(tmp_path / "quarantine"))
    assert done.stdout.decode().strip() == here.digest, done.stderr.decode()
    assert digests(tmp_path / "there") == digests(tmp_path / "here")
    assert os.path.exists(os.fsencode(tmp_path / "quarantine" / "not_an_image" / "猫") + b"/\xff.jpg")


@pytest.mark.slow
def test_program_resumes_a_job_of_another_locale(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "数据"
    here = shard(source, out, max_rejects=Budget(1.0, True), ignore=("犬",))
    (out / "dataset.json").unlink()
    options = ["--ignore", "犬", "--prove", "off", "--workers", "1", "--max-rejects", "100%"]
    done = python("-m", "dataprep", "shard", str(source), str(out), *options)
    assert done.returncode == 0, done.stderr.decode()
    assert here.digest in done.stdout.decode()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dataprep", "trainer"])
def test_argument_that_is_not_valid_text_is_shown_without_a_crash(name: str) -> None:
    command = ["inspect"] if name == "dataprep" else ["run"]
    done = python("-m", name, *command, os.fsdecode("猫".encode() + b"\xff"))
    assert done.returncode in (1, 2, 3)
    assert done.stderr.startswith(b"Error: ")
    assert done.stderr.count(b"\n") == 1


def test_a_path_is_the_same_text_whatever_the_locale() -> None:
    name = os.fsdecode("猫/é".encode() + b"\xff")
    assert items.portable_path(name) == "猫/é\udcff"
    assert items.source_path("/猫", "a%FF") == "/猫/a".encode() + b"\xff"
