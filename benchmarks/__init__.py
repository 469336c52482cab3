"""Timed comparisons with the plain alternatives: ratios within one run, since machines are noisy. None is a test."""
