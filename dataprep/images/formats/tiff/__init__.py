"""TIFF: directories, strips, and what libtiff says of them."""
