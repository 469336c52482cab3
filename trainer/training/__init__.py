"""Parts of the training loop: callbacks, checkpointing, validation, logs."""
