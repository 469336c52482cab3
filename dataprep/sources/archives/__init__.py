"""Layouts of archives: tar, tar of tars, zip and WebDataset. Only compressed tars are unpacked."""
