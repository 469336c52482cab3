"""Rank of this process, and messages from a rank to the launcher. Only the standard library is imported."""

import json
import os
from pathlib import Path

from schemas.process.stop_signals import INTERRUPT_EXIT, TERMINATE_EXIT

FOLDER = "TRAINER_RANKS"  # environment variable with the launcher's folder for messages and logs
LOCAL = "TRAINER_LOCAL_RANKS"  # environment variable with the number of ranks on this host
PARENT = "TRAINER_PARENT"  # environment variable with the process number of the launcher
GAVE_UP = "gave_up"  # the message of a rank that waited too long for the others
STOPPED = (INTERRUPT_EXIT, TERMINATE_EXIT)  # exit codes after a stop signal
WORKER, SCHEDULER = "MS_WORKER", "MS_SCHED"


def role() -> str | None:
    """Return the role set by msrun: MS_WORKER, MS_SCHED, or None without msrun."""
    return os.environ.get("MS_ROLE")


def under_msrun() -> bool:
    """Return True if msrun started this process."""
    return role() is not None


def is_first() -> bool:
    """Return True for rank 0, which alone writes files and prints."""
    return number() == 0


def number() -> int:
    """Return the rank of this process, 0 without msrun."""
    return int(os.environ.get("MS_NODE_ID", "0"))


def count() -> int | None:
    """Return the number of ranks that msrun has started on all hosts, None without msrun."""
    return int(os.environ["MS_WORKER_NUM"]) if role() == WORKER else None


def local_count() -> int | None:
    """Return the number of ranks on this host, None if it is not known."""
    return int(os.environ[LOCAL]) if LOCAL in os.environ else None


def launched() -> bool:
    """Return True if cli/launch.py, which owns the terminal, started this process."""
    return FOLDER in os.environ and under_msrun()


def note_result(text: str, run: str) -> None:
    """Send the result text of rank 0 and the run folder `run` to the launcher."""
    note("result", json.dumps({"text": text, "run": run}))


def note_end(code: int) -> None:
    """Send the exit code to the launcher, if a launcher exists. A rank calls this function last."""
    if launched() and role() == WORKER:
        note("end", str(code))


def note(kind: str, text: str) -> None:
    """Write a message of type `kind` to the launcher's folder atomically."""
    path = Path(os.environ[FOLDER], f"{kind}_{os.environ.get('MS_NODE_ID', '0')}")
    partial = path.with_name(f".{path.name}")
    partial.write_text(text)
    os.replace(partial, path)
