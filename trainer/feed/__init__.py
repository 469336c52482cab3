"""The data pipeline: from a sealed dataset to batches."""
