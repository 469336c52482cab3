"""What a command takes away: a sealed set or a job that can go on stays until what replaces it is complete."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dataprep import pipeline
from dataprep.build.kill_points import STEPS, SWAP_STEPS
from dataprep.build.lock import Lock
from dataprep.cli.commands import main
from dataprep.errors import DataprepError, TryLater
from dataprep.job import swap
from dataprep.job.existing_set import Existing
from dataprep.options import Budget
from dataprep.tools.inspect import open_set
from dataprep.tools.verify import verify
from schemas.dataset import load_dataset
from schemas.errors import ContractError
from tests.dataprep.examples import QUICK, Files, Silent, digests, picture, shard

FIXED = ("--engine", "serial", "--workers", "1", "--prove", "off", "--quiet")
NEW = ("--num-shards", "2", "--seed", "5", "--overwrite")
LENIENT = ("--max-rejects", "9", "--max-class-loss", "100%")
# A job in one process that neither excludes nor proves comes to these.
REACHED = [step for step in STEPS if step not in ("exclude.saved",)]


def killed(step: str, source: Path, out: Path, *options: str) -> None:
    words = [sys.executable, "-m", "dataprep", "shard", str(source), str(out), *FIXED, *options]
    done = subprocess.run(words, env={**os.environ, "DATAPREP_KILL_AT": step}, capture_output=True)
    assert done.returncode == -signal.SIGKILL


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def reader_sees(out: Path) -> str | None:
    """The identity that a reader finds in `out`; None where it is told to let `verify` finish the change."""
    if not (out / ".work" / "swap.json").exists():
        return load_dataset(out).digest
    with pytest.raises(ContractError, match=re.escape(f"run 'dataprep verify {out}'")):
        load_dataset(out)
    return None


def replaced_after_a_kill(step: str, old: str, new: Path, source: Path, out: Path, *options: str) -> None:
    """Kill a command at `step`, read what is left, and run it again."""
    identity = load_dataset(new).digest
    killed(step, source, out, *options)
    assert reader_sees(out) in {old, identity, None}
    assert run("verify", out).exit_code == 0
    assert load_dataset(out).digest in {old, identity}
    done = run("shard", source, out, *FIXED, *options)
    assert done.exit_code == 0, done.stderr
    assert digests(out) == digests(new)
    left = {path.name for path in (out / ".work").iterdir()}
    assert left <= {"lock", "plan.sqlite", "receipts", "run.jsonl", "fixed.json", "excluded.json"}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """The set that NEW makes of `raw`, undisturbed; made once for the module."""
    out = tmp_path_factory.mktemp("calm") / "out"

    def make(raw: Path) -> Path:
        if not out.is_dir():
            shard(raw, out, num_shards=2, seed=5)
        return out

    return make


def bad_class(raw: Path) -> list[str]:
    (raw.parent / "classes.txt").write_text("cat\n")
    return ["--classes", str(raw.parent / "classes.txt")]


def bad_schema(raw: Path) -> list[str]:
    return ["--schema", "nosuch"]


def bad_images(raw: Path) -> list[str]:
    for name in ("1.jpg", "2.jpg"):
        (raw / "cat" / name).write_bytes(b"<html>")
    return []


def bad_target(raw: Path) -> list[str]:
    return ["--quarantine", str(raw / "inside")]


@pytest.mark.parametrize(("spoil", "code"), [(bad_class, 1), (bad_schema, 2), (bad_images, 3), (bad_target, 1)])
def test_overwrite_that_fails_leaves_the_sealed_dataset(
    raw: Path, sealed: Path, spoil: Callable[[Path], list[str]], code: int
) -> None:
    before = digests(sealed)
    done = run("shard", raw, sealed, *FIXED, *NEW, *spoil(raw))
    assert (done.exit_code, f"(OUT {sealed} is still the old sealed dataset)" in done.stderr) == (code, True), (
        done.stderr
    )
    assert digests(sealed) == before
    assert verify(sealed).problems == []


@pytest.mark.parametrize("make", [False, True])
def test_an_overwrite_of_a_source_that_is_missing_or_empty_leaves_the_sealed_set(
    raw: Path, sealed: Path, tmp_path: Path, make: bool
) -> None:
    before = digests(sealed)
    if make:
        (tmp_path / "typo").mkdir()
    assert run("shard", tmp_path / "typo", sealed, *FIXED, *NEW).exit_code in (1, 2)
    raw.rename(tmp_path / "away")
    if make:
        raw.mkdir()
    with pytest.raises(TryLater, match=r"is unavailable: .* is still the old sealed dataset"):
        pipeline.shard(raw, sealed, QUICK, Silent(), Existing(overwrite=True))
    assert digests(sealed) == before
    assert not (sealed / ".work" / "next").exists()


@pytest.mark.slow
@pytest.mark.parametrize("step", [*REACHED, *SWAP_STEPS])
def test_an_overwrite_killed_at_any_step_leaves_the_old_or_the_new_set(
    raw: Path, sealed: Path, calm: Callable[[Path], Path], step: str
) -> None:
    new = calm(raw)
    (sealed / "notes.txt").write_text("mine")
    killed_digest = load_dataset(sealed).digest
    (new / "notes.txt").write_text("mine")
    replaced_after_a_kill(step, killed_digest, new, raw, sealed, *NEW)


@pytest.mark.slow
def test_killed_overwrite_resumes_and_a_plain_command_reports_it(raw: Path, sealed: Path) -> None:
    killed("commit.receipt", raw, sealed, *NEW)
    plain = run("shard", raw, sealed, *FIXED, "--num-shards", 3)
    assert "already complete" in plain.stdout
    assert f"{sealed}/.work/next has an unfinished --overwrite" in plain.stdout
    other = run("shard", raw, sealed, *FIXED, "--num-shards", 3, "--seed", 9, "--overwrite")
    assert (other.exit_code, "--overwrite --restart" in other.stderr) == (1, True), other.stderr
    done = json.loads(run("shard", raw, sealed, *FIXED, *NEW, "--json").stdout)
    assert (done["shards"] - done["built"], done["unfinished"], done["out"]) == (1, None, str(sealed))


@pytest.mark.slow
def test_killed_overwrite_starts_again_with_restart(raw: Path, sealed: Path) -> None:
    killed("commit.receipt", raw, sealed, *NEW)
    done = run("shard", raw, sealed, *FIXED, "--num-shards", 3, "--seed", 9, "--overwrite", "--restart")
    assert done.exit_code == 0, done.stderr
    assert dict(load_dataset(sealed).plan["options"])["seed"] == 9
    assert verify(sealed).problems == []


def test_a_copied_set_without_its_work_folder_is_overwritten(raw: Path, sealed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, data in digests(sealed).items():
        (copy / name).write_bytes(data)
    assert run("shard", raw, copy, *FIXED, *NEW).exit_code == 0
    assert verify(copy).problems == []
    (copy / "train.mindrecord7").write_bytes(b"mine")
    refused = run("shard", raw, copy, *FIXED, *NEW)
    assert (refused.exit_code, (copy / "train.mindrecord7").read_bytes()) == (0, b"mine"), refused.stderr


def test_out_may_be_a_link_or_relative_and_keeps_its_mode(
    raw: Path, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed.chmod(0o750)
    (tmp_path / "link").symlink_to(sealed)
    monkeypatch.chdir(tmp_path)
    assert run("shard", "raw", "link", *FIXED, *NEW).exit_code == 0
    assert (tmp_path / "link").is_symlink()
    assert sealed.stat().st_mode & 0o777 == 0o750
    assert verify(sealed).problems == []


def test_files_of_a_new_set_get_the_group_of_the_folder(raw: Path, sealed: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files to a group it is not in")
    os.chown(sealed, -1, 12345)
    assert run("shard", raw, sealed, *FIXED, *NEW).exit_code == 0
    assert {path.stat().st_gid for path in sealed.iterdir() if path.is_file()} == {12345}


def test_job_that_changes_a_dataset_locks_it(raw: Path, sealed: Path) -> None:
    with Lock(sealed / ".work" / "lock"):
        assert run("shard", raw, sealed, *FIXED, *NEW).exit_code == 75


def test_disk_failure_while_files_are_moved_is_reported_and_any_command_completes_the_moves(
    raw: Path, sealed: Path, calm: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = calm(raw)
    (new / "notes.txt").unlink(missing_ok=True)

    def fail(path: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(swap, "rename_into", fail)
    failed = run("shard", raw, sealed, *FIXED, *NEW)
    assert (failed.exit_code, "is being replaced by the new dataset" in failed.stderr) == (75, True), failed.stderr
    for command in (["inspect", sealed], ["report", sealed], ["verify", sealed], ["shard", raw, sealed, *FIXED]):
        assert run(*command).exit_code == 75
    with pytest.raises(ContractError, match="is being replaced"):
        open_set(sealed, None)
    monkeypatch.undo()
    assert run("inspect", sealed).exit_code == 0
    assert digests(sealed) == digests(new)


def test_journal_with_paths_outside_its_folder_is_rejected(sealed: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    for journal in ({"from": "next", "removes": ["../mine"], "moves": []}, {"from": "..", "removes": [], "moves": []}):
        (sealed / ".work" / "swap.json").write_text(json.dumps(journal))
        assert run("verify", sealed).exit_code == 1
    assert (tmp_path / "mine").exists()


# An unfinished job.


@pytest.fixture
def begun(raw: Path, tmp_path: Path) -> Path:
    """A job that was killed after its first shard."""
    killed("commit.receipt", raw, tmp_path / "out", "--num-shards", "3")
    return tmp_path / "out"


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [bad_class, bad_schema, bad_target])
def test_restart_that_is_rejected_leaves_the_unfinished_job(
    raw: Path, begun: Path, spoil: Callable[[Path], list[str]]
) -> None:
    before = digests(begun)
    assert run("shard", raw, begun, *FIXED, "--seed", 1, "--restart", *spoil(raw)).exit_code in (1, 2)
    assert digests(begun) == before
    went_on = json.loads(run("shard", raw, begun, *FIXED, "--num-shards", 3, "--json").stdout)
    assert went_on["built"] == went_on["shards"] - 1


@pytest.mark.slow
def test_a_restart_without_source_leaves_the_unfinished_job(raw: Path, begun: Path, tmp_path: Path) -> None:
    before = digests(begun)
    raw.rename(tmp_path / "away")
    with pytest.raises(TryLater, match="is unavailable"):
        pipeline.shard(raw, begun, QUICK, Silent(), Existing(restart=True))
    with pytest.raises(DataprepError, match="does not exist"):
        pipeline.shard(tmp_path / "typo", begun, QUICK, Silent(), Existing(restart=True))
    assert digests(begun) == before


@pytest.mark.slow
@pytest.mark.parametrize("step", ["plan.written", "plan.saved", *(s for s in SWAP_STEPS), "commit.data"])
def test_restart_killed_at_any_step_resumes(raw: Path, begun: Path, calm: Callable[[Path], Path], step: str) -> None:
    new = calm(raw)
    (new / "notes.txt").unlink(missing_ok=True)
    options = ("--num-shards", "2", "--seed", "5", "--restart")
    killed(step, raw, begun, *options)
    again = run("shard", raw, begun, *FIXED, *options)
    assert again.exit_code == 0, again.stderr
    assert digests(begun) == digests(new)
    assert {path.name for path in (begun / ".work").iterdir()} == {"lock", "plan.sqlite", "receipts", "run.jsonl"}


@pytest.mark.slow
def test_plain_command_after_a_restart_without_a_plan_resumes_the_old_job(raw: Path, begun: Path) -> None:
    killed("plan.written", raw, begun, "--num-shards", "2", "--restart")
    went_on = json.loads(run("shard", raw, begun, *FIXED, "--num-shards", 3, "--json").stdout)
    assert went_on["built"] == went_on["shards"] - 1
    assert {path.name for path in (begun / ".work").iterdir()} == {"lock", "plan.sqlite", "receipts", "run.jsonl"}


# --retry-rejects.


@pytest.fixture
def flawed(files: Files, tmp_path: Path) -> tuple[Path, Path]:
    """SOURCE with two bad files, of which one is good now, and the set that was sealed before."""
    contents = {f"{'ab'[n % 2]}/{n:02d}.jpg": picture(n) for n in range(24)}
    source = files({**contents, "a/bad.jpg": b"<html>", "b/bad.jpg": b""})
    out = tmp_path / "out"
    shard(source, out, num_shards=4, max_rejects=Budget(9, False), max_class_loss=Budget(1.0, True))
    (source / "a" / "bad.jpg").write_bytes(picture(99))
    return source, out


RETRY = ("--num-shards", "4", *LENIENT, "--retry-rejects")


def test_retry_that_is_rejected_leaves_the_sealed_dataset(flawed: tuple[Path, Path]) -> None:
    source, out = flawed
    before = digests(out)
    (source / "a" / "new.jpg").write_bytes(picture(50))
    done = run("shard", source, out, *FIXED, *RETRY)
    assert (done.exit_code, "'a/new.jpg' is new" in done.stderr, "still the old sealed dataset" in done.stderr) == (
        1,
        True,
        True,
    )
    assert digests(out) == before
    assert {path.name for path in (out / ".work").iterdir()} == {"lock", "plan.sqlite", "receipts", "run.jsonl"}


def test_a_retry_over_budget_leaves_the_sealed_set(flawed: tuple[Path, Path]) -> None:
    source, out = flawed
    before = digests(out)
    assert run("shard", source, out, *FIXED, "--num-shards", 4, "--retry-rejects", "--max-rejects", 0).exit_code == 3
    assert digests(out) == before


@pytest.mark.slow
@pytest.mark.parametrize("step", [*REACHED, *SWAP_STEPS])
def test_a_retry_killed_at_any_step_leaves_the_old_or_the_new_set(
    flawed: tuple[Path, Path], tmp_path: Path, step: str
) -> None:
    source, out = flawed
    calm = tmp_path / "calm"
    subprocess.run(["cp", "-a", str(out), str(calm)], check=True)
    assert run("shard", source, calm, *FIXED, *RETRY).exit_code == 0
    assert load_dataset(calm).rejected == {"empty": 1}
    replaced_after_a_kill(step, load_dataset(out).digest, calm, source, out, *RETRY)


@pytest.mark.slow
def test_killed_retry_uses_files_that_changed_since(flawed: tuple[Path, Path]) -> None:
    source, out = flawed
    killed("commit.receipt", source, out, *RETRY)
    (source / "b" / "bad.jpg").write_bytes(picture(98))
    done = json.loads(run("shard", source, out, *FIXED, *RETRY, "--json").stdout)
    assert (done["written"], done["rejected"]) == (26, {})
    assert verify(out).problems == []


def test_retry_without_rejects_reports_new_files_in_source(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    (raw / "cat" / "new.jpg").write_bytes(picture(50))
    done = run("shard", raw, sealed, *FIXED, "--num-shards", 3, "--retry-rejects")
    assert (done.exit_code, "'cat/new.jpg' is new; use --overwrite" in done.stderr) == (1, True), done.stderr
    assert digests(sealed) == before


def test_retry_without_rejects_changes_nothing(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    summary = pipeline.shard(raw, sealed, replace(QUICK, num_shards=3), Silent(), Existing(retry_rejects=True))
    assert (summary.already_complete, digests(sealed)) == (True, before)


# Files that a user has named.


def test_output_that_cannot_be_written_completely_leaves_the_previous_file(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "there").mkdir()
    earlier = tmp_path / "there" / "earlier.jpg"
    earlier.write_bytes(b"earlier")
    monkeypatch.setattr(os, "fsync", fail)
    done = run("inspect", sealed, "--row", 0, "--save", earlier)
    assert (done.exit_code, earlier.read_bytes(), list(earlier.parent.iterdir())) == (1, b"earlier", [earlier])


def test_output_is_written_through_a_link_and_into_a_pipe(sealed: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"earlier")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert run("inspect", sealed, "--row", 0, "--save", tmp_path / "link").exit_code == 0
    assert (tmp_path / "link").is_symlink()
    image = (tmp_path / "file").read_bytes()
    assert image != b"earlier"
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE) as reader:
        assert run("inspect", sealed, "--row", 0, "--save", tmp_path / "pipe").exit_code == 0
        assert reader.communicate()[0] == image


def test_user_file_with_the_suffix_part_is_kept(raw: Path, sealed: Path) -> None:
    (sealed / "download.part").write_text("mine")
    (sealed / "dataset.json").unlink()
    (sealed / "train.mindrecord0.part").write_text("left over")
    shard(raw, sealed, num_shards=3)
    assert {path.name for path in sealed.glob("*.part")} == {"download.part"}


def test_names_that_a_killed_repair_moved_aside_are_restored(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    (sealed / "train.mindrecord0").rename(sealed / "train.mindrecord0.aside")
    assert run("repair", sealed).exit_code == 0
    assert digests(sealed) == before


def other_set(files: Files, names: list[str]) -> None:
    files({f"../other/{name}": picture(number) for number, name in enumerate(names)})


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["cow/1.jpg", "cow/2.jpg", *(f"cow/{n}.jpg" for n in range(3, 40))], "none of these classes"),
        (["cat/1.jpg", "cat/2.jpg", "cat/3.jpg"], "fewer than 10% of these rows"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_overwrite_from_an_unrelated_source_is_rejected(
    files: Files, raw: Path, sealed: Path, tmp_path: Path, names: list[str], why: str, again: bool
) -> None:
    other_set(files, names)
    before = digests(sealed)
    if again:
        killed("plan.saved", raw, sealed, *NEW)
    words = ("shard", tmp_path / "other", sealed, *FIXED, *NEW, *(["--restart"] if again else []))
    done = run(*words)
    assert done.exit_code == 3, done.stderr
    assert "was sealed with 40 rows in 2 classes ('cat', 'dog')" in done.stderr
    assert why in done.stderr
    assert f"mv {sealed} {sealed}.old" in done.stderr
    assert (digests(sealed), verify(sealed).problems) == (before, [])
    assert again or not (sealed / ".work" / "next").exists()
    sealed.rename(f"{sealed}.old")
    assert run("shard", tmp_path / "other", sealed, *FIXED, "--overwrite").exit_code == 0


def test_overwrite_that_shares_a_class_and_a_tenth_of_the_rows_is_accepted(
    files: Files, sealed: Path, tmp_path: Path
) -> None:
    other_set(files, ["cat/1.jpg", "cat/2.jpg", "cow/3.jpg", "cow/4.jpg"])
    assert run("shard", tmp_path / "other", sealed, *FIXED, "--overwrite").exit_code == 0
    assert load_dataset(sealed).classes == ("cat", "cow")


def test_overwrite_that_ignores_every_file_is_rejected_and_not_resumed(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    for pattern, why in (("*", "--ignore matches 2 folders"), ("*.*", "no image was found")):
        done = run("shard", raw, sealed, *FIXED, *NEW, "--ignore", pattern)
        assert (done.exit_code, why in done.stderr) == (1, True), done.stderr
    assert digests(sealed) == before
    assert not (sealed / ".work" / "next").exists()


def test_source_that_became_ambiguous_is_not_reported_as_unavailable(raw: Path, sealed: Path) -> None:
    (raw / "train").mkdir()
    done = run("shard", raw, sealed, *FIXED, *NEW)
    assert (done.exit_code, "is ambiguous" in done.stderr) == (1, True), done.stderr
