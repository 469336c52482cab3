"""Plan of a run, resolved before MindSpore is imported."""
