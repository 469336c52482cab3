"""One file per record kind: loss, scores, metrics."""
