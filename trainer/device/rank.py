"""Which of several processes this one is, and the notes that a rank leaves to the launcher. Quick to import."""

import json
import os
from pathlib import Path

FOLDER = "TRAINER_RANKS"  # the environment variable that names the launcher's folder of notes and logs
WORKER, SCHEDULER = "MS_WORKER", "MS_SCHED"


def role() -> str | None:
    """What msrun has started this process as: MS_WORKER, MS_SCHED, or None when it was not msrun."""
    return os.environ.get("MS_ROLE")


def under_msrun() -> bool:
    """Whether this process is one of several, whoever has called msrun."""
    return role() is not None


def is_first() -> bool:
    """Whether this process is rank 0, which alone writes and speaks."""
    return os.environ.get("MS_NODE_ID", "0") == "0"


def launched() -> bool:
    """Whether this process is a rank that `launch` has started: its terminal is the launcher's."""
    return FOLDER in os.environ and under_msrun()


def note_result(text: str, run: str) -> None:
    """Leave the result of rank 0, and the run's folder, to the launcher."""
    note("result", json.dumps({"text": text, "run": run}))


def note_end(code: int) -> None:
    """Leave the exit code to the launcher; the last thing a rank does. Without a launcher it does nothing."""
    if launched() and role() == WORKER:
        note("end", str(code))


def note(kind: str, text: str) -> None:
    """Leave a note, whole or not at all."""
    path = Path(os.environ[FOLDER], f"{kind}_{os.environ.get('MS_NODE_ID', '0')}")
    parts = path.with_name(f".{path.name}")
    parts.write_text(text)
    os.replace(parts, path)
