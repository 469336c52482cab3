"""Read and write files: atomic writes, regular files, sync; disk errors, also of SQLite."""
