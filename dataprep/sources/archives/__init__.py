"""Archives whose members are images: tar, zip and WebDataset. Only compressed tars are unpacked."""
