"""SOURCE is temporarily unavailable: the dataset has the same identity, or there is none."""

import errno
import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataprep import pipeline
from dataprep.build import read_ahead, worker
from dataprep.build.absence import Presence
from dataprep.errors import DataprepError, TryLater
from dataprep.options import Budget
from schemas.dataset import load_dataset
from schemas.images.policy import ImageRejected
from tests.dataprep.examples import QUICK, Silent, digests, shard

ANY = Budget(1.0, True)
OPTIONS = replace(QUICK, num_shards=4, max_rejects=ANY, max_class_loss=ANY)
Disturb = Callable[[Path], None]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Disturbing(Silent):
    """Disturb SOURCE after the first shard is committed."""

    def __init__(self, disturb: Callable[[], None]) -> None:
        super().__init__()
        self._disturb = disturb

    def built(self, receipt: Any, planned: Any) -> None:
        if not self.names:
            self._disturb()
        super().built(receipt, planned)


def calm(raw: Path) -> dict[str, bytes]:
    out = raw.parent / "calm"
    pipeline.shard(raw, out, OPTIONS, Silent())
    return digests(out)


def unmounted(raw: Path) -> None:
    """SOURCE is an empty folder, as an unmounted share leaves it behind."""
    raw.rename(raw.parent / "away")
    raw.mkdir()


def taken_away(raw: Path) -> None:
    raw.rename(raw.parent / "away")


def class_unmounted(raw: Path) -> None:
    (raw / "cat").rename(raw.parent / "cat_away")
    (raw / "cat").mkdir()


def another_in_its_place(raw: Path) -> None:
    """The folder under a mount point may have files of its own."""
    raw.rename(raw.parent / "away")
    (raw / "cat").mkdir(parents=True)
    (raw / "cat" / "note.jpg").write_bytes(b"x")


def back(raw: Path) -> None:
    if (raw.parent / "away").is_dir():
        if raw.is_dir():
            shutil.rmtree(raw)
        (raw.parent / "away").rename(raw)
    elif (raw.parent / "cat_away").is_dir():
        (raw / "cat").rmdir()
        (raw.parent / "cat_away").rename(raw / "cat")


@pytest.mark.parametrize("disturb", [unmounted, taken_away, class_unmounted, another_in_its_place])
def test_source_that_becomes_unavailable_during_the_build_ends_the_job_with_exit_code_75(
    raw: Path, tmp_path: Path, disturb: Disturb
) -> None:
    whole = calm(raw)
    out = tmp_path / "out"
    with pytest.raises(TryLater, match=r"is unavailable: .* the same command resumes"):
        pipeline.shard(raw, out, OPTIONS, Disturbing(lambda: disturb(raw)))
    receipts = [json.loads(path.read_bytes()) for path in (out / ".work" / "receipts").glob("*.json")]
    assert [receipt["rejects"] for receipt in receipts] == [[]] * len(receipts)
    back(raw)
    assert shard(raw, out, num_shards=4).built == 5 - len(receipts)
    assert digests(out) == whole


@pytest.mark.parametrize("disturb", [unmounted, taken_away, class_unmounted])
def test_source_that_is_unavailable_at_a_rerun_gives_exit_code_75(raw: Path, sealed: Path, disturb: Disturb) -> None:
    before = digests(sealed)
    (sealed / "dataset.json").unlink()
    disturb(raw)
    with pytest.raises(TryLater):
        shard(raw, sealed, num_shards=3)
    back(raw)
    assert shard(raw, sealed, num_shards=3).built == 0
    assert digests(sealed) == before


def test_source_without_its_folders_gives_exit_code_75(raw: Path, sealed: Path) -> None:
    (sealed / "dataset.json").unlink()
    unmounted(raw)
    (raw / "not mounted.txt").write_text("x")
    with pytest.raises(TryLater, match="it seems unavailable"):
        shard(raw, sealed, num_shards=3)


def test_source_that_never_existed_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(DataprepError, match=r"Directory '.*typo' does not exist") as mistake:
        shard(tmp_path / "typo", tmp_path / "out")
    assert mistake.value.exit_code == 2


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT])
def test_folder_that_fails_while_files_are_read_ends_the_job_with_exit_code_75(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    original_open, original_list = os.open, os.scandir

    def failing(original: Callable[..., Any]) -> Callable[..., Any]:
        def fail(path: Any, *rest: Any) -> Any:
            if not isinstance(path, int) and os.fsdecode(path).startswith(str(raw / "cat")):
                raise OSError(number, os.strerror(number), os.fsdecode(path))
            return original(path, *rest)

        return fail

    def disturb() -> None:
        monkeypatch.setattr(os, "open", failing(original_open))
        monkeypatch.setattr(os, "scandir", failing(original_list))

    with pytest.raises(TryLater, match=f"/cat in SOURCE .* is unavailable: {os.strerror(number)}"):
        pipeline.shard(raw, tmp_path / "out", OPTIONS, Disturbing(disturb))
    monkeypatch.undo()
    whole = calm(raw)
    shard(raw, tmp_path / "out", num_shards=4)
    assert digests(tmp_path / "out") == whole


REFUSALS = [
    ImageRejected("vanished", "x"),
    ImageRejected("unreadable", "x"),
    ImageRejected("stalled", "x"),
    ImageRejected("permission_denied", "x"),
    ImageRejected("changed", "x"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda r: r.reason)
def test_files_that_become_available_before_the_seal_are_read_again(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: ImageRejected
) -> None:
    whole = calm(raw)
    original = read_ahead.read_item
    missed = iter(range(7))  # so many reads find the file gone, and SOURCE is back when it is asked for

    def flaky(*args: Any) -> bytes:
        if next(missed, None) is not None:
            raise refusal
        return original(*args)

    monkeypatch.setattr(read_ahead, "read_item", flaky)
    assert pipeline.shard(raw, tmp_path / "out", OPTIONS, Silent()).rejected == {}
    assert digests(tmp_path / "out") == whole


def test_files_that_are_missing_intermittently_end_the_job_without_a_dataset(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster where one worker does not see all of SOURCE."""
    whole = calm(raw)
    original = worker.read_ahead

    def blind(wanted: Any, deadline_s: float) -> Any:
        for item, data in original(wanted, deadline_s):
            yield item, ImageRejected("vanished", "x") if item.key == "cat/01.png" else data

    monkeypatch.setattr(worker, "read_ahead", blind)
    with pytest.raises(TryLater, match=r"a worker could not read 'cat/01\.png', but it can be read now"):
        pipeline.shard(raw, tmp_path / "out", OPTIONS, Silent())
    assert not (tmp_path / "out" / "dataset.json").exists()
    monkeypatch.undo()
    shard(raw, tmp_path / "out", num_shards=4)
    assert digests(tmp_path / "out") == whole


def test_rerun_checks_files_again_that_could_not_be_read(raw: Path, tmp_path: Path) -> None:
    whole = calm(raw)
    out = tmp_path / "out"
    (raw / "cat" / "01.png").rename(tmp_path / "aside.png")
    before = os.stat(tmp_path / "aside.png")
    (tmp_path / "aside.png").rename(raw / "cat" / "01.png")

    def remove() -> None:
        (raw / "cat" / "01.png").rename(tmp_path / "aside.png")

    class Removing(Silent):
        def planned(self, plan: Any, missing: Any) -> None:
            if not (tmp_path / "aside.png").exists():
                remove()

    with pytest.raises(DataprepError, match="1 vanished"):
        pipeline.shard(raw, out, replace(QUICK, num_shards=4), Removing())
    with pytest.raises(DataprepError, match=r"'cat/01\.png' is gone"):
        shard(raw, out, num_shards=4)
    (tmp_path / "aside.png").rename(raw / "cat" / "01.png")
    assert os.stat(raw / "cat" / "01.png").st_mtime_ns == before.st_mtime_ns
    assert shard(raw, out, num_shards=4).built == 1
    assert digests(out) == whole


def test_scan_while_source_becomes_unavailable_makes_no_plan(raw: Path, tmp_path: Path) -> None:
    class Leaving(Silent):
        def scanning(self, found: int) -> None:
            if raw.is_dir():
                raw.rename(tmp_path / "away")

    with pytest.raises(TryLater, match="is unavailable"):
        pipeline.shard(raw, tmp_path / "out", OPTIONS, Leaving())
    assert not (tmp_path / "out" / ".work" / "plan.sqlite").exists()


def test_file_that_a_scan_misses_temporarily_makes_no_plan(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.items import Reject
    from dataprep.sources import SOURCES
    from dataprep.sources.source import Source

    missing = Source(lambda *_: iter([Reject("cat/01.png", "vanished", "x")]), "images")
    monkeypatch.setitem(SOURCES, "classes", missing)
    with pytest.raises(TryLater, match=r"is unstable: 'cat/01\.png'"):
        pipeline.shard(raw, tmp_path / "out", OPTIONS, Silent())


def test_source_that_does_not_answer_is_unavailable(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    presence = Presence(raw, 0.05)
    presence.require(["cat/01.png"])
    released, stat = threading.Event(), os.stat

    def stalled(*arguments: Any, **options: Any) -> os.stat_result:
        released.wait()
        return stat(*arguments, **options)

    monkeypatch.setattr(os, "stat", stalled)
    with pytest.raises(TryLater, match=r"no answer within 0\.05 s"):
        presence.require(["cat/01.png"])
    released.set()


def test_single_missing_file_is_a_reject(raw: Path, tmp_path: Path) -> None:
    gone = raw / "cat" / "01.png"

    class Removing(Silent):
        def planned(self, plan: Any, missing: Any) -> None:
            gone.unlink(missing_ok=True)

    assert pipeline.shard(raw, tmp_path / "out", OPTIONS, Removing()).rejected == {"vanished": 1}
    assert load_dataset(tmp_path / "out").written == 39
