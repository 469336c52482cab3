"""A plan of so many rows that no disk need hold: python -m benchmarks.peers.large_plan OUT ROWS."""

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.folder import started, tell
from dataprep.items import Found, FoundClass, Item
from dataprep.options import ShardOptions
from dataprep.plan.planner import Origin, make_plan

CLASSES = 1000
MEAN_BYTES = 100_000


def found(rows: int) -> Iterator[Found]:
    """What a scan of `rows` files would yield."""
    for number in range(CLASSES):
        yield FoundClass(f"class{number:04d}", None)
    for number in range(rows):
        name = f"class{number % CLASSES:04d}"
        path = f"{name}/{number:09d}.jpg"
        yield Item(path, name, None, MEAN_BYTES + number % 1009, 1_700_000_000_000_000_000 + number)


def main() -> None:
    """Make the plan."""
    figures = started()
    plan, rows = Path(sys.argv[1]) / "plan.sqlite", int(sys.argv[2])
    make_plan(plan, found(rows), Origin("/nowhere", "classes"), ShardOptions())
    tell(figures | {"plan_mb": plan.stat().st_size / (1 << 20)})


if __name__ == "__main__":
    main()
