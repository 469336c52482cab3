"""The least that looking through folders can cost: python -m benchmarks.peers.walk FOLDER. Each file is asked once."""

import os
import sys
from pathlib import Path


def walk(folder: str) -> int:
    """Number of files below `folder`; size and time of each are asked for."""
    files = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                files += walk(entry.path)
            else:
                files += entry.stat().st_size >= 0
    return files


if __name__ == "__main__":
    print(walk(str(Path(sys.argv[1]))), "files")
