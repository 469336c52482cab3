"""What both programs have in common: the shape of an error, colour, width, completion."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def program(name: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    code = f"from {name}.cli.commands import main\nmain({'prog_name=' + repr(name) if name == 'dataprep' else ''})"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, timeout=60, check=False
    )


def on_a_terminal(name: str, *arguments: str, **environment: str) -> str:
    """What the program writes to stderr when that is a terminal."""
    ours, theirs = pty.openpty()
    given = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    code = f"from {name}.cli.commands import main; main()"
    subprocess.run([sys.executable, "-c", code, *arguments], stderr=theirs, cwd=ROOT, env={**given, **environment})
    os.close(theirs)
    return os.read(ours, 1 << 16).decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("dataprep", ["shard"], "missing argument 'SOURCE'. See"),
        (
            "dataprep",
            ["shard", "a", "b", "--val", "3"],
            "invalid value for '--val': 3.0 is not in the range 0<=x<1. See",
        ),
        ("dataprep", ["shard", "a", "b", "--prov", "off"], "no such option '--prov'"),
        ("dataprep", ["inspct"], "no such command 'inspct'"),
        ("dataprep", ["verify", "nowhere"], "nowhere"),
        ("trainer", ["run"], "missing argument 'DATASET'. See"),
        ("trainer", ["run", "d", "--epochs", "0"], "invalid value for '--epochs': 0 is not in the range x>=1. See"),
        ("trainer", ["rnu"], "no such command 'rnu'"),
        ("trainer", ["run", "nowhere"], "nowhere"),
    ],
)
def test_every_error_is_one_line_in_the_same_form(name: str, arguments: list[str], says: str) -> None:
    done = program(name, *arguments)
    assert done.returncode in (1, 2, 3)
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dataprep", "trainer"])
def test_the_word_error_is_red_on_a_terminal_unless_no_color_is_set(name: str) -> None:
    assert on_a_terminal(name, "nothing").startswith("\x1b[31mError: \x1b[0m")
    assert on_a_terminal(name, "nothing", NO_COLOR="1").startswith("Error: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "offered"),
    [
        ("dataprep", "dataprep ver", "plain,verify"),
        ("dataprep", "dataprep shard --prove ", "plain,decode\nplain,rows\nplain,off"),
        ("trainer", "trainer run --mod", "plain,--model\nplain,--mode"),
        ("trainer", "trainer run --model resnet1", "plain,resnet18\nplain,resnet101\nplain,resnet152"),
        ("trainer", "trainer run --recipe tri", "plain,trivial"),
    ],
)
def test_the_shell_completes_commands_options_and_names(name: str, words: str, offered: str) -> None:
    asked = {f"_{name.upper()}_COMPLETE": "bash_complete", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(words.count(" "))
    code = f"import sys; sys.argv[0] = {name!r}; from {name}.cli.commands import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **asked}, check=False
    )
    assert done.stdout.split() == offered.split()


def test_a_bar_fits_a_narrow_terminal() -> None:
    from trainer.cli.progress import make_progress
    from trainer.training.progress import StepReport

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        progress = make_progress(stream, 50)
        progress.epoch_begin(3, 12, 2000)
        progress.step(StepReport(3, 1234, 0.123456, 123456.7, 0.99))
        progress.bar.refresh()  # type: ignore[attr-defined]
        shown = os.read(ours, 1 << 16).decode()
        progress.bar.close()  # type: ignore[attr-defined]
    os.close(ours)
    lines = shown.replace("\r", "\n").split("\n")
    assert any("epoch 3/12" in line for line in lines)
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize(("program", "command"), [("dataprep", ["shard", "a", "b"]), ("trainer", ["run", "a"])])
def test_a_path_at_the_beginning_of_a_usage_error_keeps_its_case(
    tmp_path: Path, program: str, command: list[str]
) -> None:
    (tmp_path / "Job.toml").write_text("Foo = 1\n")
    done = subprocess.run(
        [sys.executable, "-m", program, *command, "--config", "Job.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.startswith("Error: Job.toml: unknown key 'Foo'")) == (2, True)
