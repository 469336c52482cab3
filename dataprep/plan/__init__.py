"""The plan: which item goes into which shard, decided before the first byte is written."""
