"""Scan SOURCE: choose its layout, list every file, and raise an error if folders cannot be listed."""

from collections.abc import Iterator
from pathlib import Path

from dataprep.build.absence import Presence, watch
from dataprep.build.progress import Progress
from dataprep.items import ClosedFolder, ScanEntry, portable_path
from dataprep.options import ShardOptions
from dataprep.plan.planner import Origin
from dataprep.sources import find_source
from dataprep.sources.closed import check_temporary, reject_closed
from dataprep.sources.detect import detect_layout


def scan(
    source: Path,
    layout: str,
    options: ShardOptions,
    progress: Progress,
    presence: Presence | None = None,
    work: Path | None = None,
) -> Iterator[ScanEntry]:
    """Yield everything below `source`. Report the progress to `progress`. `work` is the folder for unpacked data.

    Raises DataRejected at the end if folders could not be listed. Raises TryLater immediately for temporary errors, and
    if SOURCE disappears during the scan.
    """
    closed: list[ClosedFolder] = []
    entries = find_source(layout).scan(source, options.source_options(work))
    for count, entry in enumerate(watch(entries, source, presence) if presence else entries):
        if count % 1000 == 0:
            progress.scanning(count)
        if isinstance(entry, ClosedFolder):
            if presence:
                presence.require()  # is all of SOURCE absent, not only this folder?
            closed.append(check_temporary(source, entry))
        else:
            yield entry
    reject_closed(source, closed)


def choose_layout(source: Path, options: ShardOptions) -> str:
    """Return the requested or detected layout.

    Raises DataprepError if SOURCE is unreadable or its layout is ambiguous.
    """
    return detect_layout(source, options.source_options(), options.layout)


def origin_of(source: Path, layout: str) -> Origin:
    """Return what the plan records about SOURCE."""
    found = find_source(layout)
    return Origin(
        portable_path(source), layout, source.is_file(), found.expected, found.numbers_sort, found.keeps_order
    )
