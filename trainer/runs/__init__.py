"""The run folder: checkpoints, state, start records and curves."""
