"""The temporary folder of this process, which may be missing, full, read-only or a file, as may all others.

MindSpore looks for it when it is imported, and aborts the process where there is none.
"""

import errno
import os
import tempfile
from typing import NamedTuple


class NoTemporaryFolder(NamedTuple):
    """Why no folder can be used, and what to do; `full` if room on a disk would do."""

    text: str
    full: bool


def temporary_folder_problem() -> NoTemporaryFolder | None:
    """Return why there is no temporary folder; None if there is one, which need not be TMPDIR."""
    try:
        tempfile.gettempdir()
    except OSError:
        named = [folder for name in ("TMPDIR", "TEMP", "TMP") if (folder := os.environ.get(name))]
        errors = {folder: _trial(os.path.abspath(folder)) for folder in [*named, "/tmp", "/var/tmp"]}
        tried = ", ".join(f"{folder} ({error.strerror})" for folder, error in errors.items() if error)
        full = any(error and error.errno in (errno.ENOSPC, errno.EDQUOT) for error in errors.values())
        text = f"no temporary folder can be written to, and MindSpore needs one: {tried}; "
        text += "make room there, or set TMPDIR to another folder" if full else "set TMPDIR to a folder that can be"
        return NoTemporaryFolder(text, full)
    return None


def _trial(folder: str) -> OSError | None:
    """What comes of writing to a file in `folder`."""
    try:
        descriptor, path = tempfile.mkstemp(dir=folder)
    except OSError as error:
        return error
    try:
        os.write(descriptor, b"x")
    except OSError as error:
        return error
    finally:
        os.close(descriptor)
        os.unlink(path)
    return None
