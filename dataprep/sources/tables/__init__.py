"""Tables that list images: CSV, TSV, JSON Lines, and the metadata files of image folders."""
