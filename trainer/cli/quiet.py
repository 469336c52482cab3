"""Checks and settings before MindSpore is imported: silence its warnings, require a temporary folder."""

import logging
import os
import warnings

from schemas.process.temporary_folder import temporary_folder_problem
from trainer.errors import Busy, TrainerError

ERRORS_ONLY = "3"


def quieten(verbose: bool) -> None:
    """Silence MindSpore before it is imported, because its loggers read GLOG_v once. A GLOG_v of the user is kept."""
    if verbose:
        return
    os.environ.setdefault("GLOG_v", ERRORS_ONLY)
    warnings.filterwarnings("ignore")
    logging.getLogger("MindSpore").setLevel(logging.ERROR)


def need_temporary_folder() -> None:
    """Raise TrainerError if there is no usable temporary folder, or Busy if all of them are on full disks."""
    problem = temporary_folder_problem()
    if problem:
        raise (Busy if problem.full else TrainerError)(problem.text)


def before_mindspore(verbose: bool) -> None:
    """Prepare a command that imports MindSpore immediately."""
    need_temporary_folder()
    quieten(verbose)
