"""Build the shards of a plan in parallel, resumable at every point."""
