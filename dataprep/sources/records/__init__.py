"""Sources whose images are in rows of record files, one file per format."""
