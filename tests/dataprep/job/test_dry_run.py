"""The forecast of `shard --dry-run`: size, rejects, and what is in OUT already."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dataprep.job.dry_run import Preview, preview
from dataprep.job.existing_set import Existing
from dataprep.options import Budget, ShardOptions
from tests.dataprep.examples import QUICK, Files, Silent, encoded, picture, shard


def foresee(source: Path, out: Path, existing: Existing | None = None, **options: object) -> Preview:
    asked: ShardOptions = replace(QUICK, **options)  # type: ignore[arg-type]
    return preview(source, out, asked, Silent(), existing or Existing())


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def textured(number: int, side: int) -> Image.Image:
    """A picture that compresses neither well nor badly: smooth noise."""
    noise = np.random.default_rng(number).integers(0, 256, (side // 4, side // 4, 3), np.uint8)
    return Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC)


@pytest.mark.parametrize(
    ("kind", "options", "asked"),
    [
        ("WEBP", {"quality": 60}, {}),
        ("WEBP", {"quality": 60}, {"image_format": "jpeg"}),
        ("TIFF", {}, {}),
        ("TIFF", {"compression": "tiff_lzw"}, {"image_format": "jpeg"}),
        ("JPEG", {}, {}),
        ("JPEG", {}, {"num_shards": 12}),
    ],
)
def test_predicted_size_equals_the_actual_size(
    files: Files, tmp_path: Path, kind: str, options: dict[str, object], asked: dict[str, object]
) -> None:
    sides = [32 + 8 * (number % 9) for number in range(60)]
    raw = files(
        {
            f"{'ab'[number % 2]}/{number}.{kind.lower()}": encoded(textured(number, side), kind, **options)
            for number, side in enumerate(sides)
        }
    )
    foreseen = foresee(raw, tmp_path / "out", **asked).bytes
    shard(raw, tmp_path / "out", **asked)
    made = sum(path.stat().st_size for path in (tmp_path / "out").glob("*.mindrecord*"))
    assert foreseen == pytest.approx(made, rel=0.1)


def test_the_sample_is_spread_over_the_whole_plan(files: Files, tmp_path: Path) -> None:
    raw = files({f"a/{number}.jpg": picture(number) for number in range(260)})
    (raw / "b").mkdir()
    (raw / "b" / "0.jpg").write_bytes(picture(900))
    assert foresee(raw, tmp_path / "out").sampled == 200


def test_rejects_are_predicted_from_first_bytes_and_budgets(files: Files, tmp_path: Path) -> None:
    good = {f"a/{number}.jpg": picture(number) for number in range(20)}
    bad = {"a/x.jpg": b"", "a/y.jpg": b"<html>", "b/z.png": b"PK\x03\x04" + bytes(40), "b/1.jpg": picture(99)}
    raw = files({**good, **bad})
    foreseen = foresee(raw, tmp_path / "out", max_class_loss=Budget(1, True))
    assert foreseen.known_rejects == {"empty": 1, "not_an_image": 2}
    assert "this exceeds --max-rejects 1% of 24 files: the job would stop with exit code 3" in str(foreseen.stopped_by)
    lenient = {"max_rejects": Budget(3, False), "max_class_loss": Budget(0.2, True)}
    said = str(foresee(raw, tmp_path / "out", **lenient).stopped_by)
    assert said.startswith("class 'b' would lose 1 of its 2 files, more than --max-class-loss 20% allows")
    assert foresee(raw, tmp_path / "out", **{**lenient, "max_class_loss": Budget(0.5, True)}).stopped_by is None


def test_rejects_that_only_decoding_finds_count_at_the_rate_of_the_sample(files: Files, tmp_path: Path) -> None:
    raw = files({f"a/{number}.jpg": picture(number)[: -40 if number < 5 else None] for number in range(100)})
    foreseen = foresee(raw, tmp_path / "out")
    assert (foreseen.known_rejects, foreseen.sample_rejected) == ({}, 5)
    assert "5 of 100 files would be rejected, more than --max-rejects 1% allows" in str(foreseen.stopped_by)
    assert foresee(raw, tmp_path / "out", max_rejects=Budget(0.05, True)).stopped_by is None


def test_dry_run_reports_the_content_of_out_and_writes_nothing(raw: Path, sealed: Path, tmp_path: Path) -> None:
    before = tree(sealed)
    assert "the job would do nothing" in str(foresee(raw, sealed, num_shards=3).target)
    assert "would stop with exit code 1" in str(foresee(raw, sealed, num_shards=2).target)
    assert "--overwrite would replace it" in str(foresee(raw, sealed, Existing(overwrite=True), num_shards=2).target)
    other = tmp_path / "other" / "cow"
    other.mkdir(parents=True)
    (other / "1.jpg").write_bytes(picture(1))
    refused = str(foresee(other.parent, sealed, Existing(overwrite=True)).target)
    assert refused.startswith("the job would stop with exit code 3: ")
    assert foresee(raw, tmp_path / "new").target is None
    assert tree(sealed) == before
    assert not (tmp_path / "new").exists()


def test_dry_run_reports_an_unfinished_job_in_out(raw: Path, sealed: Path) -> None:
    (sealed / "dataset.json").unlink()
    assert "has this job, unfinished (4 of 4 shards built" in str(foresee(raw, sealed, num_shards=3).target)
    assert "would stop with exit code 1: the job in OUT" in str(foresee(raw, sealed, num_shards=3, seed=9).target)
    (raw / "cat" / "new.jpg").write_bytes(picture(77))
    assert "has changed since the job in OUT" in str(foresee(raw, sealed, num_shards=3).target)
    (sealed / ".work" / "lock").write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    assert "is being written by process 1 on elsewhere now" in str(foresee(raw, sealed, num_shards=3).target)
