"""The working directory, which this user may not be allowed to enter (sudo -u in /root), or which is gone."""

import os

_problem: str | None = None  # of the directory that this process was started in


def leave_unusable_directory() -> None:
    """Go to the root folder where the working directory cannot be used: workers and MindSpore need one that can be.

    To be called once, before any path is looked at; directory_problem() then refuses relative paths.
    """
    global _problem
    try:
        os.getcwd()
        os.stat("./.")  # needs permission to search it, as every relative path does
    except OSError as error:
        _problem = error.strerror or str(error)
        os.chdir("/")


def directory_problem(path: str) -> str | None:
    """Return why a path cannot be found, in a sentence with what to do; None for a path that can."""
    if _problem is None or os.path.isabs(path):
        return None
    return f"'{path}' is relative, but the working directory cannot be entered ({_problem}); give an absolute path"
