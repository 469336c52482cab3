"""Timed comparisons with plain alternatives: ratios within one run, since machines are noisy. Not tests."""
