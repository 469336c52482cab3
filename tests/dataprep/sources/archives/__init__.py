"""Tests of the archive layouts."""
