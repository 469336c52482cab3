"""Real measurements on a tiny set: they must be whole and agree with each other, whatever the figures are."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from trainer import doctor
from trainer.cli import cli
from trainer.config import RunConfig
from trainer.device import InEffect
from trainer.errors import TrainerError
from trainer.signals import StopSignals

QUICK = RunConfig("", device="CPU", workers=1, prefetch=2, image_size=16, batch_size=16)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_every_part_is_measured_and_judged_and_nothing_is_left(stripes: Path, inside: Path, cpu: InEffect) -> None:
    told: list[str] = []
    found = doctor.diagnose(replace(QUICK, dataset=str(stripes), sink=True), 6.0, told.append, StopSignals())
    names = [part.part for part in found.parts]
    assert names == ["read", "decode", "augment", "feed", "step O0", "loop, sink off"]
    assert all(part.images_per_s > 0 and part.memory_bytes > 0 for part in found.parts)
    rates = {part.part: part.images_per_s for part in found.parts}
    assert found.verdict.limit <= min(rates["feed"], rates["step O0"])
    assert (found.short_side, found.sink) == (32, "MindSpore cannot sink on CPU and would ignore the request silently")
    assert "sink not in effect" in [trap.name for trap in found.traps]
    asked = {f"--amp-level {level}" for level in ("O1", "O2", "O3", "auto")}
    assert asked <= {one.flags for one in found.tried} | set(found.failed) | set(found.left_out)
    assert all(one.helps is False or one.gain >= 1.05 for one in found.tried)
    assert os.listdir(inside / "work") == []
    assert [path.name for path in inside.iterdir()] == ["work"]


@pytest.mark.slow
def test_feed_that_limits_is_tried_with_smaller_shards(
    make_set: Callable[..., Path], cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = doctor.judge
    monkeypatch.setattr(doctor, "judge", lambda rates: replace(judge(rates), bound="feed"))
    config = replace(QUICK, dataset=str(make_set({"train": 48})))
    found = doctor.diagnose(config, 6.0, lambda text: None, StopSignals())
    flags = [one.flags for one in found.tried if one.part == "feed"]
    assert flags[0] == "dataprep shard ... --resize 18"
    assert "--prefetch 4" in flags


def test_fewer_rows_than_a_batch_are_refused_in_a_sentence(make_set: Callable[..., Path]) -> None:
    done = CliRunner().invoke(cli, ["doctor", str(make_set({"train": 20})), "--device", "CPU"])
    assert isinstance(done.exception, TrainerError)
    assert "a batch of 32 is larger than the train split (20 rows); use --batch-size 20 or less" in str(done.exception)


def test_rank_of_msrun_is_refused(stripes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MS_ROLE", "MS_WORKER")
    with pytest.raises(TrainerError, match="start it without msrun"):
        doctor.diagnose(replace(QUICK, dataset=str(stripes)), 6.0, lambda text: None, StopSignals())


@pytest.mark.slow
def test_interrupted_doctor_leaves_nothing_behind(stripes: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainer", "doctor", str(stripes), "--device", "CPU", "--image-size", "16"]
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, env=environment)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("measuring"):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "Error: stopped by SIGINT"
    assert os.listdir(tmp_path) == ["tmp"]
    assert os.listdir(tmp_path / "tmp") == []
