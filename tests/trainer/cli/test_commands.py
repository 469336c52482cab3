import errno
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from schemas.errors import ContractError
from trainer.cli import commands
from trainer.cli.options import NOT_IN_A_FILE
from trainer.cli.program import run_program
from trainer.errors import Busy, Interrupted, TrainerError, WrongUsage
from trainer.runs.result import TrainResult


def program(*arguments: object, cwd: Path | None = None, check_imports: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program as a process; `check_imports` is code to run before it ends."""
    run = "from trainer.cli.commands import main\nmain()"
    code = f"import sys, atexit\natexit.register(lambda: exec({check_imports!r}))\n{run}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)


NO_HEAVY = "print('HEAVY', [m for m in ('mindspore', 'numpy', 'tqdm', 'PIL', 'dataprep') if m in sys.modules])"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["eval", "--help"], ["doctor", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = program(*arguments, check_imports=NO_HEAVY)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage:")
    assert done.stdout.endswith("HEAVY []\n")


def test_dry_run_plans_for_ascend_on_any_machine_without_mindspore(stripes: Path, tmp_path: Path) -> None:
    done = program("run", stripes, "--device", "Ascend", "--dry-run", cwd=tmp_path, check_imports=NO_HEAVY)
    assert done.returncode == 0, done.stderr
    assert "mindspore.set_device(device_target='Ascend')" in done.stdout
    assert "mindspore.amp.auto_mixed_precision(amp_level='O2')" in done.stdout
    assert "mindspore.train.Model.train(dataset_sink_mode=True, sink_size=1)" in done.stdout
    assert done.stdout.endswith("HEAVY []\n")
    assert list(tmp_path.iterdir()) == []


def test_dry_run_as_json_holds_configuration_decisions_and_calls(stripes: Path) -> None:
    arguments = ["run", str(stripes), "--device", "CPU", "--workers", "999", "--dry-run", "--json"]
    done = CliRunner().invoke(commands.cli, arguments)
    shown = json.loads(done.stdout)
    assert shown["config"]["workers"] == 999
    assert next(d for d in shown["decisions"] if d["setting"] == "workers")["asked"] == "999"
    assert "mindspore.set_device(device_target='CPU')" in shown["calls"]


@pytest.mark.parametrize(("skipped", "code"), [(0, 0), (5, 0), (10, 1)])
def test_run_that_skipped_most_updates_gives_its_result_and_exit_code_1_each_time(
    skipped: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "so many were skipped" if skipped else None
    result = TrainResult("r", "r/best.ckpt", 1, 0.5, 0.5, 1, 10, 1.0, None, "d", None, None, 10, skipped, warning)
    monkeypatch.setattr("trainer.runs.resume.finished", lambda config: result)
    monkeypatch.setattr("sys.argv", ["trainer", "run", "d"])
    assert run_program(commands.cli) == code
    told = capsys.readouterr()
    assert told.out == "val accuracy 50.00% (epoch 1 of 1, 1 s): r/best.ckpt\n"
    warnings = told.err.splitlines()[1:]  # the first line says that the run is complete
    assert warnings == {0: [], 5: ["Warning: so many were skipped"], 10: ["Error: so many were skipped"]}[skipped]


def test_dry_run_plans_for_the_cores_and_memory_that_are_given(stripes: Path) -> None:
    asked = ["run", str(stripes), "--device", "Ascend", "--dry-run"]
    told = CliRunner().invoke(commands.cli, [*asked, "--plan-cores", "48", "--plan-memory", "64GiB"]).stdout
    assert "planned for 48 cores and 64.0 GiB of free memory\n" in told
    assert "48 decode" in told
    own = CliRunner().invoke(commands.cli, asked).stdout
    assert "(this machine's); set --plan-cores and --plan-memory for another machine\n" in own
    small = json.loads(CliRunner().invoke(commands.cli, [*asked, "--plan-memory", "64MiB", "--json"]).stdout)
    assert small["planned_for"]["memory_bytes"] == 64 << 20
    assert "lowered" in next(one["why"] for one in small["decisions"] if one["setting"] == "prefetch")


def test_dry_run_for_this_machine_mentions_no_other_machine(stripes: Path) -> None:
    assert (
        "planned for"
        not in CliRunner().invoke(commands.cli, ["run", str(stripes), "--device", "CPU", "--dry-run"]).stdout
    )


@pytest.mark.parametrize("option", [["--plan-cores", "4"], ["--plan-memory", "4GB"]])
def test_a_run_cannot_be_planned_for_another_machine(option: list[str]) -> None:
    refused = CliRunner().invoke(commands.cli, ["run", "d", *option])
    assert isinstance(refused.exception, WrongUsage)
    assert str(refused.exception).startswith(f"{option[0]} is for --dry-run")


@pytest.mark.parametrize("size", ["", "0", "0GiB", "-1G", "4X", "GiB", "1.5.2G", "1e9"])
def test_size_of_another_form_is_wrong_usage(size: str) -> None:
    refused = CliRunner().invoke(commands.cli, ["run", "d", "--dry-run", "--plan-memory", size])
    assert refused.exit_code == 2
    assert "is not a size; write it as 64GiB, 64GB or a number of bytes" in refused.output


def settings_of(*arguments: str) -> dict[str, object]:
    return dict(commands.run.make_context("run", list(arguments)).params)


def test_config_file_overrides_a_default_and_a_flag_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('epochs = 3\nbatch-size = 8\namp_level = "O2"\nsink = false\n')
    settings = settings_of("d", "--epochs", "5", "--config", str(file))
    assert (settings["epochs"], settings["batch_size"], settings["amp_level"]) == (5, 8, "O2")
    assert settings["sink"] is False
    assert settings["model"] == "tiny"


def test_a_repeated_flag_replaces_the_list_of_a_config_file_and_says_so(tmp_path: Path, stripes: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('freeze = ["stem", "layer1"]\nmonitor = ["LossMonitor"]\n')
    words = ["run", str(stripes), "--dry-run", "--device", "CPU", "--config", str(file)]
    done = CliRunner().invoke(commands.cli, [*words, "--freeze", "layer2", "--json"])
    shown = json.loads(done.stdout)["config"]
    assert (shown["freeze"], shown["monitor"]) == (["layer2"], ["LossMonitor"])
    assert done.stderr.startswith(f"Warning: --freeze on the command line replaces the 2 values of 'freeze' in {file}")
    assert "replaces" not in CliRunner().invoke(commands.cli, words).stderr


def test_config_file_of_a_run_works_for_the_doctor_too(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('recipe = "imagenet"\npatience = 3\nlog-every = 10\n')
    settings = commands.doctor.make_context("doctor", ["d", "--config", str(file)]).params
    assert settings["recipe"] == "imagenet"
    assert "patience" not in settings


@pytest.mark.parametrize(("key", "near"), [("epoch", "epochs"), ("batch_sise", "batch-size")])
def test_unknown_key_in_config_file_is_reported_with_the_file_and_a_similar_key(
    key: str, near: str, tmp_path: Path
) -> None:
    file = tmp_path / "Run.toml"
    file.write_text(f"{key} = 3\n")
    with pytest.raises(click.UsageError) as refused:
        settings_of("d", "--config", str(file))
    assert str(refused.value) == f"{file}: unknown key '{key}'; did you mean '{near}'?"


@pytest.mark.parametrize("key", ["xyz", "json", "as_json", "dry-run", "verbose", "config", "dataset"])
def test_unknown_key_without_a_similar_key_is_reported_with_the_valid_keys(key: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(f"{key} = true\n")
    with pytest.raises(click.UsageError, match=f"run.toml: unknown key '{key}'; ") as refused:
        settings_of("d", "--config", str(file))
    if key == "xyz":
        known = str(refused.value).partition("; known: ")[2].split(", ")
        assert {"epochs", "batch-size", "log-every", "out"} <= set(known)
        assert not [name for name in known if "_" in name or name in NOT_IN_A_FILE]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('epochs = "many"', "'epochs': 'many' is not a valid integer"),
        ("label-smoothing = 1", "'label-smoothing': 1.0 is not in the range 0<=x<1."),
        ('sink = "maybe"', "'sink': 'maybe' is not a valid boolean"),
        ('keep_fp32 = "stem"', "'keep_fp32' takes a list, as in keep_fp32 = [\"stem\"]"),
    ],
)
def test_value_of_the_wrong_type_in_config_file_names_file_and_key(line: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(line)
    with pytest.raises(click.UsageError) as refused:
        settings_of("d", "--config", str(file))
    assert str(refused.value).startswith(f"{file}: {sentence}")


@pytest.mark.parametrize("text", ["epochs = ", None])
def test_config_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "run.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(click.UsageError, match=f"{file} (cannot be read|is not)"):
        settings_of("d", "--config", str(file))


def test_config_without_a_toml_reader_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(click.UsageError, match="pip install tomli"):
        settings_of("d", "--config", str(tmp_path / "run.toml"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TrainerError("x"), 1),
        (WrongUsage("x"), 2),
        (Busy("x"), 75),
        (ContractError("x"), 3),
        (Interrupted(2, None), 130),
        (Interrupted(15, Path("c")), 143),
    ],
)
def test_exit_code_shows_the_kind_of_failure(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(standalone_mode: bool) -> None:
        raise error

    monkeypatch.setattr(commands.cli, "main", fail)
    with pytest.raises(SystemExit) as left:
        commands.main()
    assert left.value.code == code
    assert capsys.readouterr().err == f"Error: {error}\n"


def test_full_disk_gives_one_sentence_and_exit_code_75(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(standalone_mode: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/runs/last.ckpt")

    monkeypatch.setattr(commands.cli, "main", fail)
    with pytest.raises(SystemExit) as left:
        commands.main()
    assert left.value.code == 75
    said = "Error: the disk is full (/runs/last.ckpt); free some space, then run the same command again\n"
    assert capsys.readouterr().err == said


def test_wrong_usage_exits_with_2(tmp_path: Path) -> None:
    done = program("run", tmp_path, "--epochs", "0")
    assert done.returncode == 2
    assert "Error: invalid value for '--epochs'" in done.stderr


def test_unsealed_folder_exits_with_3_and_one_line(tmp_path: Path) -> None:
    done = program("run", tmp_path, "--device", "CPU", "--dry-run")
    assert done.returncode == 3
    what = "contains no dataset.json; create a dataset with 'dataprep shard SOURCE OUT'"
    assert done.stderr == f"Error: {tmp_path} {what}\n"


def test_unknown_model_exits_with_2_and_suggests_a_name(stripes: Path) -> None:
    done = program("run", stripes, "--device", "CPU", "--model", "resnet81", "--dry-run")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: unknown model 'resnet81'; did you mean 'resnet18'?")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "gone"],
        ["run", "gone", "--dry-run"],
        ["run", "SET", "--init", "gone", "--dry-run"],
        ["run", "SET", "--config", "gone"],
        ["run", "SET", "--resume", "--out", "gone"],
        ["eval", "gone", "SET"],
        ["eval", "CHECKPOINT", "gone"],
        ["predict", "gone", "SET"],
        ["predict", "CHECKPOINT", "gone"],
        ["export", "gone"],
        ["report", "gone"],
        ["doctor", "gone"],
        ["bench", "gone"],
        ["bench", "SET", "--against", "gone"],
    ],
    ids=" ".join,
)
def test_missing_path_is_wrong_usage_in_every_command(
    arguments: list[str], stripes: Path, untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = {"SET": str(stripes), "CHECKPOINT": str(untrained)}
    done = CliRunner().invoke(commands.cli, [paths.get(each, each) for each in arguments])
    error = done.exception
    code = error.code if isinstance(error, SystemExit) else getattr(error, "exit_code", None)
    assert code == 2, (error, done.output)
    assert "gone" in f"{error}{done.output}"
