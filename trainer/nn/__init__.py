"""Networks, tasks, optimizers and the training step."""
