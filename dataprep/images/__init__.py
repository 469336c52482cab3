"""Check one image: bytes in, bytes that the trainer can decode or a rejection with its reason out."""
