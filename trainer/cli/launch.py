"""Start the ranks of a run on this host with MindSpore's msrun, and end them together.

msrun starts each rank in its own session and writes its output to a log file. msrun exits only a minute after a rank
has died (measured on 2.10), and SIGTERM to msrun leaves all ranks running. So each rank writes its process ID and exit
code to files that the launcher watches. Only rank 0 receives a signal and saves after its step; the other ranks are
then killed. The kernel kills a process whose parent dies.
"""

import contextlib
import ctypes
import json
import os
import re
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
from trainer.device import rank
from trainer.errors import Interrupted, TrainerError
from trainer.signals import StopSignals

PR_SET_PDEATHSIG = 1
POLL_S = 0.2
GRACE_S = 5.0  # seconds that the other ranks have after rank 0 has ended
LAST_LINES = 12
RANK_0_ENDED = "rank 0 has ended"
LOGS = "ranks"  # folder of the logs, in the run folder

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
class LaunchResult:
    """Exit code of rank 0, and its result as text for stdout."""

    code: int
    text: str


def stay_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, and unblock the signals that the launcher has blocked."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals())
    if rank.launched() and rank.role() == rank.WORKER:
        rank.note("pid", str(os.getpid()))


def launch(
    arguments: list[str], ranks: int, stop: StopSignals, stream: TextIO, bind: str | None = None
) -> LaunchResult:
    """Run `trainer` with `arguments` as `ranks` processes. Copy the log of rank 0 to `stream` and return its result.

    If `bind` is core or numa, msrun binds each rank to its own cores or NUMA node. If the exit code is not 0, rank 0
    has reported the error. Raises Interrupted if a signal came before rank 0 had started, and TrainerError with the
    last lines of the log if a rank died.
    """
    folder = Path(tempfile.mkdtemp(prefix="trainer-ranks-"))
    log = LogTail(folder / "worker_0.log", stream)
    with _msrun(arguments, ranks, folder, bind) as process:
        signalled = False
        while not (ending := _ending(folder, ranks, process)):
            log.copy_new()
            if stop.signum is not None and not signalled:
                signalled = True
                if not _signal_rank_0(folder, stop.signum):
                    raise Interrupted(stop.signum, None)
            time.sleep(POLL_S)
        log.copy_new()
    return _result(folder, ending, stop)


def _result(folder: Path, ending: str, stop: StopSignals) -> LaunchResult:
    end = _read(folder, "end", 0) if ending == RANK_0_ENDED else None
    noted = _read(folder, "result", 0)
    if end == "0" or (end is not None and noted is not None):  # a complete run can end with exit code 1
        result = json.loads(noted or '{"text": "", "run": ""}')
        if result["run"]:
            _keep_logs(folder, Path(result["run"]))
        return LaunchResult(int(end), result["text"])
    if stop.signum is not None or end is not None:
        shutil.rmtree(folder, ignore_errors=True)
        return LaunchResult(int(end) if end is not None else exit_code(stop.signum or 0), "")
    raise TrainerError(f"{ending}; all ranks were stopped; their logs are in {folder}")


def _ending(folder: Path, ranks: int, process: "subprocess.Popen[bytes]") -> str:
    """Return the reason for the end of the run (rank 0 ended, a rank failed, msrun ended), or an empty string."""
    dead = [each for each in range(ranks) if _died(folder, each)]
    if dead:
        time.sleep(GRACE_S / 2)  # msrun logs the exit code
        return _death(folder, dead[0])
    if _read(folder, "end", 0) is not None:
        return RANK_0_ENDED
    failed = [each for each in range(ranks) if (_read(folder, "end", each) or "0") != "0"]
    if failed:
        time.sleep(GRACE_S / 2)  # rank 0 may be about to report the same error
        return RANK_0_ENDED if _read(folder, "end", 0) is not None else _death(folder, failed[0])
    if process.poll() is not None:
        return f"msrun ended with exit code {process.returncode}:\n{_last_lines(folder / 'msrun.log')}\n"
    return ""


def _died(folder: Path, number: int) -> bool:
    """Return True if the rank has ended without writing its exit code."""
    pid = _read(folder, "pid", number)
    return pid is not None and not _alive(int(pid)) and _read(folder, "end", number) is None


def _death(folder: Path, number: int) -> str:
    pid = _read(folder, "pid", number)
    code = re.search(rf"Worker process {pid} exit with exception\. Error code: (-?\d+)", _text(folder / "msrun.log"))
    how = "" if code is None else f" ({_exit_name(int(code[1]))})"
    return f"rank {number} died{how}; the last lines of its log:\n{_last_lines(folder / f'worker_{number}.log')}\n"


def _exit_name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _read(folder: Path, kind: str, number: int) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return (folder / f"{kind}_{number}").read_text()
    return None


def _text(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(errors="replace")
    return ""


def _last_lines(path: Path) -> str:
    lines = [line for line in _text(path).splitlines() if not line.startswith("[INFO] ")][-LAST_LINES:]
    return "\n".join(f"  {line}" for line in lines or ["(empty)"])


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _signal_rank_0(folder: Path, signum: int) -> bool:
    pid = _read(folder, "pid", 0)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signum)
    return True


def _keep_logs(folder: Path, run: Path) -> None:
    for log in folder.glob("*.log"):
        (run / LOGS).mkdir(exist_ok=True)
        shutil.move(log, run / LOGS / log.name)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _msrun(arguments: list[str], ranks: int, folder: Path, bind: str | None) -> Iterator["subprocess.Popen[bytes]"]:
    home = str(Path(__file__).resolve().parents[2])
    script = folder / "rank.py"
    script.write_text(RANK.format(home=home, arguments=json.dumps(arguments)))
    path = f"{_folder_of_python(folder)}:{os.environ.get('PATH', '')}"
    paths = {rank.FOLDER: str(folder), "PATH": path, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", MSRUN.format(home=home), *msrun_options(ranks, folder, bind), str(script)]
    with (folder / "msrun.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | paths, start_new_session=True
        )
    try:
        yield process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S if _read(folder, "end", 0) == "0" else 0)
    finally:
        _kill(process, folder, ranks)


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


def msrun_options(ranks: int, folder: Path, bind: str | None = None) -> list[str]:
    """Return the options of msrun for `ranks` processes on this host. The launcher, not msrun, copies the log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "worker_num": ranks,
        "local_worker_num": ranks,
        "master_addr": "127.0.0.1",
        "master_port": port,
        "log_dir": folder,
        "join": True,
        "cluster_time_out": 300,
        "tail_worker_log": ranks,
        **({} if bind is None else {f"bind_{bind}": True}),
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _kill(process: "subprocess.Popen[bytes]", folder: Path, ranks: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # msrun and its scheduler; the ranks die with their parent
    process.wait()
    for each in range(ranks):
        if (pid := _read(folder, "pid", each)) and _alive(int(pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


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
