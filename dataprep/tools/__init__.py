"""One file per command that works on a sealed dataset."""
