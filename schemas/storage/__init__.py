"""Read and write files: whole, regular, synced; the errors of disks and of SQLite."""
