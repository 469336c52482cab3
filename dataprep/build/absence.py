"""Tells a file that is gone from a SOURCE that is away for a while: an unmounted share, a server that is down."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from dataprep.build.read_ahead import Wanted, read_ahead
from dataprep.build.workdir import Workdir
from dataprep.disk import OWN_ERRORS
from dataprep.errors import DataprepError, TryLater
from dataprep.items import Found, Reject, decode_name, encode_name, key_to_path, portable_path, source_path
from dataprep.plan.store import Plan, PlannedShard
from schemas.images.policy import Refusal

# Reasons that lie in the file system and not in the file: such a file may be as it was planned a moment later.
TRANSIENT = frozenset({"vanished", "changed", "unreadable", "stalled", "permission_denied", "not_a_regular_file"})


class Presence:
    """SOURCE as it was when this object was made; an unmounted share leaves another folder, or an empty one, behind.

    `deadline_s` is the time in seconds that SOURCE may take to answer.
    """

    def __init__(self, source: Path, deadline_s: float) -> None:
        self._source = source
        self._deadline_s = deadline_s
        self._identity = self._in_time(lambda: _identity(source))

    def require(self, keys: Iterable[str] = ()) -> None:
        """Raise TryLater unless SOURCE and the folders above these keys are there and have anything in them."""
        self._in_time(lambda: self._require(set(keys)))

    def _require(self, keys: set[str]) -> None:
        if _identity(self._source) != self._identity:
            raise self._away(self._source, "it is another folder than when this command began")
        above = {parent for key in keys for parent in PurePosixPath(key_to_path(key)).parents}
        source = portable_path(self._source)
        for folder in sorted({os.path.join(source, path) for path in above} | {source}):
            with os.scandir(encode_name(folder)) as entries:
                if next(entries, None) is None:
                    raise self._away(folder, "it is empty")

    def _in_time(self, look: Callable[[], object]) -> object:
        """What `look` returns, from a thread: a mount that hangs holds whoever asks it, and cannot be interrupted."""
        answer: list[object] = []

        def ask() -> None:
            try:
                answer.append(look())
            except (OSError, TryLater) as error:
                answer.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(self._deadline_s)
        found = answer[0] if answer else self._away(self._source, f"it did not answer within {self._deadline_s:g} s")
        if isinstance(found, OSError):
            if found.errno in OWN_ERRORS:
                raise found
            raise self._away(found.filename or self._source, found.strerror or str(found)) from None
        if isinstance(found, TryLater):
            raise found
        return found

    def _away(self, folder: object, why: str) -> TryLater:
        shown = decode_name(folder) if isinstance(folder, bytes) else str(folder)
        what = f"SOURCE {self._source}" if shown == str(self._source) else f"{shown} in SOURCE {self._source}"
        return TryLater(
            f"{what} is away: {why}. Once it is back the same command goes on; where it was removed for good, "
            "--restart begins anew without it"
        )


def _identity(folder: Path) -> tuple[int, int]:
    found = os.stat(folder)
    return found.st_dev, found.st_ino


def watch(found: Iterable[Found], source: Path, presence: Presence) -> Iterator[Found]:
    """Pass on what a scan of `source` finds. Raises TryLater where SOURCE went away meanwhile, also for a moment.

    What a plan takes for missing is missing for good, so a file that could not be looked at is looked at once more.
    """
    missed = []
    try:
        for entry in found:
            if isinstance(entry, Reject) and entry.reason in ("vanished", "unreadable"):
                missed.append(entry.key)
            yield entry
    except (DataprepError, OSError):
        presence.require()
        raise
    presence.require(missed)
    for key in missed:
        if os.path.exists(source_path(portable_path(source), key)):
            raise TryLater(f"SOURCE {source} comes and goes: '{key}' was not there a moment ago; try again")


def look_again(plan: Plan, work: Workdir, max_bytes: int, presence: Presence, deadline_s: float) -> str | None:
    """Have those shards built again of which a file was refused that is now as it was planned; the first such file.

    Raises TryLater when SOURCE is away.
    """
    first = None
    for shard, keys in _refused(plan, work).items():
        presence.require(keys)
        readable = _first_readable(_wanted(plan, shard, keys, work, max_bytes), deadline_s)
        if readable is not None:
            work.rebuild(shard.name)
            first = first or readable
    return first


def _refused(plan: Plan, work: Workdir) -> dict[PlannedShard, set[str]]:
    receipts = work.receipts()
    rejects = {shard: receipts[shard.name].rejects for shard in plan.shards if shard.name in receipts}
    keys = {shard: {r.key for r in found if r.reason in TRANSIENT} for shard, found in rejects.items()}
    return {shard: some for shard, some in keys.items() if some}


def _wanted(plan: Plan, shard: PlannedShard, keys: set[str], work: Workdir, max_bytes: int) -> list[Wanted]:
    mended = work.found("mended").get(shard.name, {})
    items = [item for item in plan.items(shard) if item.key in keys]
    items = [i._replace(size=mended[i.key][0], mtime_ns=mended[i.key][1]) if i.key in mended else i for i in items]
    return [Wanted(source_path(plan.source, item.key), item, max_bytes) for item in items]


def _first_readable(wanted: list[Wanted], deadline_s: float) -> str | None:
    """The key of a file that can be read; one that stalls again ends the look: each would cost its deadline."""
    for item, data in read_ahead(wanted, deadline_s):
        if not isinstance(data, Refusal):
            return item.key
        if data.reason == "stalled":
            return None
    return None
