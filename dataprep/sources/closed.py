"""Folders that cannot be listed: how many images they hold is not known, so no budget of rejects can allow for them."""

import errno
import shlex
from collections.abc import Sequence
from pathlib import Path

from dataprep.disk import OWN_ERRORS
from dataprep.errors import DataRejected, TryLater, WrongUsage
from dataprep.items import ClosedFolder
from dataprep.sources.ignore import pattern_of
from schemas.counting import many
from schemas.errors import PASSING_ERRORS

_GONE = (errno.ENOENT, errno.ENOTDIR)
_NAMED = 5


def check_passing(source: Path, folder: ClosedFolder) -> ClosedFolder:
    """Return `folder`; raises TryLater when what keeps it closed may pass: an absent share, a folder being moved;
    OSError where it is this process that was interrupted or has too many files open.
    """
    if folder.errno in OWN_ERRORS:
        raise OSError(folder.errno, folder.detail, f"{source}/{folder.key}")
    if folder.errno in _GONE and folder.key:
        raise TryLater(
            f"{_place(source, folder)} was moved or removed while SOURCE was read; run the same command again"
        )
    if folder.errno in PASSING_ERRORS:
        raise TryLater(
            f"{_place(source, folder)} cannot be listed now: {folder.detail}; once the disk or share is well, the same "
            f"command goes on{f' ({_ignore([folder])} leaves the folder out)' if folder.key else ''}"
        )
    return folder


def refuse_closed(source: Path, closed: Sequence[ClosedFolder]) -> None:
    """Raise when there are folders that cannot be listed: DataRejected, or WrongUsage when SOURCE is not there."""
    if not closed:
        return
    if not closed[0].key:
        if closed[0].errno in _GONE:  # in the words of click, which checks the other commands' paths
            raise WrongUsage(
                f"invalid value for 'SOURCE': Directory {str(source)!r} does not exist. See 'dataprep shard --help'"
            )
        raise DataRejected(f"cannot list SOURCE {source}: {closed[0].detail}")
    first = sorted(closed, key=lambda folder: folder.key)[:_NAMED]
    named = ", ".join(f"'{folder.key}' ({folder.detail})" for folder in first)
    more = f" and {len(closed) - _NAMED} more" if len(closed) > _NAMED else ""
    raise DataRejected(
        f"{many(len(closed), 'folder')} of SOURCE {source} cannot be listed, so the images in them are not known: "
        f"{named}{more}. Let this "
        f"user read them (chmod -R u+rX), or leave them out: {_ignore(first)}{' ...' if more else ''}"
    )


def _place(source: Path, folder: ClosedFolder) -> str:
    return f"the folder '{folder.key}' of SOURCE {source}" if folder.key else f"SOURCE {source}"


def _ignore(folders: Sequence[ClosedFolder]) -> str:
    return " ".join(f"--ignore {shlex.quote(pattern_of(folder.key))}" for folder in folders)
