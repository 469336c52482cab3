"""Files of a user's project that Python loads in place of the programs' own modules, or of what they need."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from schemas.process import shadows

ROOT = Path(__file__).parent.parent
SCRIPT = "import sys; del sys.path[0]; sys.argv[0] = {0!r}; import mindspore_dataprep; mindspore_dataprep.{0}()"


def run(program: str, shadows: Path | None, *arguments: str, module_in: Path | None = None) -> tuple[int, str, str]:
    """Run a program as its console script does with `shadows` on PYTHONPATH, or with -m from a folder."""
    path = [str(shadows)] if shadows else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, str(ROOT)])}
    start = ["-m", program] if module_in else ["-c", SCRIPT.format(program)]
    done = subprocess.run(
        [sys.executable, *start, *arguments], capture_output=True, text=True, env=env, cwd=module_in or "/"
    )
    return done.returncode, done.stdout, done.stderr


def put(folder: Path, name: str, text: str = "") -> Path:
    path = folder / name / "__init__.py" if "." not in name else folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path if "." in name else path.parent


@pytest.mark.slow
@pytest.mark.parametrize("program", ["dataprep", "trainer"])
@pytest.mark.parametrize("way", ["PYTHONPATH", "-m"])
@pytest.mark.parametrize(
    "name", ["schemas.py", "schemas", "click.py", "numpy.py", "PIL", "tqdm.py", "mindspore.py", "json.py"]
)
def test_shadowing_file_is_reported_in_one_sentence(tmp_path: Path, program: str, way: str, name: str) -> None:
    path = put(tmp_path, name)
    shadows, folder = (tmp_path, None) if way == "PYTHONPATH" else (None, tmp_path)
    code, out, said = run(program, shadows, "--help", module_in=folder)
    assert (code, out, said.count("\n")) == (1, "", 1)
    assert said.startswith(f"Error: {path} shadows a module: Python loads it as '{path.stem}' instead of ")
    assert said.endswith("PYTHONPATH\n" if shadows else "from another folder\n")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["dataprep", "trainer"])
@pytest.mark.parametrize("kind", ["", ".py"])
def test_package_with_the_name_of_the_program_is_reported_by_the_console_script(
    tmp_path: Path, program: str, kind: str
) -> None:
    path = put(tmp_path, program + kind)
    code, out, said = run(program, tmp_path, "--help")
    assert (code, out) == (1, "")
    assert said.startswith(f"Error: {path} shadows a module: Python loads it as '{program}'")


@pytest.mark.slow
@pytest.mark.parametrize(("program", "name"), [("dataprep", "trainer"), ("trainer", "dataprep"), ("dataprep", "test")])
def test_file_that_shadows_an_unneeded_module_is_accepted(tmp_path: Path, program: str, name: str) -> None:
    put(tmp_path, name)
    assert run(program, tmp_path, "--version")[0] == 0
    assert run(program, None, "--version", module_in=tmp_path)[0] == 0


def test_a_file_that_fails_while_it_is_loaded_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "json.py", "from . import mine\n")
    code, _, said = run("dataprep", tmp_path, "--help")
    assert (code, said.startswith(f"Error: {path} shadows a module")) == (1, True)


@pytest.mark.slow
def test_file_that_shadows_a_module_of_mindspore_is_named_if_the_import_fails(tmp_path: Path) -> None:
    path = put(tmp_path, "dill.py", "from . import mine\n")
    (tmp_path / "set").mkdir()
    code, _, said = run("trainer", tmp_path, "predict", "run", str(tmp_path / "set"))
    assert (code, said.splitlines()) == (1, [said.rstrip("\n")])
    assert said.startswith(f"Error: {path} shadows a module: Python loads it as 'dill'")


def test_a_copy_of_a_package_on_the_path_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "click").symlink_to(Path(click.__file__).parent)
    assert run("dataprep", tmp_path, "--version")[0] == 0


def test_own_error_is_not_attributed_to_a_script_or_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("click", "my_model.py"):  # the first is a console script without an ending
        with pytest.raises(ValueError, match="ours") as error:
            exec(compile("raise ValueError('ours')", str(tmp_path / name), "exec"))
        assert shadows.cause(error.value) is None
    with pytest.raises(ValueError, match="ours") as error:
        exec(compile("raise ValueError('ours')", str(tmp_path / "json.py"), "exec"))
    assert f"{tmp_path / 'json.py'} shadows a module" in str(shadows.cause(error.value))
