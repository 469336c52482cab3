"""Who hears how far a job is."""

from collections.abc import Mapping
from typing import Protocol

from dataprep.build.receipt import Receipt
from dataprep.plan.store import Plan, PlannedShard


class Progress(Protocol):
    """Follows a job; the terminal belongs to the caller."""

    def scanning(self, found: int) -> None:
        """So many files have been found."""

    def planned(self, plan: Plan, missing: Mapping[PlannedShard, str]) -> None:
        """The shards to build are known, and why each is; called again when some must be built again."""

    def under_way(self, items: int) -> None:
        """So many files are dealt with in shards that are not in place yet; called about twice a second."""

    def built(self, receipt: Receipt, planned: PlannedShard) -> None:
        """A shard is in place."""

    def moved(self, before: str, now: str) -> None:
        """The files are read from the path `now`; those at `before`, which was planned from, were the same."""

    def fallback(self, what: str) -> None:
        """Another engine works than the one that was asked for; may be called again with the same sentence."""
