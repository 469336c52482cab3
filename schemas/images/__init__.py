"""Image files: the pixel policy and its implementation, PNG chunks, TIFF directories, names of system files."""
