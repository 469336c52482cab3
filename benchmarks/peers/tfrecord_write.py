"""TFRecord files by the package tfrecord: python -m benchmarks.peers.tfrecord_write IMAGES OUT."""

import sys
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.peers.folder import labelled, started, sync, tell

SHARDS = 16


def main() -> None:
    """Write all images, bytes as they are, in turn to each of the files."""
    from tfrecord.writer import TFRecordWriter

    begun = started()
    images, out = Path(sys.argv[1]), Path(sys.argv[2])
    with ExitStack() as stack:
        writers = [stack.enter_context(closing(TFRecordWriter(str(out / f"train-{n:02d}")))) for n in range(SHARDS)]
        for number, (path, label) in enumerate(labelled(images)):
            key = path.relative_to(images).as_posix().encode()
            row = {"image": (path.read_bytes(), "byte"), "label": (label, "int"), "key": (key, "byte")}
            writers[number % SHARDS].write(row)
    sync(out)
    tell(begun)


if __name__ == "__main__":
    main()
