"""The command line of dataprep: the only place that prints or exits."""
