"""Command line of trainer. No other package prints or exits."""
