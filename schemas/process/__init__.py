"""The process and its host: cores, memory, signals, standard streams, locale."""
