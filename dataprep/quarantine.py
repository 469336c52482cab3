"""Copies refused files aside, for the person who will look at them."""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from dataprep.item import Reject
from dataprep.keys import encode_name, key_to_path, source_path


def copy_refused(source: str, folder: Path, rejects: list[Reject]) -> None:
    """Copy the regular files among the rejects to `folder`, each under its reason and path relative to `source`,
    which is SOURCE as portable_path gives it.

    A file that is gone or cannot be read is passed over: it is in the list of rejects all the same.
    """
    for reject in rejects:
        origin = source_path(source, reject.key)
        with suppress(FileNotFoundError, PermissionError):
            if stat.S_ISREG(os.stat(origin).st_mode):
                target = os.path.join(os.fsencode(folder), reject.reason.encode(), encode_name(key_to_path(reject.key)))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                part = os.path.join(folder, reject.reason, f".{os.getpid()}.part")
                shutil.copyfile(origin, part)
                os.replace(part, target)  # what an earlier job has copied stays until this is whole
