"""What a process asks of its host: cores, memory, signals, streams, locale."""
