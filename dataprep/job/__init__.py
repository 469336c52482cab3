"""The stages of a job around the build: preflight, scan, dry run, duplicates, seal, replacing an old set."""
