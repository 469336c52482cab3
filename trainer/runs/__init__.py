"""The run folder: checkpoints, state, history, curves."""
