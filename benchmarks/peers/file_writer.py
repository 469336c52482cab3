"""MindSpore's FileWriter: python -m benchmarks.peers.file_writer IMAGES OUT SHARDS [parallel]."""

import sys
from itertools import islice
from pathlib import Path

from benchmarks.peers.folder import labelled, started, sync, tell

ROWS_A_CALL = 100  # three times as quick as one row a call


def main() -> None:
    """Write all images, bytes as they are."""
    from mindspore.mindrecord import FileWriter

    begun = started()
    images, out, shards = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    parallel = sys.argv[4:] == ["parallel"]
    writer = FileWriter(str(out / "train.mindrecord"), shards, overwrite=True)
    schema = {"image": {"type": "bytes"}, "label": {"type": "int32"}, "key": {"type": "string"}}
    writer.add_schema(schema, "images")
    writer.add_index(["label", "key"])
    rows = (
        {"image": path.read_bytes(), "label": label, "key": path.relative_to(images).as_posix()}
        for path, label in labelled(images)
    )
    while batch := list(islice(rows, ROWS_A_CALL)):
        writer.write_raw_data(batch, parallel_writer=parallel)
    writer.commit()
    sync(out)
    tell(begun)


if __name__ == "__main__":
    main()
