"""Start the ranks of a run on this host with MindSpore's msrun, and end them together.

msrun starts each rank in its own session with its output in a log file, exits a minute after a rank has died (measured
on 2.10), and leaves all ranks running on SIGTERM. So each rank writes its process number and its exit code into files,
and the launcher watches those. A signal is passed to all ranks, which agree on the step after which they save and stop.
A process whose parent dies is killed by the kernel. With several hosts, one launcher runs on each of them.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from schemas.process.stop_signals import exit_code, stop_signals
from trainer.cli.node_notes import NodeNotes
from trainer.cli.rank_watch import RankWatch, last_lines, process_state, send, slowest
from trainer.config import RunConfig
from trainer.device import rank
from trainer.errors import Interrupted, TrainerError, WrongUsage
from trainer.runs.kill_points import LAUNCHER
from trainer.signals import StopSignals

PR_SET_PDEATHSIG = 1
POLL_S = 0.2
GRACE_S = 5.0  # for the other ranks, after rank 0 has ended
LOGS = "ranks"  # folder of the logs, in the run folder
# Seconds between two tries of a rank to reach the scheduler, which starts at the same time. MindSpore's default is 3 to
# 5, with which a run of two ranks starts 5 s later (measured on 2.10).
RETRIES = {"MS_RETRY_INTERVAL_LOWER": "1", "MS_RETRY_INTERVAL_UPPER": "1"}
JOIN_S = 300  # for all ranks to connect

# Programs of a rank and of msrun. {home} is the folder of this package, which may not be on the path. It replaces the
# working directory on the path, where a file of the user may shadow a module.
RANK = """import json, sys
sys.path[0] = {home!r}
from trainer.cli import launch
launch.stay_with_parent()
from trainer.cli.commands import main
sys.argv[1:] = json.loads({arguments!r})
main()
"""
MSRUN = """import sys
sys.path[0] = {home!r}
from trainer.cli import launch
launch.stay_with_parent()
from mindspore.parallel.cluster.run import main
main()
"""


@dataclass(frozen=True)
class Job:
    """The ranks of a run and the share of this host: `ranks` on `nodes` hosts, of which this is number `node`.

    `master` is HOST:PORT of host 0, None with one host. `bind` is core, numa or None. `timeout_s` is the longest time
    without progress.
    """

    ranks: int
    bind: str | None = None
    timeout_s: float = 1800.0
    nodes: int = 1
    node: int = 0
    master: str | None = None

    @classmethod
    def of(cls, config: RunConfig) -> "Job":
        """Return the job that a configuration requests; raise WrongUsage if its options contradict each other."""
        ranks, nodes, node = config.ranks or 1, config.nodes or 1, config.node_rank or 0
        if nodes == 1 and (config.master or config.node_rank is not None):
            raise WrongUsage("--master and --node-rank are for several hosts: give --nodes too")
        if nodes > 1:
            _check_nodes(config, ranks, nodes)
        return cls(ranks, config.bind, config.rank_timeout, nodes, node, config.master)

    @property
    def local(self) -> range:
        """The ranks of this host."""
        share = self.ranks // self.nodes
        return range(self.node * share, (self.node + 1) * share)


def _check_nodes(config: RunConfig, ranks: int, nodes: int) -> None:
    missing = [name for name in ("node_rank", "master", "out") if getattr(config, name) is None]
    if missing:
        option = f"--{missing[0].replace('_', '-')}"
        raise WrongUsage(f"--nodes needs {option}: give --node-rank 0 to {nodes - 1}, --master HOST0:PORT and --out")
    if ranks % nodes:
        raise WrongUsage(f"--ranks {ranks} is the number on all hosts: give a multiple of --nodes {nodes}")
    if not 0 <= (config.node_rank or 0) < nodes:
        raise WrongUsage(f"--node-rank {config.node_rank} is not in 0 to {nodes - 1}")
    if not (config.master or "").rpartition(":")[2].isdecimal():
        raise WrongUsage(f"--master {config.master} is not HOST:PORT")


@dataclass(frozen=True)
class LaunchResult:
    """Exit code of rank 0, and its result as text for stdout; on other hosts the highest code of a rank and no text."""

    code: int
    text: str


def stay_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, and unblock the signals that the launcher has blocked."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = os.environ.get(rank.PARENT)
    if parent is not None and not process_state(parent):
        os._exit(1)  # it died before the call
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals())
    if rank.launched() and rank.role() == rank.WORKER:
        rank.note("pid", str(os.getpid()))


def launch(arguments: list[str], job: Job, out: str | None, stop: StopSignals, stream: TextIO) -> LaunchResult:
    """Run `trainer` with `arguments` as the ranks of this host and copy the log of rank 0 to `stream`.

    After an exit code other than 0, rank 0 has reported the error. Raises Interrupted if a signal came before a rank
    had started, TrainerError with the last lines of the log if a rank died, and Busy if the ranks wait for each other.
    """
    folder = Path(tempfile.mkdtemp(prefix="trainer-ranks-"))
    (folder / LAUNCHER).write_text(str(os.getpid()))
    watch = RankWatch(folder, job.local, job.timeout_s)
    nodes = NodeNotes(out, job.nodes, job.node, watch)
    log = LogTail(folder / "worker_0.log", stream)
    with _msrun(arguments, job, folder, watch) as process, nodes:
        signalled = False
        while not _is_over(watch):
            log.copy_new()
            if (problem := watch.problem() or nodes.problem() or _failed_start(process, watch)) is not None:
                log.copy_new()
                if stop.signum is None:
                    raise problem
                break
            if stop.signum is not None and not signalled:
                signalled = True
                if not watch.pids():
                    raise Interrupted(stop.signum, None)
                send(watch.pids(), stop.signum)
            time.sleep(POLL_S)
        log.copy_new()
        if watch.note(rank.GAVE_UP, 0) is not None:
            stream.write(slowest(watch.states()) + "\n")
    return _result(watch, stop)


def _is_over(watch: RankWatch) -> bool:
    """Return True if rank 0 has ended; on a host without it, if all ranks have."""
    ends = watch.ends()
    return 0 in ends if 0 in watch.numbers else len(ends) == len(watch.numbers)


def _failed_start(process: "subprocess.Popen[bytes]", watch: RankWatch) -> TrainerError | None:
    if process.poll() is None or watch.ends():
        return None
    last, logs = last_lines(watch.folder / "msrun.log"), f"their logs are in {watch.folder}"
    return TrainerError(f"msrun ended with exit code {process.returncode}:\n{last}\nall ranks were stopped; {logs}")


def _result(watch: RankWatch, stop: StopSignals) -> LaunchResult:
    folder, ends = watch.folder, watch.ends()
    noted, end = watch.note("result", 0), ends.get(0)
    if noted is not None and end is not None:  # a complete run can end with exit code 1
        result = json.loads(noted)
        if result["run"]:
            _keep_logs(folder, Path(result["run"]))
        return LaunchResult(end, result["text"])
    shutil.rmtree(folder, ignore_errors=True)
    if end is None:
        end = max(ends.values(), default=exit_code(stop.signum or 0))
    return LaunchResult(end, "")


def _keep_logs(folder: Path, run: Path) -> None:
    for log in folder.glob("*.log"):
        (run / LOGS).mkdir(exist_ok=True)
        shutil.move(log, run / LOGS / log.name)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _msrun(arguments: list[str], job: Job, folder: Path, watch: RankWatch) -> Iterator["subprocess.Popen[bytes]"]:
    home = str(Path(__file__).resolve().parents[2])
    script = folder / "rank.py"
    script.write_text(RANK.format(home=home, arguments=json.dumps(arguments)))
    path = f"{_folder_of_python(folder)}:{os.environ.get('PATH', '')}"
    own = {rank.FOLDER: str(folder), rank.LOCAL: str(len(job.local)), rank.PARENT: str(os.getpid())}
    command = [sys.executable, "-c", MSRUN.format(home=home), *msrun_options(job, folder), str(script)]
    environment = RETRIES | os.environ | own | {"PATH": path, "PYTHONUNBUFFERED": "1"}
    with (folder / "msrun.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    try:
        yield process
        if watch.ends().get(0) == 0:
            watch.wait_for_ends(GRACE_S)
    finally:
        _kill(process, watch)


def _folder_of_python(folder: Path) -> Path:
    """Return a folder in which `python` is this interpreter.

    msrun starts the `python` in PATH, which may be another interpreter (virtual environments) or missing (Debian).
    """
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    if os.access(python, os.X_OK):
        return folder
    # A disk mounted noexec runs no scripts, but links to programs on other disks work. Python recognises a virtual
    # environment by the folder of the interpreter, so a `python` in that folder is preferred to a link.
    beside = Path(sys.executable).with_name("python")
    if beside.exists() and beside.samefile(sys.executable):
        return beside.parent
    python.unlink()
    python.symlink_to(sys.executable)
    return folder


def msrun_options(job: Job, folder: Path) -> list[str]:
    """Return the options of msrun for the ranks of this host. msrun tails no log: the launcher does."""
    host, port = (job.master or "127.0.0.1:").rsplit(":", 1)
    options = {
        "worker_num": job.ranks,
        "local_worker_num": len(job.local),
        "master_addr": host,
        "master_port": port or _free_port(),
        **({"node_rank": job.node} if job.nodes > 1 else {}),
        "log_dir": folder,
        "join": True,
        "cluster_time_out": JOIN_S,
        "tail_worker_log": job.ranks,
        **({} if job.bind is None else {f"bind_{job.bind}": True}),
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _kill(process: "subprocess.Popen[bytes]", watch: RankWatch) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # msrun and its scheduler; the ranks die with their parent
    process.wait()
    send(watch.pids(), signal.SIGKILL)


class LogTail:
    """Tail of a growing log, copied to a stream without MindSpore's [INFO] lines."""

    def __init__(self, path: Path, stream: TextIO) -> None:
        self.path = path
        self.stream = stream
        self.offset = 0

    def copy_new(self) -> None:
        """Copy the complete lines written since the last call."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self.offset)
            new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self.offset += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                if not line.startswith("[INFO] "):
                    self.stream.write(line + "\n")
            self.stream.flush()
