"""Progress and results of a job, on a stream that is not a terminal."""

import io
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from dataprep.build.receipt import Moments, Receipt
from dataprep.cli import terminal
from dataprep.cli.terminal import TerminalProgress
from dataprep.cli.text import as_lines
from dataprep.mindrecord.format import Geometry
from dataprep.pipeline import Summary
from dataprep.plan.store import PlannedShard
from schemas.dataset import Shard

SHARDS = [PlannedShard(f"train.mindrecord{n}", "train", n, 100 * n, 100 * n + 99, 1) for n in range(2)]
PLAN: Any = SimpleNamespace(warnings=[], item_count=200, classes=("a",), shards=SHARDS)


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(terminal, "time", clock)
    return clock


def receipt() -> Receipt:
    shard = Shard("train.mindrecord0", 99, 1, "", 1, "")
    return Receipt(shard, "train", Geometry(1 << 14, 1 << 15), [99], [Any], Counter(), Moments())  # type: ignore[list-item]


def test_images_in_progress_count_before_their_shard_is_committed(clock: Clock) -> None:
    stream = io.StringIO()
    progress = TerminalProgress(stream=stream)
    progress.planned(PLAN, dict.fromkeys(SHARDS, "not built yet"))
    clock.now += 40
    progress.under_way(80)
    assert stream.getvalue().splitlines()[-1] == "built 80 of 200 images, 2 images/s, 0 rejected, about 1 min 00 s left"


def test_rate_and_time_left_are_based_on_the_last_minute(clock: Clock) -> None:
    stream = io.StringIO()
    progress = TerminalProgress(stream=stream)
    progress.planned(PLAN, dict.fromkeys(SHARDS, "not built yet"))
    for second in range(0, 3600, 30):  # an hour for the first ten images
        clock.now = 1000.0 + second
        progress.under_way(10)
    for done in range(10, 120, 10):  # then one a second
        clock.now += 10
        progress.under_way(done)
    assert "90 of 200 images, 1 images/s, 0 rejected, about 1 min 50 s left" in stream.getvalue().splitlines()[-1]


def test_no_time_is_left_when_all_images_are_done(clock: Clock) -> None:
    stream = io.StringIO()
    progress = TerminalProgress(stream=stream)
    progress.planned(PLAN, dict.fromkeys(SHARDS, "not built yet"))
    clock.now += 40
    progress.under_way(200)
    assert stream.getvalue().splitlines()[-1] == "built 200 of 200 images, 5 images/s, 0 rejected"


@pytest.mark.parametrize(("check", "bottleneck"), [(100.0, "decode check 100% of the job"), (1.0, "decode 40%")])
def test_the_time_line_fits_100_columns_and_marks_the_bottleneck(check: float, bottleneck: str) -> None:
    stages = {"decode": 40.0, "encode": 30.0, "write": 20.0, "read": 10.0, "all": 100.0, "prove": check}
    counts: dict[str, Any] = {"found": 9, "written": 9, "classes": 2, "shards": 1, "built": 1, "seconds": 100.0}
    names = ("rejected", "ignored", "changed", "warnings", "duplicates", "splits")
    empty: dict[str, Any] = {name: {} for name in names}
    summary = Summary(out="out", digest="", **counts, **empty, stages=stages)
    (line,) = (line for line in as_lines(summary) if line.startswith("  time "))
    assert len(line) <= 100
    assert f"{bottleneck} (bottleneck)" in line


def test_rejected_files_are_counted_after_their_shard_is_committed(clock: Clock) -> None:
    stream = io.StringIO()
    progress = TerminalProgress(stream=stream)
    progress.planned(PLAN, dict.fromkeys(SHARDS, "not built yet"))
    clock.now += 40
    progress.built(receipt(), SHARDS[0])
    assert "built 100 of 200 images, 2 images/s, 1 rejected" in stream.getvalue()
    assert progress.stopped() == "stopped; 1 of 2 shards are built; run the same command to resume"


@pytest.mark.parametrize(("count", "said"), [(0, "0 classes"), (1, "1 class"), (2000, "2,000 classes")])
def test_one_item_is_singular(count: int, said: str) -> None:
    assert terminal.many(count, "class", "classes") == said
    assert terminal.many(count, "shard") == said.replace("class", "shard").replace("shardes", "shards")


def test_shards_left_to_build_are_reported_with_their_cause() -> None:
    stream = io.StringIO()
    progress = TerminalProgress(stream=stream)
    shards = [PlannedShard(f"train.mindrecord{n}", "train", n, n, n, 1) for n in range(6)]
    plan: Any = SimpleNamespace(warnings=[], item_count=6, classes=("a",), shards=shards)
    progress.planned(plan, dict.fromkeys(shards, "not built yet"))
    assert stream.getvalue() == "planned: 6 images in 1 class, 6 shards\n"
    left = dict.fromkeys(shards[:4], "not built yet") | {shards[5]: "pages too small"}
    progress.planned(plan, left)
    assert stream.getvalue().splitlines()[-1] == (
        "5 shards left to build: not built yet (train.mindrecord0, train.mindrecord1, train.mindrecord2 and 1 more), "
        "pages too small (train.mindrecord5)"
    )
