"""Raw images to sealed MindRecord datasets."""
