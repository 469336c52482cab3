"""A seeded sample of what `python -m tests.faults` tries in full: a call of a command fails, or it is killed there."""

import errno
import os
import random
import sqlite3
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dataprep.build.workdir import Workdir
from dataprep.errors import DataprepError, TryLater
from dataprep.items import ClosedFolder
from dataprep.job import preflight
from dataprep.mindrecord.index import read_index
from dataprep.mindrecord.reader import ShardReader, read_stored
from dataprep.plan.store import Plan
from dataprep.sources.closed import check_temporary
from dataprep.storage import disk
from schemas.storage.files import files_below, listing
from schemas.storage.sqlite_errors import disk_error
from tests.dataprep.examples import shard
from tests.faults.__main__ import FAULTS
from tests.faults.harness import Faults, NoCompiler
from tests.faults.scenes import MODULES, SCENES, Stage
from tests.faults.server import Server

POINTS = {"shard": 12, "overwrite": 6, "retry-rejects": 6, "repair --salvage": 6, "shard, workers": 2, "report": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_no_fault_causes_a_traceback_or_lost_data(name: str, tmp_path: Path) -> None:
    try:
        faults = Faults(tmp_path.resolve())
    except NoCompiler as missing:
        pytest.skip(str(missing))
    choice = random.Random(name)
    with Server(faults.library, MODULES, tmp_path) as server:
        if SCENES[name].alone:
            faults.launch = server.launch
        stage = Stage(SCENES[name], tmp_path.resolve() / "scene", faults)
        tried = 0
        while tried < POINTS.get(name, 3):
            point, fault = choice.choice(stage.points), choice.choice(FAULTS)
            if fault.fits(point):
                ended, wrong = stage.play(point, fault)
                assert not wrong, f"{fault} at {point}: {ended.err}"
                tried += 1


def test_unreadable_folder_does_not_count_as_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.json").touch()
    (tmp_path / "a.json").touch()
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "d").touch()
    assert [path.name for path in listing(tmp_path, "*.json")] == ["a.json", "b.json"]
    assert {path.name for path in files_below(tmp_path)} == {"a.json", "b.json", "d"}

    def deny(path: Any) -> Any:
        raise PermissionError(errno.EACCES, "denied", path)

    monkeypatch.setattr(os, "listdir", deny)
    monkeypatch.setattr(os, "scandir", deny)
    with pytest.raises(PermissionError):
        Workdir(tmp_path).receipts()
    with pytest.raises(PermissionError):
        files_below(tmp_path)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("database or disk is full", errno.ENOSPC),
        ("disk I/O error", errno.EIO),
        ("unable to open database file", errno.EIO),
        ("attempt to write a readonly database", errno.EROFS),
        ("no such table: x", None),
    ],
)
def test_sqlite_disk_error_becomes_an_oserror(text: str, number: int | None) -> None:
    found = disk_error(sqlite3.OperationalError(text), "/x")  # without a code, as Python 3.10 gives it
    assert (found.errno if found else None) == number
    said = disk.explained(sqlite3.OperationalError(text), "/x")
    assert (said is None) == (number is None)


def test_sqlite_error_has_its_code(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "x")
    database.execute("CREATE TABLE t(a)")
    database.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as full:
        database.execute("INSERT INTO t VALUES(zeroblob(100000))")
    found = disk_error(full.value)
    assert found is not None
    assert found.errno == errno.ENOSPC
    database.close()


def test_a_plan_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        Plan.open(tmp_path)
    (tmp_path / "plan").write_bytes(b"no database at all" * 100)
    with pytest.raises(DataprepError, match=r"plan is damaged .*try again"):
        Plan.open(tmp_path / "plan")


def test_interrupted_call_is_repeated() -> None:
    ends = iter([InterruptedError(errno.EINTR, "x"), InterruptedError(errno.EINTR, "x")])

    def work() -> str:
        for error in ends:
            raise error
        return "done"

    assert disk.uninterrupted(Path("/x"), work) == "done"

    def never() -> None:
        raise InterruptedError(errno.EINTR, "x", "/y")

    with pytest.raises(TryLater, match="signals keep interrupting file operations at /y"):
        disk.uninterrupted(Path("/x"), never)


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (errno.EMFILE, 75, "`ulimit -n`"),
        (errno.ETIMEDOUT, 75, "the disk fails at /x"),
        (errno.ENOTCONN, 75, "the disk fails at /x"),
        (errno.EREMOTEIO, 75, "the disk fails at /x"),
        (errno.ESTALE, 75, "the disk fails at /x"),
        (errno.ENOENT, 1, "/x is missing"),
        (errno.EACCES, 1, "no access to /x"),
        (errno.EUCLEAN, 1, "cannot continue at /x"),
    ],
)
def test_each_disk_error_has_a_message_and_an_exit_code(number: int, code: int, says: str) -> None:
    said = disk.explained(OSError(number, os.strerror(number)), "/x")
    assert said is not None
    assert (said.exit_code, says in str(said)) == (code, True)


def test_file_system_that_reports_no_free_space_does_not_count_as_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 0))
    preflight.check_space(tmp_path, 1 << 40)


def test_sqlite_keeps_its_temporary_files_in_the_given_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SQLITE_TMPDIR", raising=False)
    with disk.sqlite_scratch(tmp_path):
        database = sqlite3.connect("")
        database.execute("CREATE TABLE t(a)")
        database.executemany("INSERT INTO t VALUES(zeroblob(1000))", [()] * 20_000)  # more than its cache holds
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        held = [os.readlink(link) for link in links if os.path.islink(link)]
        database.close()
    assert any(path.startswith(str(tmp_path)) for path in held)


@pytest.mark.parametrize("number", [errno.EINTR, errno.EMFILE])
def test_error_of_this_process_is_not_attributed_to_source(tmp_path: Path, number: int) -> None:
    with pytest.raises(OSError, match="why") as raised:
        check_temporary(tmp_path, ClosedFolder("cat", number, "why"))
    assert (raised.value.errno, raised.value.filename) == (number, f"{tmp_path}/cat")


def test_receipt_that_is_missing_at_the_seal_is_reported(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(*_: Any) -> list[Any]:
        (tmp_path / "out" / ".work" / "receipts" / "val.mindrecord0.json").unlink()
        return []

    monkeypatch.setattr("dataprep.job.duplicates.find_duplicates", remove)
    with pytest.raises(DataprepError, match=r"the files of val\.mindrecord0 or its receipt in .* are missing"):
        shard(raw, tmp_path / "out", num_shards=2)


def test_file_that_sqlite_finds_damaged_is_reported_in_one_sentence() -> None:
    error = disk.explained(sqlite3.DatabaseError("database disk image is malformed"), "/out")
    assert error is not None
    assert str(error).startswith("an SQLite file of /out is damaged (database disk image is malformed); try again")
    assert disk.explained(sqlite3.OperationalError('near "SELEKT": syntax error'), "/out") is None


@pytest.mark.parametrize(("number", "lost"), [(errno.EIO, True), (errno.EACCES, False), (errno.ESTALE, False)])
def test_only_a_bad_sector_loses_a_row(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, lost: bool
) -> None:
    shard(raw, tmp_path / "out", num_shards=1)
    path = tmp_path / "out" / "train.mindrecord0"
    with ShardReader(path) as reader, path.open("rb") as file:
        first = next(iter(read_index(path, reader.schema)))

        def fail(*_: object) -> bytes:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "pread", fail)
        with nullcontext() if lost else pytest.raises(OSError, match=os.strerror(number)):
            assert read_stored(file, reader.geometry, first) is None
