"""The Dask engine with a real scheduler and workers that are killed, stopped or misconfigured."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import distributed
import pytest
from click.testing import CliRunner

from dataprep.build import scheduler, worker
from dataprep.build.decode_check import dispatch
from dataprep.build.engines import dask as engine
from dataprep.build.engines.dask import Unfit, WorkerCheck, check_workers, probe
from dataprep.build.scheduler import make_tasks
from dataprep.build.software import software
from dataprep.build.workdir import Workdir
from dataprep.build.worker import build_shard
from dataprep.cli.commands import main
from dataprep.errors import DataprepError, TryLater
from dataprep.plan.store import Plan
from tests.dataprep.examples import DEADLY, QUICK, die_over_an_image, digests, shard
from tests.examples import ROOT

DEADLINE_S = 60


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
    return found


class Cluster:
    """A scheduler and workers in separate processes that share a scheduler file."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.file = folder / "scheduler.json"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        options = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", ":0"]
        self.scheduler = self._start("scheduler", options, env)
        wait_for(self.file.exists, "the scheduler")

    def workers(self, count: int, **env: str) -> "list[subprocess.Popen[bytes]]":
        """Start workers without a nanny, which would restart them."""
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(self._folder)]
        return [self._start("worker", options, {"PYTHONPATH": str(ROOT), **env}) for _ in range(count)]

    def await_workers(self, count: int) -> None:
        with distributed.Client(scheduler_file=str(self.file), set_as_default=False) as client:
            client.wait_for_workers(count, timeout=DEADLINE_S)

    def _start(self, role: str, options: list[str], env: dict[str, str]) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", f"distributed.cli.dask_{role}", "--scheduler-file", str(self.file), *options]
        with (self._folder / f"{role}.log").open("ab") as log:
            started = subprocess.Popen(command, env=os.environ | env, stdout=log, stderr=log)
        self._processes.append(started)
        return started

    def stop(self) -> None:
        for started in self._processes:
            started.kill()
            started.wait()
        self._processes.clear()
        self.file.unlink(missing_ok=True)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(
        tmp_path,
        # A worker that is not heard of counts as lost after the shortest time that Dask knows, which is 5 s.
        DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="1s",
    )
    yield started
    started.stop()


@pytest.fixture
def calm(raw: Path, tmp_path: Path) -> dict[str, bytes]:
    """The files of an undisturbed run on one machine."""
    shard(raw, tmp_path / "calm", num_shards=12)
    return digests(tmp_path / "calm")


def job(raw: Path, out: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "dataprep", "shard", str(raw), str(out)]
    return [*command, "--num-shards", "12", "--prove", "off", "--engine", "dask", *options]


@pytest.mark.slow
def test_cluster_runs_the_decode_check(raw: Path, tmp_path: Path, cluster: Cluster) -> None:
    cluster.workers(1)
    shard(raw, tmp_path / "here", num_shards=2, prove="decode")
    shard(raw, tmp_path / "there", num_shards=2, prove="decode", engine="dask", dask_scheduler_file=cluster.file)
    assert digests(tmp_path / "there") == digests(tmp_path / "here")
    with distributed.Client(scheduler_file=str(cluster.file), set_as_default=False) as client:
        assert not any(client.run(_has_child).values())


def _has_child() -> bool:
    return dispatch._child is not None


@pytest.mark.slow
def test_three_workers_of_which_one_is_killed_give_the_bytes_of_one_machine(
    raw: Path, tmp_path: Path, calm: dict[str, bytes], cluster: Cluster
) -> None:
    cluster.workers(2)
    (killed,) = cluster.workers(1, DATAPREP_KILL_AT="build.row")
    cluster.await_workers(3)
    out = tmp_path / "out"
    shard(raw, out, num_shards=12, engine="dask", dask_scheduler_file=cluster.file)
    assert killed.wait(DEADLINE_S) == -signal.SIGKILL
    assert digests(out) == calm
    assert {path.name for path in (out / ".work").iterdir()} == {"lock", "plan.sqlite", "receipts", "run.jsonl"}


@pytest.mark.slow
def test_killed_scheduler_is_reported_in_one_sentence_and_a_new_scheduler_resumes(
    raw: Path, tmp_path: Path, calm: dict[str, bytes], cluster: Cluster
) -> None:
    out = tmp_path / "out"
    (worker,) = cluster.workers(1)
    command = job(raw, out, "--dask-scheduler-file", str(cluster.file))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        wait_for(lambda: list(out.glob(".work/receipts/*.json")), "the first shard")
        worker.send_signal(signal.SIGSTOP)
        cluster.scheduler.kill()
        _, said = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 75, said
    assert "the connection to the Dask scheduler was lost" in said
    assert "Traceback" not in said
    assert not (out / "dataset.json").exists()
    cluster.stop()
    again = Cluster(tmp_path)
    try:
        again.workers(1)
        summary = shard(raw, out, num_shards=12, engine="dask", dask_scheduler_file=again.file)
    finally:
        again.stop()
    assert 0 < summary.built < summary.shards
    assert digests(out) == calm


def stop_once(task: Any) -> Any:
    """Run build_shard in a worker that stops during its first shard until SIGCONT."""

    def note_current(self: Any, item: Any) -> None:
        original(self, item)
        with suppress(FileExistsError):
            (Path(task.source) / "stopped").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGSTOP)
            worker._Build.note_current = original  # type: ignore[method-assign]
            woken.append(True)

    woken: list[bool] = []
    original = worker._Build.note_current
    worker._Build.note_current = note_current  # type: ignore[method-assign]
    try:
        return worker.build_shard(task)
    finally:
        worker._Build.note_current = original  # type: ignore[method-assign]
        if woken:
            (Path(task.source) / "ended").touch()


@pytest.mark.slow
def test_worker_that_wakes_after_its_task_was_reassigned_changes_nothing(
    raw: Path, tmp_path: Path, calm: dict[str, bytes], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "build_shard", stop_once)
    out = tmp_path / "out"
    started = cluster.workers(2)
    cluster.await_workers(2)
    shard(raw, out, num_shards=12, engine="dask", dask_scheduler_file=cluster.file)
    assert digests(out) == calm
    assert not (raw / "ended").exists()
    for process in started:
        process.send_signal(signal.SIGCONT)
    wait_for((raw / "ended").exists, "the end of the task that was given away")
    assert digests(out) == calm
    assert not list(out.glob(".work/attempts"))


@pytest.mark.slow
def test_without_a_worker_the_job_ends_after_a_timeout(
    raw: Path, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "WORKERS_S", 0.5)
    options: dict[str, Any] = {"engine": "dask", "dask_scheduler_file": cluster.file}
    with pytest.raises(TryLater, match=r"has had no worker for 0\.5 s; start workers"):
        shard(raw, tmp_path / "out", **options)
    cluster.workers(1, DATAPREP_KILL_AT="build.row")
    cluster.await_workers(1)
    with pytest.raises(TryLater, match=r"has had no worker for 0\.5 s; start workers"):
        shard(raw, tmp_path / "out", **options)


@pytest.mark.slow
def test_file_that_kills_workers_repeatedly_is_named(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (raw / "cat" / "large.jpg").write_bytes(DEADLY)
    monkeypatch.setattr(scheduler, "build_shard", die_over_an_image)
    cluster = Cluster(tmp_path, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    try:
        cluster.workers(2)
        cluster.await_workers(2)
        with pytest.raises(DataprepError, match=r"were killed .* at 'cat/large\.jpg'"):
            shard(raw, tmp_path / "out", engine="dask", dask_scheduler_file=cluster.file, num_shards=1, val=0.0)
    finally:
        cluster.stop()


@pytest.mark.slow
def test_local_cluster_gives_the_same_bytes_and_prints_nothing(
    raw: Path, tmp_path: Path, calm: dict[str, bytes]
) -> None:
    command = job(raw, tmp_path / "out", "--workers", "2", "-q")
    with socket.socket() as other:
        with suppress(OSError):
            other.bind(("", 8787))  # Dask's own port is another's
            other.listen()
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert digests(tmp_path / "out") == calm


def test_local_cluster_without_shared_memory_is_reported_in_one_sentence(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("Nanny failed to start.") from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(distributed, "LocalCluster", refuse)
    with pytest.raises(DataprepError, match=r"No space left on device\); they need /dev/shm"):
        shard(raw, tmp_path / "out", engine="dask", workers=1)


def test_a_task_run_twice_at_once_is_committed_once(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    options = replace(QUICK, num_shards=3)
    with closing(Plan.open(sealed / ".work" / "plan.sqlite")) as plan, Workdir(sealed) as work:
        task = next(make_tasks(plan, work, options, plan.shards))
        first, second = build_shard(task), build_shard(task)
        assert first.attempt != second.attempt
        assert replace(first, attempt=None) == replace(second, attempt=None)
        work.commit(second)
    assert digests(sealed) == before
    with pytest.raises(FileNotFoundError):  # the folder was swept: a straggler fails and touches nothing
        build_shard(task)
    assert digests(sealed) == before


class OneWorker:
    """A Client whose one worker is this process."""

    def run(self, function: Any, *args: Any, on_error: str) -> dict[str, Any]:
        try:
            return {"tcp://10.0.0.7:41": function(*args)}
        except Exception as error:
            return {"tcp://10.0.0.7:41": error}


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerCheck:
    monkeypatch.setattr(engine, "SHARED_S", 0.0)
    (tmp_path / "attempts").mkdir()
    (tmp_path / "attempts" / "token").touch()
    return WorkerCheck(software(), str(tmp_path), tmp_path / "attempts", "token", quiet=False)


def test_worker_with_the_same_software_and_folders_is_accepted(check: WorkerCheck) -> None:
    check_workers(OneWorker(), check)


@pytest.mark.parametrize("name", ["mindspore-dataprep", "Pillow", "SQLite"])
def test_worker_with_other_software_is_rejected_by_name(check: WorkerCheck, name: str) -> None:
    other = replace(check, software={**check.software, name: "0.0"})
    with pytest.raises(DataprepError, match=rf"worker tcp://10.* has {name} .*, but this process has 0\.0"):
        check_workers(OneWorker(), other)


def test_worker_that_does_not_see_the_folders_is_rejected(check: WorkerCheck, tmp_path: Path) -> None:
    with pytest.raises(DataprepError, match=r"worker tcp://10.* does not see SOURCE .*gone"):
        check_workers(OneWorker(), replace(check, source=str(tmp_path / "gone")))
    with pytest.raises(DataprepError, match=r"worker tcp://10.* does not see .*attempts as it is here"):
        check_workers(OneWorker(), replace(check, token="of another machine"))


def test_worker_with_another_encoding_is_rejected_for_non_ascii_paths(check: WorkerCheck, tmp_path: Path) -> None:
    check_workers(OneWorker(), replace(check, encoding="gbk"))
    with pytest.raises(DataprepError, match=r"worker tcp://10.* does not encode file names as gbk: start it with"):
        check_workers(OneWorker(), replace(check, encoding="gbk", attempts=tmp_path / "数据"))


def test_worker_whose_probe_is_not_visible_is_rejected(check: WorkerCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    written = probe(check)
    (check.attempts / written).unlink()
    monkeypatch.setattr(engine, "probe", lambda check: written)
    with pytest.raises(DataprepError, match=r"worker tcp://10.* writes below .* are not visible here"):
        check_workers(OneWorker(), check)


def test_worker_that_cannot_write_or_import_the_program_is_rejected(
    check: WorkerCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, message in (
        (PermissionError(13, "Permission denied"), "cannot write below .*: Permission denied"),
        (ModuleNotFoundError("No module named 'dataprep'"), "install the same version of mindspore-dataprep"),
        (Exception("ModuleNotFoundError(...)"), "install the same version of mindspore-dataprep"),  # as Dask sends it
    ):

        def fail(_: WorkerCheck, error: Exception = error) -> str:
            raise error

        monkeypatch.setattr(engine, "probe", fail)
        with pytest.raises(DataprepError, match=message):
            check_workers(OneWorker(), check)


def test_late_worker_is_checked_at_its_first_task(check: WorkerCheck) -> None:
    assert engine.on_worker(check, len, "four") == 4
    with pytest.raises(Unfit, match=r"the Dask worker \d+ on .* has Pillow"):
        engine.on_worker(replace(check, software={"Pillow": "0.0"}, token="late"), len, "four")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dask_address": "tcp://127.0.0.1:1"}, TryLater, "no Dask scheduler answers at tcp://127.0.0.1:1 within"),
        ({"dask_address": "carrier://pigeon"}, DataprepError, "'carrier://pigeon' is not the address"),
        ({"dask_scheduler_file": Path("nowhere.json")}, TryLater, "no Dask scheduler has written its address"),
    ],
)
def test_missing_scheduler_is_reported(
    raw: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    error: type[DataprepError],
    message: str,
) -> None:
    monkeypatch.setattr(engine, "CONNECT_S", 0.3)
    with pytest.raises(DataprepError, match=message) as raised:
        shard(raw, tmp_path / "out", engine="dask", **options)
    assert raised.type is error


def test_missing_package_is_named(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DataprepError, match="needs the package distributed: pip install distributed"):
        shard(raw, tmp_path / "out", engine="dask")
    assert not (tmp_path / "out").exists(), "nothing is scanned before that"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dask-address", "tcp://here:1"], "--dask-address needs --engine dask"),
        (["--dask-scheduler-file", "x.json", "--engine", "serial"], "--dask-scheduler-file needs --engine dask"),
        (["--engine", "dask", "--dask-address", "tcp://here:1", "--dask-scheduler-file", "x.json"], "not both"),
    ],
)
def test_conflicting_options_are_wrong_usage(raw: Path, tmp_path: Path, options: Any, message: str) -> None:
    done = CliRunner().invoke(main, ["shard", str(raw), str(tmp_path / "out"), *options])
    assert (done.exit_code, message in done.stderr) == (2, True)
