"""Format counts in sentences."""


def many(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 shard`, `2,000 shards`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def are(count: int) -> str:
    """Return the verb that follows a count: `is` or `are`."""
    return "is" if count == 1 else "are"


def were(count: int) -> str:
    """Return the verb that follows a count: `was` or `were`."""
    return "was" if count == 1 else "were"
