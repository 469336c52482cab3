import errno
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dataprep.cli.commands import SEALED, main
from dataprep.cli.commands import shard as shard_command
from dataprep.cli.options import BudgetType, Size
from dataprep.options import ShardOptions
from tests.dataprep.examples import run


def shard(raw: Path, out: Path, *options: Any) -> Result:
    return run("shard", raw, out, "--engine", "serial", "--prove", "off", *options)


def test_every_option_is_a_field_and_has_its_default() -> None:
    offered = shard_command.make_context("shard", ["source", "out"]).params
    for name in ("source", "out", "dry_run", "overwrite", "restart", "retry_rejects", "as_json", "verbose", "quiet"):
        del offered[name]
    assert offered == {field.name: field.default for field in fields(ShardOptions)}


def test_shard_prints_the_counts_of_files(raw: Path, tmp_path: Path) -> None:
    result = shard(raw, tmp_path / "out")
    assert result.exit_code == 0
    assert "found     42 = 40 written + 0 rejected + 2 ignored" in result.stdout
    assert "splits    train 36, val 4; 2 classes" in result.stdout


def test_json_is_one_object_on_stdout(raw: Path, tmp_path: Path) -> None:
    result = shard(raw, tmp_path / "out", "--json")
    assert json.loads(result.stdout)["splits"] == {"train": 36, "val": 4}


def test_a_dry_run_shows_the_plan_and_writes_nothing(raw: Path, tmp_path: Path) -> None:
    (raw / "cat" / "bad.jpg").write_bytes(b"")
    result = shard(raw, tmp_path / "out", "--dry-run", "--num-shards", 3)
    assert not (tmp_path / "out").exists()
    for text in (
        "layout 'classes'",
        "cat",
        "dog",
        "rows",
        "shards",
        "1 of a sample of 41 images",
        "are free",
        "nothing was written",
    ):
        assert text in result.stdout
    planned = json.loads(shard(raw, tmp_path / "out", "--dry-run", "--num-shards", 3, "--json").stdout)
    assert planned["splits"]["train"]["class_rows"] == [19, 18]
    assert planned["splits"]["train"]["shards"] == 3
    assert planned["sample_rejected"] == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--max-rejects", "0"], 3, "Error: 1 of 41 files was rejected (1 empty)"),
        (["--schema", "nope"], 2, "Error: 'nope' is neither a schema"),
        (["--val", "0.6", "--test", "0.5"], 2, "leave no rows for train"),
        (["--max-rejects", "1.5"], 2, "not a number of files or a percentage"),
        (["--shard-size", "big"], 2, "is not a size"),
    ],
)
def test_user_error_gives_one_sentence_and_an_exit_code(
    raw: Path, tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    (raw / "cat" / "bad.jpg").write_bytes(b"")
    result = shard(raw, tmp_path / "out", *options)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == ""


def test_locked_target_gives_exit_code_75(raw: Path, tmp_path: Path) -> None:
    from dataprep.build.workdir import Workdir

    with Workdir(tmp_path / "out"):
        result = shard(raw, tmp_path / "out")
    assert result.exit_code == 75


def test_overwrite_removes_only_the_old_dataset(raw: Path, sealed: Path) -> None:
    (sealed / "notes.txt").write_text("mine")
    result = shard(raw, sealed, "--overwrite", "--num-shards", 2, "--seed", 5)
    assert result.exit_code == 0
    names = {path.name for path in sealed.iterdir()}
    assert "notes.txt" in names
    assert "train.mindrecord1" in names
    assert "train.mindrecord2" not in names


def test_retry_rejects_excludes_overwrite_and_restart(raw: Path, sealed: Path) -> None:
    for flag in ("--overwrite", "--restart"):
        refused = shard(raw, sealed, "--retry-rejects", flag)
        assert (refused.exit_code, f"--retry-rejects or {flag}, not both" in refused.stderr) == (2, True)


def test_restart_plans_again_with_other_options(raw: Path, sealed: Path) -> None:
    (sealed / "dataset.json").unlink()
    assert shard(raw, sealed, "--seed", 1).exit_code == 1
    assert shard(raw, sealed, "--seed", 1, "--restart").exit_code == 0
    assert run("verify", sealed).exit_code == 0


def test_restart_does_not_change_a_sealed_dataset(raw: Path, sealed: Path) -> None:
    before = (sealed / "dataset.json").read_bytes()
    result = shard(raw, sealed, "--seed", 1, "--restart")
    assert (result.exit_code, "use --overwrite to replace it" in result.stderr) == (1, True)
    assert (sealed / "dataset.json").read_bytes() == before
    assert "--overwrite to replace the sealed dataset" in shard(raw, sealed, "--num-shards", 3, "--seed", 1).stderr


def test_overwrite_with_an_edited_manifest_says_how_to_continue(raw: Path, sealed: Path) -> None:
    (sealed / "dataset.json").write_text("{}")
    assert "yourself" in shard(raw, sealed, "--overwrite").stderr


def test_config_file_sets_defaults_and_a_flag_overrides_them(raw: Path, tmp_path: Path) -> None:
    config = tmp_path / "job.toml"
    config.write_text('val = 0.5\nnum-shards = 2\nmax-rejects = "3"\nignore = ["1*"]\n')
    result = shard(raw, tmp_path / "out", "--config", config, "--num-shards", 4, "--json")
    options = json.loads((tmp_path / "out" / "dataset.json").read_text())["plan"]["options"]
    assert (options["val"], options["num_shards"], options["ignore"]) == (0.5, 4, ["1*"])
    assert json.loads(result.stdout)["ignored"]["--ignore 1*"] == 10


def test_a_repeated_flag_replaces_the_list_of_a_config_file_and_says_so(raw: Path, tmp_path: Path) -> None:
    config = tmp_path / "job.toml"
    config.write_text('ignore = ["1*", "2*", "*.bak"]\n')
    result = shard(raw, tmp_path / "out", "--dry-run", "--json", "--config", config, "--ignore", "3*")
    assert json.loads(result.stdout)["ignored"] == {"--ignore 3*": 10, "thumbs.db": 1, "hidden": 1}
    assert f"--ignore on the command line replaces the 3 values of 'ignore' in {config}" in result.stderr
    assert "--ignore '1*' --ignore '2*' --ignore '*.bak'" in result.stderr
    assert "replaces" not in shard(raw, tmp_path / "out", "--dry-run", "--config", config).stderr
    assert "replaces" not in shard(raw, tmp_path / "out", "--dry-run", "--ignore", "3*").stderr


def test_unknown_key_in_a_config_file_suggests_a_similar_key(raw: Path, tmp_path: Path) -> None:
    config = tmp_path / "job.toml"
    config.write_text("num_shard = 2\n")
    result = shard(raw, tmp_path / "out", "--config", config)
    assert result.exit_code == 2
    assert "unknown key 'num_shard'; did you mean 'num-shards'?" in result.stderr


def test_a_file_of_classes_gives_the_order(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("dog\ncat\n")
    shard(raw, tmp_path / "out", "--classes", tmp_path / "names.txt")
    assert json.loads((tmp_path / "out" / "dataset.json").read_text())["classes"] == ["dog", "cat"]


def test_verify_exits_with_1_and_names_the_damage(sealed: Path) -> None:
    assert run("verify", sealed).exit_code == 0
    (sealed / "val.mindrecord0").unlink()
    result = run("verify", sealed)
    assert (result.exit_code, "val.mindrecord0 is missing" in result.stdout) == (1, True)


def test_inspect_shows_a_record_and_saves_its_image(sealed: Path, raw: Path, tmp_path: Path) -> None:
    result = run("inspect", sealed, "--key", "cat/01.png", "--save", tmp_path / "x.png")
    assert "label: 0" in result.stdout
    assert (tmp_path / "x.png").read_bytes() == (raw / "cat" / "01.png").read_bytes()
    assert json.loads(run("inspect", sealed, "--row", 0, "--json").stdout)["image"]["bytes"] > 0


def test_file_names_cannot_move_the_cursor(raw: Path, tmp_path: Path) -> None:
    (raw / "cat" / "\x1b[2J.jpg").write_bytes(b"")
    result = shard(raw, tmp_path / "out", "-v", "--max-rejects", 1)
    assert "\x1b" not in result.stderr
    assert "rejected cat/\\x1b[2J.jpg: empty" in result.stderr


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_command_has_help_that_ends_with_an_example(command: str) -> None:
    text = main.commands[command].help or ""
    assert f"Example: dataprep {command} " in text
    assert all(isinstance(p, click.Argument) or p.help for p in main.commands[command].params)  # type: ignore[attr-defined]


def test_help_imports_neither_mindspore_nor_numpy_nor_pillow() -> None:
    code = (
        "import sys\nfrom dataprep.cli.commands import main\n"
        "for args in (['--help'], ['shard', '--help']):\n"
        "    try: main(args)\n    except SystemExit: pass\n"
        "sys.exit(bool({'mindspore', 'numpy', 'PIL'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 512 << 20), ("2GB", 2 * 10**9), ("1000", 1000), ("1.5 kib", 1536), ("3g", 3 * 10**9)]
)
def test_sizes(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size


def test_budgets() -> None:
    budget = BudgetType().convert("1.5%", None, None)
    assert (budget.allows(3, 200), budget.allows(4, 200), str(budget)) == (True, False, "1.5%")
    assert str(BudgetType().convert("7", None, None)) == "7"
    assert str(BudgetType().convert("1%", None, None)) == "1%"


def test_invalid_source_is_rejected_before_out_is_created(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source in ("empty", "nowhere"):
        assert shard(tmp_path / source, tmp_path / "out").exit_code != 0
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("closed", "code"), [("2>&-", 0), (">&-", 0), ("<&-", 0), (">/dev/full", 1), ("2>/dev/full", 0)]
)
def test_job_is_sealed_with_closed_or_full_streams(raw: Path, tmp_path: Path, closed: str, code: int) -> None:
    command = ["-m", "dataprep", "shard", str(raw), str(tmp_path / "out"), "--prove", "off", "--workers", "1"]
    script = ["sh", "-c", f'"$0" "$@" {closed}', sys.executable]
    done = subprocess.run([*script, *command], capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "out" / "dataset.json").is_file()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("val = 2026-01-01", "'val': datetime.date(2026, 1, 1) is not a valid value"),
        ("val = nan", "--val nan is not a finite number"),
        ("deadline = inf", "--deadline inf is not a finite number"),
        ('ignore = "x"', "'ignore' takes a list, as in ignore = [\"x\"]"),
    ],
)
def test_invalid_option_value_is_rejected_in_one_sentence(raw: Path, tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "job.toml").write_text(line)
    done = shard(raw, tmp_path / "out", "--config", tmp_path / "job.toml")
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "out").exists()


def test_class_names_may_end_in_a_space_and_the_file_may_be_utf_16(raw: Path, tmp_path: Path) -> None:
    (raw / "cat").rename(raw / "cat ")
    (tmp_path / "names.txt").write_bytes("cat \ndog\n".encode("utf-16"))
    done = shard(raw, tmp_path / "out", "--classes", tmp_path / "names.txt")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out" / "dataset.json").read_text())["classes"] == ["cat ", "dog"]


def test_more_shards_than_images_are_rejected(raw: Path, tmp_path: Path) -> None:
    done = shard(raw, tmp_path / "out", "--num-shards", "100000")
    assert done.exit_code == 1
    assert "--num-shards 100000 is too large for 36 images" in done.output


@pytest.mark.parametrize(
    "words",
    [
        ("shard", "{}", "out"),
        ("shard", "{}", "out", "--dry-run"),
        ("inspect", "{}"),
        ("verify", "{}"),
        ("verify", "{}", "--decode"),
        ("repair", "{}"),
        ("repair", "{}", "--salvage", "new"),
        ("report", "{}"),
        ("shard", ".", "out", "--classes", "{}"),
        ("shard", ".", "out", "--config", "{}"),
    ],
    ids=" ".join,
)
def test_missing_path_gives_the_same_usage_error_in_every_command(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = str(tmp_path / "typo")
    done = CliRunner().invoke(main, [word.format(missing) for word in words], prog_name="dataprep")
    assert done.exit_code == 2, done.stderr
    pattern = rf"Error: invalid value for '\S+': (Path|Directory|File) '{missing}' does not exist\. "
    assert re.fullmatch(rf"{pattern}See 'dataprep {words[0]} --help'\n", done.stderr), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_path_on_an_unavailable_disk_is_not_reported_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = os.stat

    def fails(path: object, *args: object, **more: object) -> os.stat_result:
        if str(path).endswith("share"):
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return looked_up(path, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", fails)
    assert SEALED.convert(str(tmp_path / "share"), None, None) == tmp_path / "share"
    with pytest.raises(click.BadParameter, match="does not exist"):
        SEALED.convert(str(tmp_path / "typo"), None, None)
