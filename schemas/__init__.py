"""The contract between dataprep and trainer: the contents of a dataset folder, and code that both programs use."""
