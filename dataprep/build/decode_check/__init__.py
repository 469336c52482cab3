"""Decode every row of a shard with the trainer's own decoder, in a child process."""
