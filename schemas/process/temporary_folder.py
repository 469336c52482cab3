"""Check for a usable temporary folder: MindSpore aborts the process on import if there is none."""

import errno
import os
import tempfile
from typing import NamedTuple


class NoTemporaryFolder(NamedTuple):
    """Why no temporary folder can be used, and what to do. `full`: freeing disk space would help."""

    text: str
    full: bool


def temporary_folder_problem() -> NoTemporaryFolder | None:
    """Return why no temporary folder is usable; None if one is, even if it is not TMPDIR."""
    try:
        tempfile.gettempdir()
    except OSError:
        set_folders = [folder for name in ("TMPDIR", "TEMP", "TMP") if (folder := os.environ.get(name))]
        errors = {folder: write_error(os.path.abspath(folder)) for folder in [*set_folders, "/tmp", "/var/tmp"]}
        tried = ", ".join(f"{folder} ({error.strerror})" for folder, error in errors.items() if error)
        full = any(error and error.errno in (errno.ENOSPC, errno.EDQUOT) for error in errors.values())
        text = f"MindSpore needs a temporary folder, but none can be written to: {tried}; "
        text += "free space there, or set TMPDIR to another folder" if full else "set TMPDIR to a writable folder"
        return NoTemporaryFolder(text, full)
    return None


def write_error(folder: str) -> OSError | None:
    """Return the error of writing a file in `folder`; None if writing succeeds."""
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
