"""Keeps MindSpore's own warnings from drowning the program's output."""

import logging
import os
import warnings

ERRORS_ONLY = "3"


def quieten(verbose: bool) -> None:
    """Call before MindSpore is imported: its C++ and Python loggers read GLOG_v once. A GLOG_v of the user's stays."""
    if verbose:
        return
    os.environ.setdefault("GLOG_v", ERRORS_ONLY)
    warnings.filterwarnings("ignore")
    logging.getLogger("MindSpore").setLevel(logging.ERROR)
