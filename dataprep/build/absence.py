"""Tell a missing file from a SOURCE that is temporarily unavailable, such as an unmounted share."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from dataprep.build.read_ahead import Wanted, read_ahead
from dataprep.build.workdir import Workdir
from dataprep.disk import OWN_ERRORS
from dataprep.errors import DataprepError, TryLater
from dataprep.items import Reject, ScanEntry, decode_name, encode_name, key_to_path, portable_path, source_path
from dataprep.plan.store import Plan, PlannedShard
from schemas.images.policy import ImageRejected

# Reasons caused by the file system: such a file may be readable again later.
TRANSIENT = frozenset({"vanished", "changed", "unreadable", "stalled", "permission_denied", "not_a_regular_file"})


class Presence:
    """The identity of SOURCE when this object was created.

    If a share is unmounted, SOURCE is another folder or an empty one. SOURCE may take `deadline_s` seconds to answer.
    """

    def __init__(self, source: Path, deadline_s: float) -> None:
        self._source = source
        self._deadline_s = deadline_s
        self._identity = self._in_time(lambda: _identity(source))

    def require(self, keys: Iterable[str] = ()) -> None:
        """Raise TryLater if SOURCE or a parent folder of these keys is missing or empty."""
        self._in_time(lambda: self._require(set(keys)))

    def _require(self, keys: set[str]) -> None:
        if _identity(self._source) != self._identity:
            raise self._away(self._source, "it is no longer the folder that it was when this command started")
        above = {parent for key in keys for parent in PurePosixPath(key_to_path(key)).parents}
        source = portable_path(self._source)
        for folder in sorted({os.path.join(source, path) for path in above} | {source}):
            with os.scandir(encode_name(folder)) as entries:
                if next(entries, None) is None:
                    raise self._away(folder, "it is empty")

    def _in_time(self, query: Callable[[], object]) -> object:
        """Return the result of `query`.

        It runs in a thread, because access to a hanging mount cannot be interrupted.
        """
        answer: list[object] = []

        def ask() -> None:
            try:
                answer.append(query())
            except (OSError, TryLater) as error:
                answer.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(self._deadline_s)
        result = answer[0] if answer else self._away(self._source, f"no answer within {self._deadline_s:g} s")
        if isinstance(result, OSError):
            if result.errno in OWN_ERRORS:
                raise result
            raise self._away(result.filename or self._source, result.strerror or str(result)) from None
        if isinstance(result, TryLater):
            raise result
        return result

    def _away(self, folder: object, why: str) -> TryLater:
        name = decode_name(folder) if isinstance(folder, bytes) else str(folder)
        subject = f"SOURCE {self._source}" if name == str(self._source) else f"{name} in SOURCE {self._source}"
        return TryLater(
            f"{subject} is unavailable: {why}. Once it is available, the same command resumes; if it was removed on "
            "purpose, --restart starts over without it"
        )


def _identity(folder: Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def watch(entries: Iterable[ScanEntry], source: Path, presence: Presence) -> Iterator[ScanEntry]:
    """Yield the entries of a scan of `source`.

    Raises TryLater if SOURCE was unavailable during the scan. A file that is missing in the plan stays missing, so
    files that could not be read are checked again at the end.
    """
    missed = []
    try:
        for entry in entries:
            if isinstance(entry, Reject) and entry.reason in ("vanished", "unreadable"):
                missed.append(entry.key)
            yield entry
    except (DataprepError, OSError):
        presence.require()
        raise
    presence.require(missed)
    for key in missed:
        if os.path.exists(source_path(portable_path(source), key)):
            raise TryLater(f"SOURCE {source} is unstable: '{key}' was missing a moment ago; try again")


def look_again(plan: Plan, work: Workdir, max_bytes: int, presence: Presence, deadline_s: float) -> str | None:
    """Schedule shards for a rebuild if a file that could not be read is readable now.

    Returns the first such file. Raises TryLater if SOURCE is unavailable.
    """
    first = None
    for shard, keys in _transient_rejects(plan, work).items():
        presence.require(keys)
        readable = _first_readable(_wanted(plan, shard, keys, work, max_bytes), deadline_s)
        if readable is not None:
            work.rebuild(shard.name)
            first = first or readable
    return first


def _transient_rejects(plan: Plan, work: Workdir) -> dict[PlannedShard, set[str]]:
    receipts = work.receipts()
    rejects = {shard: receipts[shard.name].rejects for shard in plan.shards if shard.name in receipts}
    keys = {shard: {r.key for r in listed if r.reason in TRANSIENT} for shard, listed in rejects.items()}
    return {shard: transient for shard, transient in keys.items() if transient}


def _wanted(plan: Plan, shard: PlannedShard, keys: set[str], work: Workdir, max_bytes: int) -> list[Wanted]:
    fixed = work.notes("fixed").get(shard.name, {})
    items = [item for item in plan.items(shard) if item.key in keys]
    items = [i._replace(size=fixed[i.key][0], mtime_ns=fixed[i.key][1]) if i.key in fixed else i for i in items]
    return [Wanted(source_path(plan.source, item.key), item, max_bytes) for item in items]


def _first_readable(wanted: list[Wanted], deadline_s: float) -> str | None:
    """Return the first key that can be read; None if there is none or if a read takes too long.

    The search ends at the first slow file, because each one would take the whole deadline.
    """
    for item, data in read_ahead(wanted, deadline_s):
        if not isinstance(data, ImageRejected):
            return item.key
        if data.reason == "stalled":
            return None
    return None
