"""Counts in sentences."""


def many(count: int, noun: str, plural: str = "") -> str:
    """`1 shard`, `2,000 shards`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def are(count: int) -> str:
    """The verb behind a number: `is` or `are`."""
    return "is" if count == 1 else "are"


def were(count: int) -> str:
    """The verb behind a number: `was` or `were`."""
    return "was" if count == 1 else "were"
