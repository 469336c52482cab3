import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataprep import pipeline
from dataprep.build import scheduler, worker
from dataprep.build.workdir import Workdir
from dataprep.errors import DataprepError, DataRejected, TryLater
from dataprep.mindrecord.reader import ShardReader
from dataprep.options import Budget
from dataprep.tools.verify import verify
from schemas.dataset import load_dataset
from schemas.errors import ContractError
from tests.dataprep.examples import QUICK, Files, Silent, digests, picture, shard

ANY = Budget(1.0, True)


def rows(out: Path, split: str) -> list[dict[str, Any]]:
    found = []
    for entry in load_dataset(out).splits[split].shards:
        with ShardReader(out / entry.name) as reader:
            found += list(reader)
    return found


def test_every_file_is_written_rejected_or_ignored(raw: Path, tmp_path: Path) -> None:
    (raw / "cat" / "bad.jpg").write_bytes(b"<html>")
    summary = shard(raw, tmp_path / "out", max_rejects=ANY)
    assert (summary.found, summary.written) == (43, 40)
    assert summary.rejected == {"not_an_image": 1}
    assert summary.ignored == {"hidden": 1, "thumbs.db": 1}
    lines = [json.loads(line) for line in (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()]
    assert lines == [
        {"key": "cat/bad.jpg", "reason": "not_an_image", "detail": "its content is an HTML page", "size": 6}
    ]


def test_rows_hold_the_files_bytes_label_and_key(raw: Path, tmp_path: Path) -> None:
    shard(raw, tmp_path / "out", num_shards=3)
    found = rows(tmp_path / "out", "train") + rows(tmp_path / "out", "val")
    assert len({row["key"] for row in found}) == 40
    for row in found:
        assert row["image"] == (raw / row["key"]).read_bytes()
        assert row["label"] == ["cat", "dog"].index(row["key"].split("/")[0])


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_engine_or_workers(raw: Path, tmp_path: Path) -> None:
    shard(raw, tmp_path / "a", num_shards=3)
    shard(raw, tmp_path / "b", num_shards=3, engine="process", workers=2)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert "train.mindrecord2.db" in digests(tmp_path / "a")


def test_sealed_dataset_leaves_no_other_files(sealed: Path) -> None:
    names = {path.name for path in sealed.iterdir()}
    shards = {f"train.mindrecord{n}" for n in range(3)} | {"val.mindrecord0"}
    assert names == shards | {f"{name}.db" for name in shards} | {
        "dataset.json",
        "rejects.jsonl",
        "duplicates.jsonl",
        "row_digests.bin",
        ".work",
    }
    assert {path.name for path in (sealed / ".work").iterdir()} == {"lock", "plan.sqlite", "receipts", "run.jsonl"}


def test_rerun_of_a_complete_job_reports_it(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    summary = shard(raw, sealed, num_shards=3, workers=2)
    assert (summary.already_complete, summary.built) == (True, 0)
    assert digests(sealed) == before


def test_job_started_with_other_options_is_rejected_with_the_option(raw: Path, sealed: Path) -> None:
    with pytest.raises(DataprepError, match=r"was started with --seed 0, but this command has 1"):
        shard(raw, sealed, num_shards=3, seed=1)
    with pytest.raises(DataprepError, match=r"was started with --num-shards 3, but this command has unset"):
        shard(raw, sealed)


def test_out_with_a_name_that_mindspore_cannot_open_is_rejected(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(DataprepError, match="is not UTF-8"):
        shard(raw, tmp_path / os.fsdecode(b"out\xff"))


def other_path(raw: Path, how: str) -> Path:
    """`raw` by another path: through `..`, a link, after a move, or as a copy with its times."""
    other = raw.parent / "other"
    if how == "dots":
        other.mkdir()
        return other / ".." / raw.name
    if how == "link":
        other.symlink_to(raw.name)
    elif how == "moved":
        raw.rename(other)
    else:
        shutil.copytree(raw, other)
    return other


@pytest.mark.parametrize("how", ["dots", "link", "moved", "copy"])
def test_the_same_files_by_another_path_are_the_same_complete_job(raw: Path, sealed: Path, how: str) -> None:
    before = digests(sealed)
    other, progress = other_path(raw, how), Silent()
    summary = pipeline.shard(other, sealed, replace(QUICK, num_shards=3), progress)
    assert (summary.already_complete, digests(sealed)) == (True, before)
    assert progress.moves == ([(str(raw), str(other))] if how in ("moved", "copy") else [])


@pytest.mark.parametrize("how", ["link", "moved", "copy"])
def test_unfinished_job_resumes_with_the_same_files_by_another_path(raw: Path, sealed: Path, how: str) -> None:
    before = digests(sealed)
    (sealed / "dataset.json").unlink()
    (sealed / "train.mindrecord1.db").unlink()
    other, progress = other_path(raw, how), Silent()
    if how == "copy":
        shutil.rmtree(raw)  # so that what is read is the copy
    pipeline.shard(other, sealed, replace(QUICK, num_shards=3), progress)
    assert (progress.names, digests(sealed)) == (["train.mindrecord1"], before)


def test_new_path_of_a_resumed_job_is_recognised_when_it_is_unavailable(raw: Path, sealed: Path) -> None:
    (sealed / "dataset.json").unlink()
    (sealed / "train.mindrecord1.db").unlink()
    other = other_path(raw, "moved")
    shard(other, sealed, num_shards=3)
    (sealed / "dataset.json").unlink()
    other.rename(raw.parent / "unmounted")
    with pytest.raises(TryLater, match="is unavailable"):
        shard(other, sealed, num_shards=3)


@pytest.mark.parametrize("done", [True, False], ids=["sealed", "unfinished"])
def test_other_files_by_another_path_are_rejected_in_one_sentence(raw: Path, sealed: Path, done: bool) -> None:
    other = other_path(raw, "copy")
    os.utime(other / "cat" / "01.png", (1, 1))
    if not done:
        (sealed / "dataset.json").unlink()
    with pytest.raises(DataprepError) as refused:
        shard(other, sealed, num_shards=3)
    assert f"was started with SOURCE {raw}, and {other} differs: 'cat/01.png' has changed" in str(refused.value)


def test_only_missing_shards_are_built_again(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    (sealed / "dataset.json").unlink()
    (sealed / "train.mindrecord1.db").unlink()
    progress = Silent()
    pipeline.shard(raw, sealed, replace(QUICK, num_shards=3), progress)
    assert progress.names == ["train.mindrecord1"]
    assert digests(sealed) == before


class Asking(Silent):
    """Remembers why shards were to be built, round by round."""

    def __init__(self) -> None:
        super().__init__()
        self.causes: list[dict[str, str]] = []

    def planned(self, plan: Any, missing: Any) -> None:
        self.causes.append({shard.name: cause for shard, cause in missing.items()})


def test_each_shard_to_build_has_a_cause(raw: Path, sealed: Path) -> None:
    (sealed / "dataset.json").unlink()
    (sealed / "train.mindrecord1.db").unlink()
    receipts = sealed / ".work" / "receipts"
    (receipts / "train.mindrecord0.json").unlink()
    (receipts / "train.mindrecord2.json").write_text("{}")
    progress = Asking()
    pipeline.shard(raw, sealed, replace(QUICK, num_shards=3), progress)
    assert progress.causes == [
        {
            "train.mindrecord0": "not built yet",
            "train.mindrecord1": "files missing or of another size",
            "train.mindrecord2": "receipt damaged",
        }
    ]


def test_a_shard_that_is_built_twice_counts_once_and_says_why(files: Files, tmp_path: Path) -> None:
    contents = {f"train/a/{number}.jpg": picture(number) for number in range(9)}
    source = files({**contents, "val/a/1.jpg": picture(50), "val/a/2.jpg": picture(4)})
    progress = Asking()
    options = replace(QUICK, num_shards=3, duplicates="drop", max_rejects=ANY, max_class_loss=ANY)
    summary = pipeline.shard(source, tmp_path / "out", options, progress)
    assert (summary.built, summary.shards) == (4, 4)
    assert [set(causes.values()) for causes in progress.causes] == [
        {"not built yet"},
        {"to exclude bad or duplicate images"},
    ]
    assert len(progress.names) == 5


def test_all_options_that_differ_are_named(raw: Path, sealed: Path) -> None:
    with pytest.raises(DataprepError, match=r"3, but this command has --seed 1, --num-shards unset"):
        shard(raw, sealed, seed=1)


def test_job_over_budget_seals_nothing_and_keeps_built_shards(raw: Path, tmp_path: Path) -> None:
    (raw / "cat" / "bad.jpg").write_bytes(b"")
    out = tmp_path / "out"
    with pytest.raises(
        DataRejected, match=r"1 of 41 files was rejected \(1 empty\), more than --max-rejects 1% allows"
    ):
        shard(raw, out)
    assert not (out / "dataset.json").exists()
    assert json.loads((out / ".work" / "rejects.jsonl").read_text())["key"] == "cat/bad.jpg"
    with pytest.raises(ContractError) as unsealed:
        load_dataset(out)
    assert str(unsealed.value).startswith(f"{out} is not sealed: its job was rejected: 1 of 41 files ")
    assert str(unsealed.value).endswith(
        f"are listed in {out}/.work/rejects.jsonl; fix them and use --retry-rejects to check them again"
    )
    summary = shard(raw, out, max_rejects=Budget(1, False))
    assert (summary.built, summary.rejected) == (0, {"empty": 1})
    assert not (out / ".work" / "rejects.jsonl").exists()


def test_ignoring_a_suffix_is_recommended_only_if_no_valid_file_has_it(files: Files, tmp_path: Path) -> None:
    contents = {f"a/{number}.jpg": picture(number) for number in range(9)} | {"a/bad.jpg": b"text"}
    source = files(contents)
    with pytest.raises(DataRejected) as refused:
        shard(source, tmp_path / "out")
    assert "--ignore" not in str(refused.value)
    (source / "a" / "bad.jpg").rename(source / "a" / "x.svg")
    with pytest.raises(DataRejected, match=r"--ignore '\*\.svg' --restart ignores 1"):
        shard(source, tmp_path / "again")


def test_dataset_without_any_row_is_rejected(files: Files, tmp_path: Path) -> None:
    with pytest.raises(DataRejected, match="none of the 1 file could be written"):
        shard(files({"a/1.jpg": b""}), tmp_path / "out", max_rejects=ANY)


def test_a_file_that_changed_or_vanished_since_the_plan_is_rejected(raw: Path, tmp_path: Path) -> None:
    class Meddler(Silent):
        def planned(self, plan: Any, missing: Any) -> None:
            (raw / "cat" / "01.png").unlink()
            (raw / "cat" / "03.jpg").write_bytes(picture(99))
            (raw / "cat" / "05.png").unlink()
            os.mkfifo(raw / "cat" / "05.png")

    summary = pipeline.shard(raw, tmp_path / "out", replace(QUICK, max_rejects=ANY), Meddler())
    assert summary.rejected == {"changed": 1, "not_a_regular_file": 1, "vanished": 1}


def test_second_job_on_one_target_is_rejected(raw: Path, tmp_path: Path) -> None:
    with Workdir(tmp_path / "out"), pytest.raises(TryLater, match=rf"is being written by process {os.getpid()} on"):
        shard(raw, tmp_path / "out")


def test_target_with_other_shards_is_rejected(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.mindrecord0").write_bytes(b"x")
    with pytest.raises(DataprepError, match=r"has the file train\.mindrecord0, but no job"):
        shard(raw, tmp_path / "out")


def test_target_inside_the_source_is_rejected(raw: Path) -> None:
    with pytest.raises(DataprepError, match="is in SOURCE"):
        shard(raw, raw / "out")
    with pytest.raises(DataprepError, match=r"--quarantine .* is in SOURCE"):
        shard(raw, raw.parent / "out", quarantine=raw / "aside")


def test_images_that_do_not_fit_a_page_get_larger_pages(files: Files, tmp_path: Path) -> None:
    from PIL import Image

    from tests.dataprep.examples import encoded

    noise = Image.frombytes("RGB", (300, 200), os.urandom(180_000))
    small = encoded(noise.quantize(4), "GIF")  # a palette picture grows when it becomes RGB
    source = files({"a/1.gif": encoded(noise, "WEBP", quality=1), "a/2.gif": small, "b/3.jpg": picture(3)})
    shard(source, tmp_path / "out", val=0.0)
    entry = load_dataset(tmp_path / "out").splits["train"].shards[0]
    with ShardReader(tmp_path / "out" / entry.name) as reader:
        largest = max(len(row["image"]) for row in reader)
        assert largest > pipeline.Plan.open(tmp_path / "out" / ".work" / "plan.sqlite").geometry("train").page_size
        assert reader.geometry.page_size >= largest
    assert verify(tmp_path / "out").problems == []


def test_page_size_does_not_depend_on_which_shard_grows_first(files: Files, tmp_path: Path, monkeypatch: Any) -> None:
    from PIL import Image

    from tests.dataprep.examples import encoded

    contents = {}
    for number, side in enumerate((60, 200, 400, 90)):
        image = Image.frombytes("RGB", (side, side), os.urandom(3 * side * side))
        contents[f"a/{number}.webp"] = encoded(image, "WEBP", quality=1)
    source = files(contents)
    shard(source, tmp_path / "a", val=0.0, num_shards=4)
    original = scheduler.missing_shards
    monkeypatch.setattr(scheduler, "missing_shards", lambda *args: original(*args)[::-1])
    shard(source, tmp_path / "b", val=0.0, num_shards=4)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_mean_and_std_are_those_of_the_train_pixels(files: Files, tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image

    from tests.dataprep.examples import encoded

    images = [Image.frombytes("RGB", (4, 4), bytes(range(n, n + 48))) for n in (0, 100)]
    shard(files({f"a/{n}.png": encoded(image, "PNG") for n, image in enumerate(images)}), tmp_path / "out", val=0.0)
    pixels = load_dataset(tmp_path / "out").pixels
    values = np.concatenate([np.asarray(image).reshape(-1, 3) for image in images]).astype(float)
    assert pixels is not None
    assert pixels.images == 2
    assert pixels.mean == pytest.approx(values.mean(axis=0))
    assert pixels.std == pytest.approx(values.std(axis=0), abs=1e-6)


def test_files_get_the_mode_that_the_umask_says(sealed: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    assert {path.stat().st_mode & 0o777 for path in sealed.iterdir() if path.is_file()} == {0o666 & ~mask}


def command(raw: Path, out: Path, *options: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "dataprep",
        "shard",
        str(raw),
        str(out),
        "--num-shards",
        "8",
        "--prove",
        "off",
        *options,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("shards_before_kill", [1, 5])
def test_rerun_of_a_killed_job_with_other_workers_gives_the_same_bytes(
    raw: Path, tmp_path: Path, shards_before_kill: int
) -> None:
    calm = shard(raw, tmp_path / "calm", num_shards=8)
    out = tmp_path / "killed"
    with subprocess.Popen(command(raw, out, "--workers", "1", "-v"), stderr=subprocess.PIPE, text=True) as job:
        assert job.stderr is not None
        built = 0
        while built < shards_before_kill:
            built += job.stderr.readline().startswith("built")
        job.kill()
    assert not (out / "dataset.json").exists()
    again = subprocess.run(command(raw, out, "--workers", "2", "--json"), capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["built"] <= calm.shards - shards_before_kill
    assert digests(out) == digests(tmp_path / "calm")
    assert not (out / ".work" / "attempts").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        (signal.SIGINT, 130),
        (signal.SIGHUP, 143),
        (signal.SIGUSR1, 143),
        (signal.SIGXCPU, 143),
    ],
)
def test_signal_ends_the_job_with_its_exit_code_and_says_how_to_resume(
    raw: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    out = tmp_path / "out"
    with subprocess.Popen(command(raw, out, "--workers", "1", "-v"), stderr=subprocess.PIPE, text=True) as job:
        assert job.stderr is not None
        while not job.stderr.readline().startswith("built"):
            pass
        job.send_signal(number)
        said = job.stderr.read()
    assert job.returncode == code
    assert re.search(r"stopped; \d+ of 1\d shards are built; run the same command to resume", said)
    assert "Traceback" not in said
    shard(raw, out, num_shards=8)


def test_a_reject_of_the_scan_is_listed(raw: Path, tmp_path: Path) -> None:
    os.symlink("nowhere", raw / "cat" / "link.jpg")
    summary = shard(raw, tmp_path / "out", max_rejects=ANY)
    assert summary.rejected == {"dangling_link": 1}


def test_build_shard_is_idempotent(sealed: Path, raw: Path) -> None:
    plan = pipeline.Plan.open(sealed / ".work" / "plan.sqlite")
    with Workdir(sealed) as work:
        task = next(scheduler.make_tasks(plan, work, QUICK, plan.shards))
        receipts = [worker.build_shard(task) for _ in range(2)]
    assert receipts[0].shard == receipts[1].shard
    assert receipts[0].rejects == [] == receipts[1].rejects
    plan.close()


@pytest.mark.parametrize("seconds", [15_032_385_535, -2_147_483_648, -1, 0], ids=["2446", "1901", "1969", "1970"])
def test_files_of_any_date_are_sealed_and_known_again(raw: Path, tmp_path: Path, seconds: int) -> None:
    os.utime(raw / "cat" / "01.png", (seconds, seconds))
    assert shard(raw, tmp_path / "out").written == 40
    (tmp_path / "out" / "dataset.json").unlink()
    assert shard(raw, tmp_path / "out").built == 0
