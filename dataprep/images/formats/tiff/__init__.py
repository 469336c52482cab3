"""TIFF: directories, strips, and the messages of libtiff."""
