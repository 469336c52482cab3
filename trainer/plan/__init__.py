"""What a run will do, resolved before MindSpore is imported."""
