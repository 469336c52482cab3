"""Trains, evaluates and stores an image classifier from a sealed dataset. Meets dataprep only in `schemas`."""
