"""The structure of each file format, checked without decoding pixels."""
