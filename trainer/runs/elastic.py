"""What changes when a run resumes with another number of ranks and the same global batch. Pure."""

from schemas.counting import many

SAME_ROWS = "each step has the same rows as before"


def changes(before: tuple[int, int], now: tuple[int, int], within_epoch: bool, statistics: bool) -> str | None:
    """Return a sentence about what changes between `before` and `now`, both (ranks, batch size); None if equal.

    `within_epoch` is True if the run resumes in the middle of an epoch; `statistics` is True if the checkpoint has
    values of each rank, which are averaged.
    """
    if before == now:
        return None
    parts = ["sums over a batch are in another order, so the last bits differ"]
    parts.append(f"BatchNorm uses the statistics of {many(now[1], 'image')}")
    parts.append("random crops and flips are drawn differently")
    if within_epoch and statistics:
        parts.append("BatchNorm's running averages are averaged over the ranks before")
    return f"resuming on {_described(now)}, was {_described(before)}: {SAME_ROWS}; {'; '.join(parts)}"


def _described(run: tuple[int, int]) -> str:
    return f"{many(run[0], 'rank')} of batch {run[1]}"
