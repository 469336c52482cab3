"""Errors for folders that cannot be listed. Their images are unknown, so no reject limit applies."""

import errno
import shlex
from collections.abc import Sequence
from pathlib import Path

from dataprep.errors import DataRejected, TryLater, WrongUsage
from dataprep.items import ClosedFolder
from dataprep.sources.ignore import pattern_of
from dataprep.storage.disk import OWN_ERRORS
from schemas.counting import many
from schemas.errors import PASSING_ERRORS

_GONE = (errno.ENOENT, errno.ENOTDIR)
_NAMED = 5


def check_temporary(source: Path, folder: ClosedFolder) -> ClosedFolder:
    """Return `folder`.

    Raises TryLater for temporary errors, such as an absent share or a folder that was moved. Raises OSError for errors
    of this process, such as an interrupt or too many open files.
    """
    if folder.errno in OWN_ERRORS:
        raise OSError(folder.errno, folder.detail, f"{source}/{folder.key}")
    if folder.errno in _GONE and folder.key:
        raise TryLater(f"{_name(source, folder)} was moved or removed during the scan; run the same command again")
    if folder.errno in PASSING_ERRORS:
        raise TryLater(
            f"{_name(source, folder)} cannot be listed now: {folder.detail}; once the disk or share works again, run "
            f"the same command to resume{f' ({_ignore([folder])} ignores the folder)' if folder.key else ''}"
        )
    return folder


def reject_closed(source: Path, closed: Sequence[ClosedFolder]) -> None:
    """Raise DataRejected if folders could not be listed, WrongUsage if SOURCE does not exist."""
    if not closed:
        return
    if not closed[0].key:
        if closed[0].errno in _GONE:  # as click words it for other commands
            raise WrongUsage(
                f"invalid value for 'SOURCE': Directory {str(source)!r} does not exist. See 'dataprep shard --help'"
            )
        raise DataRejected(f"cannot list SOURCE {source}: {closed[0].detail}")
    first = sorted(closed, key=lambda folder: folder.key)[:_NAMED]
    named = ", ".join(f"'{folder.key}' ({folder.detail})" for folder in first)
    more = f" and {len(closed) - _NAMED} more" if len(closed) > _NAMED else ""
    raise DataRejected(
        f"{many(len(closed), 'folder')} of SOURCE {source} cannot be listed, so their images are unknown: "
        f"{named}{more}. Make them readable "
        f"(chmod -R u+rX), or ignore them: {_ignore(first)}{' ...' if more else ''}"
    )


def _name(source: Path, folder: ClosedFolder) -> str:
    return f"the folder '{folder.key}' of SOURCE {source}" if folder.key else f"SOURCE {source}"


def _ignore(folders: Sequence[ClosedFolder]) -> str:
    return " ".join(f"--ignore {shlex.quote(pattern_of(folder.key))}" for folder in folders)
