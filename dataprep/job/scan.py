"""Scan SOURCE: choose its layout, list every file, and refuse folders that cannot be listed."""

from collections.abc import Iterator
from pathlib import Path

from dataprep.build.absence import Presence, watch
from dataprep.build.progress import Progress
from dataprep.items import ClosedFolder, Found
from dataprep.options import ShardOptions
from dataprep.sources import SOURCES
from dataprep.sources.closed import check_passing, refuse_closed
from dataprep.sources.detect import detect_layout


def scan(
    source: Path, layout: str, options: ShardOptions, progress: Progress, presence: Presence | None = None
) -> Iterator[Found]:
    """Everything below `source`, told to `progress` now and then.

    Raises DataRejected at the end when folders could not be listed; TryLater at once where waiting may help, and when
    SOURCE goes away meanwhile.
    """
    closed: list[ClosedFolder] = []
    everything = SOURCES[layout](source, options.walk)
    for count, found in enumerate(watch(everything, source, presence) if presence else everything):
        if count % 1000 == 0:
            progress.scanning(count)
        if isinstance(found, ClosedFolder):
            if presence:
                presence.require()  # is it all of SOURCE that is away, not one folder of it?
            closed.append(check_passing(source, found))
        else:
            yield found
    refuse_closed(source, closed)


def choose_layout(source: Path, options: ShardOptions) -> str:
    """The layout as asked or detected; raises DataprepError when SOURCE cannot be read, or read in one way only."""
    return detect_layout(source, options.walk, options.layout)
