"""WebDataset's ShardWriter: python -m benchmarks.peers.webdataset_write IMAGES OUT."""

import sys
from pathlib import Path

from benchmarks.peers.folder import labelled, started, sync, tell

SHARDS = 16


def main() -> None:
    """Write all images, bytes as they are."""
    import webdataset

    begun = started()
    images, out = Path(sys.argv[1]), Path(sys.argv[2])
    files = labelled(images)
    a_shard = -(-len(files) // SHARDS)
    with webdataset.ShardWriter(str(out / "train-%06d.tar"), maxcount=a_shard, verbose=0) as writer:
        for number, (path, label) in enumerate(files):
            writer.write({"__key__": f"{number:08d}", "jpg": path.read_bytes(), "cls": label})
    sync(out)
    tell(begun)


if __name__ == "__main__":
    main()
