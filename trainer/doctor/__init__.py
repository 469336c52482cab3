"""Measurements and advice on feed, precision and data sinking."""
