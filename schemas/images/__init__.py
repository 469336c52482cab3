"""What both programs know of image files: the pixel policy, PNG chunks, files that stand in for images."""
