"""Handle a working directory that was removed or that this user may not enter (sudo -u in /root)."""

import os

_problem: str | None = None  # of the directory in which this process was started


def leave_unusable_directory() -> None:
    """Change to the root folder if the working directory is unusable, since workers and MindSpore need one that works.

    Call it once, before any path is used; directory_problem() then rejects relative paths.
    """
    global _problem
    try:
        os.getcwd()
        os.stat("./.")  # needs search permission, as every relative path does
    except OSError as error:
        _problem = error.strerror or str(error)
        os.chdir("/")


def directory_problem(path: str) -> str | None:
    """Return a sentence on why a relative path cannot be resolved, and what to do; else None."""
    if _problem is None or os.path.isabs(path):
        return None
    return f"'{path}' is relative, but the working directory cannot be entered ({_problem}); give an absolute path"
