"""The plan assigns each item to a shard before the first byte is written."""
