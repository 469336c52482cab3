"""MindRecord 3.0 files, written and read with the standard library only."""
