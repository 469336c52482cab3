import subprocess
import sys
from pathlib import Path

CODE = (
    "import os, sys\nfrom schemas.process.working_directory import directory_problem, leave_unusable_directory\n"
    "os.chdir(sys.argv[1])\nif sys.argv[2] == 'gone': os.rmdir(sys.argv[1])\n"
    "leave_unusable_directory()\nprint(directory_problem('raw'), '|', directory_problem('/raw'), '|', os.getcwd())\n"
)


def run(folder: Path, how: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", CODE, folder, how], capture_output=True, text=True, check=True)
    return [part.strip() for part in done.stdout.split("|")]


def test_nothing_changes_in_a_usable_directory(tmp_path: Path) -> None:
    assert run(tmp_path, "usable") == ["None", "None", str(tmp_path)]


def test_a_relative_path_is_rejected_with_the_cause_where_the_directory_is_gone(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    relative, absolute, now = run(tmp_path / "work", "gone")
    assert relative == (
        "'raw' is relative, but the working directory cannot be entered (No such file or directory); "
        "give an absolute path"
    )
    assert (absolute, now) == ("None", "/")
