"""Data pipeline: reads a sealed dataset and yields batches."""
