"""The same images give the same shards from folders and from every archive."""

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep import pipeline
from dataprep.errors import DataprepError, DataRejected, TryLater
from dataprep.job.dry_run import preview
from dataprep.job.existing_set import Existing
from dataprep.options import Budget, ShardOptions, SourceOptions
from dataprep.sources.detect import detect_layout
from schemas.dataset import load_dataset
from tests.dataprep.examples import QUICK, Silent, picture, shard
from tests.dataprep.sources.archives.packing import (
    compressed,
    files_below,
    tar_bytes,
    tar_of,
    tar_of_tars,
    zip_of,
)

KINDS = ["gz", "bz2", "xz", "zst"]


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.mindrecord*")}


@pytest.fixture
def expected(raw: Path, tmp_path: Path) -> dict[str, bytes]:
    shard(raw, tmp_path / "folders")
    return shards(tmp_path / "folders")


def pack(raw: Path, tmp_path: Path, kind: str) -> Path:
    """Pack the folder as `kind`, which may end with the name of a compression."""
    kind, _, compression = kind.partition(".")
    path = tmp_path / f"images.{kind}"
    if kind == "zip":
        return zip_of(raw, path, zipfile.ZIP_DEFLATED)
    if kind == "stored":
        return zip_of(raw, tmp_path / "images.zip")
    if kind == "shards":
        path.mkdir()
        members = [(f.relative_to(raw).as_posix(), f.read_bytes()) for f in files_below(raw)]
        for number in range(3):
            (path / f"shard-{number:03d}.tar").write_bytes(tar_bytes(members[number::3]))
        return path
    made = tar_of_tars(raw, tmp_path / "images.tar") if kind == "tars" else tar_of(raw, path)
    if compression:
        packed = tmp_path / f"images.tar.{compression}"
        packed.write_bytes(compressed(made.read_bytes(), compression))
        return packed
    return made


@pytest.mark.parametrize("kind", ["tar", "tars", "shards", "zip", "stored", *(f"tar.{k}" for k in KINDS), "tars.gz"])
def test_the_same_images_give_the_same_shards(raw: Path, expected: dict[str, bytes], tmp_path: Path, kind: str) -> None:
    pytest.importorskip("zstandard", reason="pip install zstandard") if kind.endswith("zst") else None
    source = pack(raw, tmp_path, kind)
    shard(source, tmp_path / "out")
    assert shards(tmp_path / "out") == expected
    layout = {"shards": "tar", "stored": "zip"}.get(kind, kind.partition(".")[0])
    assert load_dataset(tmp_path / "out").plan["layout"] == layout


@pytest.mark.parametrize("name", [b"caf\xe9.tar", b"new\nline.tar", "漢字 'x'.tar".encode()])
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_an_archive_may_have_any_name(
    raw: Path, expected: dict[str, bytes], tmp_path: Path, name: bytes, compression: str
) -> None:
    made = pack(raw, tmp_path, f"tar{compression}")
    source = made.rename(tmp_path / os.fsdecode(name + compression.encode()))
    shard(source, tmp_path / "out")
    assert shards(tmp_path / "out") == expected


def test_a_dry_run_of_a_compressed_tar_writes_nothing_and_tells_the_size(raw: Path, tmp_path: Path) -> None:
    source = pack(raw, tmp_path, "tar.gz")
    before = sorted(tmp_path.rglob("*"))
    seen = preview(source, tmp_path / "out", QUICK, Silent())
    assert sorted(tmp_path.rglob("*")) == before
    assert sum(split.rows for split in seen.splits.values()) == 40
    assert seen.bytes > 0
    assert seen.sample_rejected == 0
    assert any("unpacked" in warning for warning in seen.warnings)


def test_a_rerun_uses_the_unpacked_tar_and_makes_it_again_if_it_is_gone(
    raw: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    source, out = pack(raw, tmp_path, "tar.gz"), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        pipeline_until_planned(source, out)
    (unpacked,) = (out / ".work" / "unpacked").glob("*.gz")
    before = unpacked.stat()
    with pytest.raises(KeyboardInterrupt):
        pipeline_until_planned(source, out)
    assert unpacked.stat().st_ino == before.st_ino
    unpacked.unlink()
    shard(source, out)
    assert shards(out) == expected
    assert not (out / ".work" / "unpacked").exists()


class Killed(Silent):
    def planned(self, plan: object, missing: object) -> None:
        raise KeyboardInterrupt


def pipeline_until_planned(source: Path, out: Path) -> None:
    pipeline.shard(source, out, QUICK, Killed())


@pytest.mark.parametrize("sealed", [False, True])
def test_a_restart_and_an_overwrite_unpack_what_they_need(
    raw: Path, expected: dict[str, bytes], tmp_path: Path, sealed: bool
) -> None:
    source, out = pack(raw, tmp_path, "tar.gz"), tmp_path / "out"
    if sealed:
        shard(source, out, seed=1)
        pipeline.shard(source, out, QUICK, Silent(), Existing(overwrite=True))
    else:
        with pytest.raises(KeyboardInterrupt):
            pipeline.shard(source, out, replace(QUICK, seed=1), Killed())
        pipeline.shard(source, out, QUICK, Silent(), Existing(restart=True))
    assert shards(out) == expected
    assert not list(out.rglob("unpacked"))


def test_a_rerun_after_sealing_has_nothing_to_do(raw: Path, tmp_path: Path) -> None:
    source = pack(raw, tmp_path, "tar.gz")
    shard(source, tmp_path / "out")
    assert shard(source, tmp_path / "out").already_complete


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_stream_seals_nothing(raw: Path, tmp_path: Path, kind: str, damage: str) -> None:
    pytest.importorskip("zstandard", reason="pip install zstandard") if kind == "zst" else None
    source = pack(raw, tmp_path, f"tar.{kind}")
    data = bytearray(source.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 0xFF
    source.write_bytes(data)
    with pytest.raises(DataRejected) as refused:
        shard(source, tmp_path / "out")
    assert refused.value.exit_code == 3
    assert not list((tmp_path / "out").glob("*.mindrecord"))
    assert not list((tmp_path / "out").rglob("*.part"))


def test_a_tar_that_changes_after_the_plan_is_not_sealed(raw: Path, tmp_path: Path) -> None:
    source = pack(raw, tmp_path, "tar")

    class Growing(Silent):
        def planned(self, plan: object, missing: object) -> None:
            with source.open("ab") as file:
                file.write(bytes(512))

    with pytest.raises(DataprepError, match="has changed since the job was planned"):
        pipeline.shard(source, tmp_path / "out", QUICK, Growing())
    assert not (tmp_path / "out" / "dataset.json").exists()
    with pytest.raises(DataprepError, match="has changed since"):
        shard(source, tmp_path / "out")


def test_a_tar_that_is_removed_after_the_plan_is_absent(raw: Path, tmp_path: Path) -> None:
    source = pack(raw, tmp_path, "tar")

    class Removing(Silent):
        def planned(self, plan: object, missing: object) -> None:
            source.rename(tmp_path / "aside")

    with pytest.raises(TryLater):
        pipeline.shard(source, tmp_path / "out", QUICK, Removing())
    (tmp_path / "aside").rename(source)
    assert shard(source, tmp_path / "out").written == 40


def test_a_reject_in_an_archive_is_retried_without_an_error(raw: Path, tmp_path: Path) -> None:
    (raw / "cat" / "broken.jpg").write_bytes(picture(3)[:200])
    source = pack(raw, tmp_path, "tar.gz")
    shard(source, tmp_path / "out", max_rejects=Budget(2, False))
    assert load_dataset(tmp_path / "out").rejected.get("truncated") == 1
    options = replace(QUICK, max_rejects=Budget(2, False))
    pipeline.shard(source, tmp_path / "out", options, Silent(), Existing(retry_rejects=True))
    assert load_dataset(tmp_path / "out").rejected.get("truncated") == 1


def test_layouts_are_detected(raw: Path, tmp_path: Path) -> None:
    for kind, layout in {"tar": "tar", "tars": "tars", "shards": "tar", "zip": "zip", "tar.xz": "tar"}.items():
        folder = tmp_path / f"{kind} of"
        folder.mkdir()
        assert detect_layout(pack(raw, folder, kind), SourceOptions()) == layout
    assert detect_layout(raw, SourceOptions()) == "classes"
    assert ShardOptions().layout == "auto"
