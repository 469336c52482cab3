"""Commands that work on a sealed dataset, one file per command."""
