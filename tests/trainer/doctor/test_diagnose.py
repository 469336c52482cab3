"""Real measurements on a tiny set: they must be whole and agree with each other, whatever the figures are."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mindspore.dataset as ds
import pytest
from click.testing import CliRunner

from tests.examples import ROOT
from tests.trainer.diagnosis import FAST, FOUND, RATES, SLOW, trial
from trainer.cli.commands import cli
from trainer.config import RunConfig
from trainer.device.context import InEffect, Machine
from trainer.device.kernels import Processor
from trainer.doctor import diagnose
from trainer.doctor.advice import conclude
from trainer.doctor.convolution import Convolutions
from trainer.doctor.notes import Note
from trainer.doctor.remedies import Remedy
from trainer.doctor.samples import Row, sample_rows
from trainer.doctor.session import Session
from trainer.doctor.stages import CompiledStep, Measured, Measurement, Stage, Timer, loop_stage
from trainer.doctor.traps import find_traps
from trainer.doctor.trials import Trials
from trainer.doctor.verdict import Verdict
from trainer.errors import TrainerError
from trainer.feed.pipeline import train_rows
from trainer.plan.run_plan import plan_run
from trainer.signals import StopSignals

pytestmark = pytest.mark.slow

QUICK = RunConfig("", device="CPU", workers=1, prefetch=2, image_size=16, batch_size=16)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_every_stage_is_measured_and_judged_and_no_file_is_left(stripes: Path, inside: Path, cpu: InEffect) -> None:
    told: list[Note] = []
    found = diagnose.diagnose(replace(QUICK, dataset=str(stripes), sink=True), 4.0, told.append, StopSignals())
    names = [part.part for part in found.parts]
    assert names == ["read", "decode", "augment", "feed", "step O0", "loop, sink off"]
    assert all(part.images_per_s > 0 and part.memory_bytes > 0 for part in found.parts)
    rates = {part.part: part.images_per_s for part in found.parts}
    assert found.verdict.limit <= min(rates["feed"], rates["step O0"])
    assert (found.short_side, found.sink) == (32, "MindSpore cannot sink on CPU and would ignore the request silently")
    assert "sink not in effect" in [trap.name for trap in found.traps]
    asked = {f"--amp-level {level}" for level in ("O1", "O2", "O3", "auto")}
    assert asked <= {one.flags for one in found.tried} | set(found.failed) | set(found.left_out)
    assert found.tried, "what limits is tried, however short the time"
    assert all(one.rounds >= 3 for one in found.tried)
    assert len({one.flags for one in found.advice}) == len(found.advice)
    assert {one.flags for one in found.advice} == {one.flags for one in found.tried}
    assert all(one.gain >= 1.05 for one in found.advice if one.outcome == "helps")
    assert found.convolutions is not None
    assert not found.convolutions.in_effect.is_reference
    assert os.listdir(inside / "work") == []
    assert [path.name for path in inside.iterdir()] == ["work"]


def test_feed_bound_run_is_tried_with_smaller_shards(
    make_set: Callable[..., Path], cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = diagnose.judge
    monkeypatch.setattr(diagnose, "judge", lambda rates: replace(judge(rates), bound="feed"))
    config = replace(QUICK, dataset=str(make_set({"train": 48})))
    found = diagnose.diagnose(config, 4.0, lambda text: None, StopSignals())
    tried = {one.flags: one for one in found.tried if one.part == "feed"}
    assert {"dataprep shard ... --resize 18", "--prefetch 4"} <= tried.keys()
    assert all(one.rounds >= 3 for one in tried.values())


def test_o0_is_tried_on_cpu_however_short_the_time(
    make_set: Callable[..., Path], cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = diagnose.judge
    monkeypatch.setattr(diagnose, "judge", lambda rates: replace(judge(rates), bound="compute", ratio=2.0))
    config = replace(QUICK, dataset=str(make_set({"train": 48})), amp_level="O2")
    found = diagnose.diagnose(config, 4.0, lambda text: None, StopSignals())
    assert next(one.flags for one in found.tried if one.part == "step") == "--amp-level O0"


class Recorder:
    """Trials that note what they are asked to try."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.asked: list[tuple[str, list[str], bool | None]] = []
        self.promising: list[object] = []

    def feed(self, remedies: list[Remedy], seconds: float) -> None:
        self.asked.append(("feed", [one.flags for one in remedies], None))

    def step(self, remedies: list[Remedy], seconds: float, must: bool) -> None:
        self.asked.append(("step", [one.flags for one in remedies], must))

    def resize(self, remedy: Remedy, rows: list[Row], seconds: float) -> None:
        self.asked.append(("resize", [remedy.flags], None))

    def copy(self, remedy: Remedy, rows: list[Row], seconds: float) -> None:
        self.asked.append(("copy", [remedy.flags], None))

    def try_left_out(self, seconds: float) -> None:
        self.asked.append(("left out", [], None))


@pytest.fixture
def asked(stripes: Path, tmp_path: Path) -> Callable[..., list[tuple[str, list[str], bool | None]]]:
    """The trials for a verdict on a run with these options, in order."""

    def ask(
        verdict: Verdict, parts: list[Measured] = FOUND.parts, **options: Any
    ) -> list[tuple[str, list[str], bool | None]]:
        plan = plan_run(RunConfig(str(stripes), device="CPU", batch_size=8, **options), Machine(ascend=False, cores=2))
        recorder = Recorder(Session(plan, tmp_path, 60.0, StopSignals(), lambda text: None))
        level = plan.effect.precision.amp_level
        diagnose._try(cast(Trials, recorder), replace(FOUND, amp_level=level, verdict=verdict, parts=parts), [])
        return recorder.asked

    return ask


FEED, COMPUTE = FOUND.verdict, replace(FOUND.verdict, bound="compute")


def test_o0_is_tried_first_if_the_step_is_the_bottleneck_on_cpu(asked: Callable[..., Any]) -> None:
    [(part, flags, must), *rest] = asked(COMPUTE, amp_level="O2")
    assert (part, flags[0], must) == ("step", "--amp-level O0", True)
    assert rest == [("left out", [], None)], "the feed does not limit"


def test_settings_of_a_feed_bound_run_are_tried_before_the_levels(asked: Callable[..., Any]) -> None:
    [(first, _, _), (second, flags, _), (third, levels, must), _] = asked(FEED)
    assert (first, second, third, must) == ("resize", "feed", "step", False)
    assert "--prefetch 16" in flags
    assert all(flag.startswith("--amp-level") for flag in levels)


@pytest.mark.parametrize(("ratio", "parts"), [(9.9, {"resize", "feed", "step"}), (10.0, {"resize", "feed"})])
def test_no_time_is_spent_on_a_step_ten_times_off_the_bottleneck(
    ratio: float, parts: set[str], asked: Callable[..., Any]
) -> None:
    assert {part for part, _, _ in asked(replace(FEED, ratio=ratio))} - {"left out"} == parts


def test_settings_of_feed_and_step_are_tried_if_they_share_cores(asked: Callable[..., Any]) -> None:
    shared = replace(COMPUTE, shared=True, room={"feed": 1.3, "step": 2.0})
    assert [part for part, _, _ in asked(shared)] == ["step", "resize", "feed", "left out"]


def test_slow_storage_is_tried_with_a_copy_instead_of_smaller_shards(asked: Callable[..., Any]) -> None:
    reading = replace(FEED, slowest="read", ratio=20.0)
    cold = [replace(part, storage_bytes=1e6 if part.part == "read" else 0.0) for part in FOUND.parts]
    assert [part for part, _, _ in asked(reading, parts=cold)] == ["copy", "feed", "left out"]
    from_cache = [part for part, _, _ in asked(reading, parts=FOUND.parts)]
    assert from_cache == ["resize", "feed", "left out"], "another disk would not help"


@pytest.mark.parametrize(("seconds", "count"), [(math.inf, 20), (0.0, 8)])
def test_sampling_of_a_slow_storage_ends_with_a_batch(seconds: float, count: int, stripes: Path, cpu: InEffect) -> None:
    plan = plan_run(RunConfig(str(stripes), device="CPU", batch_size=8), Machine(ascend=False, cores=2))
    assert len(sample_rows(plan, 20, seconds)) == count


@pytest.mark.parametrize(("vary_order", "orders"), [(True, 3), (False, 1)])
def test_rounds_do_not_start_with_cached_rows(
    vary_order: bool, orders: int, stripes: Path, tmp_path: Path, cpu: InEffect
) -> None:
    plan = plan_run(RunConfig(str(stripes), device="CPU", batch_size=8), Machine(ascend=False, cores=2))
    session = Session(plan, tmp_path, 60.0, StopSignals(), lambda text: None, vary_order=vary_order)
    first: list[bytes] = []

    def work(timer: Timer) -> None:
        rows = train_rows(plan.folder, plan.dataset, plan.effect)
        images = [image.tobytes() for image, _ in rows.create_tuple_iterator(num_epochs=1, output_numpy=True)]
        first.append(b"".join(images[:8]))
        timer.done(1)

    seed = ds.config.get_seed()
    try:
        for _ in range(3):
            session.take(Stage("x", work), 0.0)
    finally:
        ds.config.set_seed(seed)
    assert len(set(first)) == orders


def test_stages_far_from_the_bottleneck_are_measured_once(
    stripes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {"read": 4000, "feed": 200, "step": 1999}
    monkeypatch.setattr(
        Session,
        "rounds",
        lambda self, parts, count, *rest: {
            part.name: [Measurement(rates[part.name], 1.0, 1.0, 0)] * count for part in parts
        },
    )
    plan = plan_run(RunConfig(str(stripes), device="CPU"), Machine(ascend=False, cores=2))
    session = Session(plan, tmp_path, 60.0, StopSignals(), lambda text: None)
    turns = diagnose._stage_turns(session, [Stage(name, lambda timer: None) for name in rates])
    assert {name: len(done) for name, done in turns.items()} == {"read": 1, "feed": 3, "step": 3}


def test_fewer_rows_than_a_batch_are_rejected(make_set: Callable[..., Path]) -> None:
    done = CliRunner().invoke(cli, ["doctor", str(make_set({"train": 20})), "--device", "CPU"])
    assert isinstance(done.exception, TrainerError)
    assert "a batch of 32 is larger than the train split (20 rows); use --batch-size 20 or less" in str(done.exception)


def test_rank_of_msrun_is_rejected(stripes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MS_ROLE", "MS_WORKER")
    with pytest.raises(TrainerError, match="start it without msrun"):
        diagnose.diagnose(replace(QUICK, dataset=str(stripes)), 6.0, lambda text: None, StopSignals())


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


@pytest.mark.parametrize(
    ("seen", "names", "gain"),
    [
        (Convolutions(SLOW, FAST), ("jit_uni_ncsp:conv+ref:any",), 45.0),
        (Convolutions(FAST, SLOW), (), None),  # our own choice: no trap
        (Convolutions(SLOW), (), None),
        (None, (), None),
    ],
)
def test_reference_path_is_reported_if_the_user_set_it(
    seen: Convolutions | None, names: tuple[str, ...], gain: float | None, stripes: Path
) -> None:
    processor = Processor("AVX512_CORE", "ONEDNN_MAX_CPU_ISA", "AVX512_CORE", "2.10.0")
    plan = plan_run(replace(QUICK, dataset=str(stripes)), Machine(ascend=False, cores=2, processor=processor))
    observed = diagnose.observe(plan, replace(FOUND, convolutions=seen))
    assert (observed.kernels_asked, observed.reference, observed.kernels_gain) == ("AVX512_CORE", names, gain)


def test_ascend_settings_come_from_its_plan(stripes: Path) -> None:
    config = RunConfig(str(stripes), device="Ascend", mode="pynative", amp_level="O0", sink=False, workers=2)
    plan = plan_run(config, Machine(ascend=True, cores=64))
    tried = [trial("--amp-level O2", "step", 100, 1.9, 1.9, 1.9), trial("--batch-size 64", "step", 100, 1.3, 1.3, 1.3)]
    advice = conclude(tried, replace(RATES, step=100.0))
    verdict = replace(FOUND.verdict, room={"feed": 3.2, "step": 1.0})
    found = replace(FOUND, device="Ascend", cores=64, tried=tried, advice=advice, short_side=90, verdict=verdict)
    seen = diagnose.observe(plan, found)
    assert (seen.device, seen.graph, seen.amp_level, seen.sink, seen.sink_asked) == (
        "Ascend",
        False,
        "O0",
        False,
        False,
    )
    assert (seen.workers, seen.workers_asked, seen.cores, seen.cores_busy) == (2, 2, 64, 1.9)
    assert (seen.image_side, seen.resize_side, seen.short_side) == (64, 73, 90)
    assert (seen.o2_gain, seen.batch_gain, seen.graph_gain) == (1.9, 1.3, None)
    assert (seen.feed_limits, seen.step_limits, seen.reading_limits) == (True, False, False)
    names = [(trap.name, trap.limits) for trap in find_traps(seen)]
    assert names == [
        ("few workers", True),
        ("pynative mode", False),
        ("O0 on Ascend", False),
        ("small batch", False),
    ]


@pytest.mark.parametrize(
    ("ascend", "sink", "loops", "told"),
    [
        (True, None, ["loop, sink on", "loop, sink off"], "on"),
        (True, False, ["loop, sink on", "loop, sink off"], "off"),
        (False, None, ["loop, sink off"], "MindSpore cannot sink on CPU"),
    ],
)
def test_loop_is_measured_with_and_without_sink_if_possible(
    ascend: bool,
    sink: bool | None,
    loops: list[str],
    told: str,
    stripes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(ascend=ascend, cores=8)
    monkeypatch.setattr("trainer.doctor.session.this_machine", lambda device: machine)
    monkeypatch.setattr(Session, "rounds", lambda self, parts, *rest: {part.name: [] for part in parts})
    plan = plan_run(RunConfig(str(stripes), sink=sink), machine)
    session = Session(plan, tmp_path, 10.0, StopSignals(), lambda text: None)
    turns = diagnose._loop_turns(session, CompiledStep(plan), full=True)
    assert list(turns) == loops
    assert diagnose._sink(plan, turns) == told


def test_loop_of_a_sink_is_warm_after_one_callback(stripes: Path, tmp_path: Path) -> None:
    plan = plan_run(RunConfig(str(stripes), device="Ascend"), Machine(ascend=True, cores=8))
    part = loop_stage("loop, sink on", plan, CompiledStep(plan))
    assert part.warm == 1, "one callback stands for a whole sink"
    assert plan.effect.train.arguments["dataset_sink_mode"] is True
    off = plan_run(replace(plan.config, sink=False), Machine(ascend=True, cores=8))
    assert loop_stage("loop, sink off", off, CompiledStep(off)).warm == 2 + off.effect.prefetch
    assert loop_stage("loop, sink off", off, CompiledStep(off), full=True).warm == 2
