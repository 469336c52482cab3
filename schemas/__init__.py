"""The contract between dataprep and trainer: what a dataset folder holds. Standard library only."""
