"""What comes before MindSpore is imported: its own warnings are kept quiet, and a temporary folder is asked for."""

import logging
import os
import warnings

from schemas.process.temporary_folder import temporary_folder_problem
from trainer.errors import Busy, TrainerError

ERRORS_ONLY = "3"


def quieten(verbose: bool) -> None:
    """Call before MindSpore is imported: its C++ and Python loggers read GLOG_v once. A GLOG_v of the user's stays."""
    if verbose:
        return
    os.environ.setdefault("GLOG_v", ERRORS_ONLY)
    warnings.filterwarnings("ignore")
    logging.getLogger("MindSpore").setLevel(logging.ERROR)


def need_temporary_folder() -> None:
    """Raise TrainerError where there is none, and Busy where the disks of all are full."""
    problem = temporary_folder_problem()
    if problem:
        raise (Busy if problem.full else TrainerError)(problem.text)


def before_mindspore(verbose: bool) -> None:
    """All that a command needs which imports MindSpore at once."""
    need_temporary_folder()
    quieten(verbose)
