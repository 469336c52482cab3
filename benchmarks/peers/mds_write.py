"""MosaicML Streaming's MDSWriter: python -m benchmarks.peers.mds_write IMAGES OUT."""

import sys
from pathlib import Path

from benchmarks.peers.folder import labelled, started, sync, tell


def main() -> None:
    """Write all images, bytes as they are, in shards of its default size."""
    from streaming import MDSWriter

    begun = started()
    images, out = Path(sys.argv[1]), Path(sys.argv[2])
    columns = {"image": "bytes", "label": "int", "key": "str"}
    with MDSWriter(out=str(out), columns=columns) as writer:
        for path, label in labelled(images):
            key = path.relative_to(images).as_posix()
            writer.write({"image": path.read_bytes(), "label": label, "key": key})
    sync(out)
    tell(begun)


if __name__ == "__main__":
    main()
