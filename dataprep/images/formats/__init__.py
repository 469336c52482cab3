"""The structure of each file format, walked without decoding a pixel."""
