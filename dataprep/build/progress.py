"""Protocol for progress reports of a job."""

from collections.abc import Mapping
from typing import Protocol

from dataprep.build.receipt import Receipt
from dataprep.plan.store import Plan, PlannedShard


class Progress(Protocol):
    """Receives progress. The build itself never prints."""

    def scanning(self, found: int) -> None:
        """Report the number of files found so far."""

    def planned(self, plan: Plan, missing: Mapping[PlannedShard, str]) -> None:
        """Report the shards to build and the reason for each. It is called again before each rebuild."""

    def under_way(self, items: int) -> None:
        """Report the number of files processed in unfinished shards. It is called about twice per second."""

    def built(self, receipt: Receipt, planned: PlannedShard) -> None:
        """Report a committed shard."""

    def moved(self, before: str, now: str) -> None:
        """Report that SOURCE moved from `before` to `now` with the same files."""

    def fallback(self, what: str) -> None:
        """Report that another engine than the requested one is used. The same message may be repeated."""
