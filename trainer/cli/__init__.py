"""The command line of trainer: the only place that prints or exits."""
