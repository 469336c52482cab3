"""Check one image: from file bytes to bytes that the trainer can decode, or to a rejection with its reason."""
