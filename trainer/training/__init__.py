"""The parts of the training loop: callbacks, checkpointing, validation, logs."""
