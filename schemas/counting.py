"""Counts in sentences."""


def many(count: int, noun: str, plural: str = "") -> str:
    """`1 shard`, `2,000 shards`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
