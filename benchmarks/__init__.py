"""Timed comparisons: ratios within one run, since machines are noisy. None of them is a test."""
