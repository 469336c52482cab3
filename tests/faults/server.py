"""Starts a Python program thousands of times at the price of a fork: its modules are imported once.

    with Server(library, ["dataprep.cli.commands", "dataprep.pipeline"]) as server:
        faults = Faults(folder, server.launch)

A command is then "module:function" and its arguments, instead of a program.
"""

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.examples import ROOT
from tests.faults.harness import Ended, end_group


class Server:
    """A process with the modules imported and the library preloaded; a command is run in a fork of it."""

    def __init__(self, library: Path, modules: Sequence[str], folder: Path) -> None:
        self._out, self._err = folder / "stdout", folder / "stderr"
        env = {**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            cwd=ROOT,
            text=True,
        )

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def launch(self, command: Sequence[str], env: dict[str, str], timeout: float) -> Ended:
        """Run it to its end, and end what it has left."""
        assert self._process.stdin is not None
        request = {"command": list(command), "env": env, "out": str(self._out), "err": str(self._err)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        process = int(self._line(60.0) or 0)
        answer = self._line(timeout)
        if answer is None:
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            self._line(60.0)
        left = end_group(process, wait_s=10.0 if answer is not None else 0.0) and answer is not None
        code = -signal.SIGALRM if answer is None else int(answer)
        out, err = (path.read_text(errors="replace") for path in (self._out, self._err))
        return Ended(code, out, err, 0, 0, left)

    def _line(self, timeout: float) -> str | None:
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], timeout)  # lines come one at a time: none is left in the buffer
        return stdout.readline() if ready else None


def serve(modules: Sequence[str]) -> None:
    """Answer each request by the process that runs it, and then by how that has ended."""
    for module in modules:
        importlib.import_module(module)
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
            return
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request: dict[str, Any]) -> None:
    """Become that command."""
    import ctypes

    os.setsid()
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, request["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        file = os.open(path, flags)
        os.dup2(file, number)
        os.close(file)
    os.environ.update(request["env"])
    ctypes.CDLL(None).faults_restart()
    where, *arguments = request["command"]
    module, _, function = where.partition(":")
    sys.argv = [module.partition(".")[0], *arguments]
    getattr(importlib.import_module(module), function)()


if __name__ == "__main__":
    serve(sys.argv[1:])
