"""What is compared with, one small program each, run as a process of its own and used as its own manual uses it."""
