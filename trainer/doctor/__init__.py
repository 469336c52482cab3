"""The three checks, measured: feed, precision, data sinking."""
