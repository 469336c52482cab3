"""Row digests in the sealed folder identify damaged rows in any copy of it."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dataprep import pipeline
from dataprep.cli.commands import main
from dataprep.job.existing_set import Existing
from dataprep.mindrecord.reader import ShardReader
from dataprep.options import Budget
from dataprep.tools import damage as damage_module
from dataprep.tools import salvage as salvage_module
from dataprep.tools import verify as verify_module
from dataprep.tools.repair import repair
from dataprep.tools.salvage import salvage
from dataprep.tools.verify import verify
from schemas.dataset import Dataset, file_sha256, load_dataset
from schemas.errors import ContractError
from schemas.layout import DUPLICATES, REJECTS, ROW_DIGESTS
from tests.dataprep.examples import QUICK, Files, Silent, digests, keys, picture, shard

SHARD = "train.mindrecord1"


@pytest.fixture
def copied(sealed: Path) -> Path:
    """A dataset copied without its work folder."""
    shutil.rmtree(sealed / ".work")
    return sealed


def invert(path: Path, at: int, size: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + size] = bytes(byte ^ 0xFF for byte in data[at : at + size])
    path.write_bytes(data)


def damage_image(out: Path) -> str:
    """Change a byte in the middle of a JPEG that still decodes; return its key."""
    with ShardReader(out / SHARD) as reader:
        row = next(row for row in reader if row["image"].startswith(b"\xff\xd8"))
    at = (out / SHARD).read_bytes().index(row["image"])
    invert(out / SHARD, at + 30)  # in a quantisation table
    return str(row["key"])


def damage_label(out: Path) -> str:
    with ShardReader(out / SHARD) as reader:
        row = reader.row(3)
    text = row["key"].encode()
    data = (out / SHARD).read_bytes()
    at = data.index(b"\xa5label", data.index(text)) + 6  # keys of the msgpack map are sorted: image, key, label
    assert data[at] == row["label"]
    (out / SHARD).write_bytes(data[:at] + bytes([1 - row["label"]]) + data[at + 1 :])
    return str(row["key"])


def reseal(out: Path, change: Callable[[Dataset], Dataset]) -> None:
    (out / "dataset.json").write_bytes(change(load_dataset(out)).to_json())


def without_digests(out: Path) -> None:
    """Make it a dataset that was sealed before row digests existed."""
    (out / ROW_DIGESTS).unlink()
    reseal(out, lambda dataset: replace(dataset, row_digests=None))
    for noted in (out / ".work" / "receipts").glob("*.rows.jsonl"):
        forget_row_digests(noted)


def forget_row_digests(noted: Path) -> None:
    rows = [json.loads(line)[:7] for line in noted.read_text().splitlines()]
    noted.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_file_matches_the_format_page(sealed: Path) -> None:
    expected = b""
    for entry in load_dataset(sealed).shards:
        with ShardReader(sealed / entry.name) as reader:
            for _, stored in reader.stored():
                assert stored is not None
                blob, raw = stored
                expected += hashlib.sha256(hashlib.sha256(blob).digest()[:16] + raw).digest()[:16]
    assert (sealed / ROW_DIGESTS).read_bytes() == expected
    entry = load_dataset(sealed).row_digests
    assert entry
    assert (entry.bytes, entry.sha256) == (16 * 40, hashlib.sha256(expected).hexdigest())


@pytest.mark.parametrize("damage", [damage_image, damage_label])
def test_verify_names_the_damaged_row_of_a_copy_without_work_folder(
    copied: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    before = keys(copied)
    key = damage(copied)
    verdict = verify(copied)
    (row,) = verdict.damaged[SHARD]
    assert row.key == key
    assert f"damaged: row {row.row} ('{key}')" in verdict.problems[0]
    saved = salvage(copied, tmp_path / "saved")
    assert (saved.lost, saved.unchecked, saved.unknown) == ({"train": 1, "val": 0}, {"train": 0, "val": 0}, [])
    assert sorted([*keys(tmp_path / "saved"), key]) == sorted(before)
    assert verify(tmp_path / "saved").problems == []
    assert key in (tmp_path / "saved" / REJECTS).read_text()


def test_salvaged_dataset_has_row_digests(copied: Path, tmp_path: Path) -> None:
    damage_image(copied)
    salvage(copied, tmp_path / "saved")
    key = damage_image(tmp_path / "saved")
    assert [row.key for row in verify(tmp_path / "saved").damaged[SHARD]] == [key]


def test_damaged_header_loses_no_row(copied: Path, tmp_path: Path) -> None:
    before = keys(copied)
    invert(copied / SHARD, 0, 4096)
    assert any("no row is damaged" in problem for problem in verify(copied).problems)
    saved = salvage(copied, tmp_path / "saved")
    assert (sum(saved.lost.values()), keys(tmp_path / "saved")) == (0, before)


def test_damaged_row_length_loses_no_row(copied: Path, tmp_path: Path) -> None:
    before = keys(copied)
    with ShardReader(copied / SHARD) as reader:
        invert(copied / SHARD, reader.geometry.header_size)
    assert "no row is damaged" in verify(copied).problems[0]
    assert (salvage(copied, tmp_path / "saved").lost["train"], keys(tmp_path / "saved")) == (0, before)


def test_row_is_named_by_number_if_the_index_is_lost_too(copied: Path, tmp_path: Path) -> None:
    key = damage_image(copied)
    (copied / f"{SHARD}.db").unlink()
    (row,) = verify(copied).damaged[SHARD]
    with ShardReader(copied / SHARD) as reader:
        assert reader.row(row.row)["key"] == key
    assert salvage(copied, tmp_path / "saved").lost["train"] == 1


def lose(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    os.truncate(path, 100)


def flip(path: Path) -> None:
    invert(path, 300)


def rename(path: Path) -> None:
    path.rename(path.with_name("my digests"))


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [lose, cut, flip, rename, fifo])
@pytest.mark.parametrize("with_work", [True, False])
def test_damaged_digest_file_is_found_and_restored(
    sealed: Path, spoil: Callable[[Path], None], with_work: bool
) -> None:
    before = digests(sealed)
    spoil(sealed / ROW_DIGESTS)
    if not with_work:
        shutil.rmtree(sealed / ".work")
    (problem,) = verify(sealed).problems
    assert problem.startswith(ROW_DIGESTS)
    repaired = repair(sealed)
    assert (repaired.problems, digests(sealed)) == ([], before)
    assert ROW_DIGESTS in repaired.done[0]
    assert not (sealed / ".work" / "repair").exists()


def test_digests_of_a_damaged_shard_are_restored_from_its_records(sealed: Path) -> None:
    before = (sealed / ROW_DIGESTS).read_bytes()
    key = damage_image(sealed)
    lose(sealed / ROW_DIGESTS)
    repair(sealed)
    assert (sealed / ROW_DIGESTS).read_bytes() == before
    assert [row.key for row in verify(sealed).damaged[SHARD]] == [key]


def test_rows_that_are_unknown_without_digests_are_reported(copied: Path, tmp_path: Path) -> None:
    rows = next(entry.rows for entry in load_dataset(copied).shards if entry.name == SHARD)
    damage_image(copied)
    lose(copied / ROW_DIGESTS)
    problems = verify(copied).problems
    assert problems[0] == "row_digests.bin is missing"
    assert "cannot tell which rows are damaged: row_digests.bin is missing" in problems[1]
    saved = salvage(copied, tmp_path / "saved")
    assert (saved.lost["train"], saved.unchecked) == (0, {"train": rows, "val": 0})
    assert saved.unknown[0].startswith(f"{rows} rows of damaged shards may have changed since sealing: row_digests.bin")
    assert verify(tmp_path / "saved").problems == []


@pytest.mark.parametrize("with_work", [True, False])
def test_a_set_that_was_sealed_without_digests_is_checked_and_salvaged(
    sealed: Path, tmp_path: Path, with_work: bool
) -> None:
    without_digests(sealed)
    if not with_work:
        shutil.rmtree(sealed / ".work")
    assert (verify(sealed).problems, repair(sealed).done) == ([], [])
    key = damage_image(sealed)
    verdict = verify(sealed)
    saved = salvage(sealed, tmp_path / "saved")
    if with_work:
        assert [row.key for row in verdict.damaged[SHARD]] == [key]
        assert (saved.lost["train"], saved.unknown) == (1, [])
    else:
        assert "the dataset was sealed without row_digests.bin" in verdict.problems[0]
        assert saved.unchecked["train"] > 0
    assert verify(tmp_path / "saved").problems == []


def test_job_with_records_of_an_earlier_version_is_sealed_with_the_same_digests(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    (sealed / "dataset.json").unlink()
    lose(sealed / ROW_DIGESTS)
    forget_row_digests(sealed / ".work" / "receipts" / f"{SHARD}.rows.jsonl")
    assert shard(raw, sealed, num_shards=3).built == 0
    assert digests(sealed) == before


def test_a_set_that_was_sealed_without_digests_has_them_after_a_retry(raw: Path, tmp_path: Path) -> None:
    (raw / "cat" / "bad.png").write_bytes(b"")
    options = replace(QUICK, num_shards=3, max_rejects=Budget(9, False))
    pipeline.shard(raw, tmp_path / "out", options, Silent())
    shutil.copytree(tmp_path / "out", tmp_path / "old")
    without_digests(tmp_path / "old")
    (raw / "cat" / "bad.png").write_bytes(picture(70, "PNG"))
    for out in ("out", "old"):
        assert pipeline.shard(raw, tmp_path / out, options, Silent(), Existing(retry_rejects=True)).written == 41
    assert digests(tmp_path / "old") == digests(tmp_path / "out")
    assert verify(tmp_path / "old").problems == []


def test_manifest_with_digests_for_another_number_of_rows_is_rejected(sealed: Path) -> None:
    entry = load_dataset(sealed).row_digests
    assert entry is not None
    wrong = replace(load_dataset(sealed), row_digests=replace(entry, bytes=16 * 39)).to_json()
    with pytest.raises(ContractError, match="row_digests must have 16 bytes per row"):
        Dataset.from_json(wrong)


def remove_lists(out: Path) -> None:
    (out / REJECTS).unlink()
    (out / DUPLICATES).unlink()


def damage_lists(out: Path) -> None:
    lines = (out / REJECTS).read_bytes().splitlines(keepends=True)
    (out / REJECTS).write_bytes(lines[0] + b"{}\nnoise\n")
    (out / DUPLICATES).write_bytes(b"")


def lengthen_lists(out: Path) -> None:
    with (out / REJECTS).open("a") as rejects:
        rejects.write(json.dumps({"key": "cat/00.png", "reason": "empty", "detail": "", "size": 0}) + "\n")
    with (out / DUPLICATES).open("a") as duplicates:
        duplicates.write("{}\n")


@pytest.mark.parametrize(("spoil", "unnamed"), [(remove_lists, 2), (damage_lists, 1), (lengthen_lists, 0)])
def test_salvage_without_the_lists_passes_its_own_check(
    files: Files, tmp_path: Path, spoil: Callable[[Path], None], unnamed: int
) -> None:
    out = tmp_path / "out"
    images = {f"cat/{number}.jpg": picture(number) for number in range(8)} | {"cat/again.jpg": picture(1)}
    shard(
        files({**images, "cat/a.png": b"", "cat/b.png": b""}),
        out,
        val=0.0,
        max_rejects=Budget(9, False),
        max_class_loss=Budget(9, False),
    )
    spoil(out)
    saved = salvage(out, tmp_path / "saved")
    assert verify(tmp_path / "saved").problems == []
    made = load_dataset(tmp_path / "saved")
    assert (made.rejected, made.duplicates) == ({"empty": 2}, {})
    lines = [json.loads(line) for line in (tmp_path / "saved" / REJECTS).read_text().splitlines()]
    assert [line["key"].startswith("unknown file") for line in lines].count(True) == unnamed
    assert any("the duplicates" in what for what in saved.unknown)
    assert any(f"the names of {unnamed} rejected files" in what for what in saved.unknown) == bool(unnamed)


def test_verify_and_salvage_report_progress(sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "PROGRESS_ROWS", 1)
    monkeypatch.setattr(salvage_module, "PROGRESS_ROWS", 1)
    damage_image(sealed)
    told: list[tuple[str, int, int]] = []
    verify(sealed, progress=lambda *progress: told.append(progress))
    for what in ("rows verified", "rows searched for damage"):
        done = [number for said, number, _ in told if said == what]
        assert done == sorted(done)
        assert len(done) > 5
    assert told[-1] == ("rows verified", 40, 40)
    told.clear()
    salvage(sealed, tmp_path / "saved", lambda *progress: told.append(progress))
    assert told == [("rows read", number, 40) for number in range(1, 41)]


def test_the_command_lists_all_damaged_rows_as_json_and_is_quiet_when_asked(sealed: Path, tmp_path: Path) -> None:
    key = damage_image(sealed)
    done = CliRunner().invoke(main, ["verify", str(sealed), "--json", "-q"])
    assert (done.exit_code, done.stderr) == (1, "")
    assert [row["key"] for row in json.loads(done.stdout)["damaged"][SHARD]] == [key]
    done = CliRunner().invoke(main, ["repair", str(sealed), "--salvage", str(tmp_path / "saved"), "-q"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "train 35, 1 lost" in done.stdout


def test_unreadable_sector_loses_only_its_row(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ShardReader(copied / SHARD) as reader:
        lost = reader.row(2)
    at = (copied / SHARD).read_bytes().index(lost["image"])
    pread = os.pread

    def broken(descriptor: int, size: int, offset: int) -> bytes:
        if offset == at and os.readlink(f"/proc/self/fd/{descriptor}").endswith(f"out/{SHARD}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, size, offset)

    def unreadable(path: Path) -> str:
        if path == copied / SHARD:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return file_sha256(path)

    monkeypatch.setattr(os, "pread", broken)
    monkeypatch.setattr(verify_module, "file_sha256", unreadable)
    monkeypatch.setattr(damage_module, "file_sha256", unreadable)
    assert verify(copied).problems[0] == (
        f"{SHARD} cannot be read: Input/output error; damaged: row 2 ('{lost['key']}')"
    )
    assert salvage(copied, tmp_path / "saved").lost["train"] == 1


def test_number_stored_as_text_is_damage_without_digests_too(copied: Path, tmp_path: Path) -> None:
    damage_label(copied)
    data = (copied / SHARD).read_bytes()
    with ShardReader(copied / SHARD) as reader:
        at = data.index(b"\xa5label", data.index(reader.row(3)["key"].encode())) + 6
    (copied / SHARD).write_bytes(data[:at] + b"\xa0" + data[at + 1 :])  # an empty text
    lose(copied / ROW_DIGESTS)
    assert salvage(copied, tmp_path / "saved").lost["train"] == 1
