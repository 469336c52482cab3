"""Train and evaluate an image classifier on a sealed dataset. Code shared with dataprep is in `schemas`."""
