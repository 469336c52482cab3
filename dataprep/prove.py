"""The child that reads a shard back with MindSpore: the only module of dataprep that imports it.

Run as `python -m dataprep.prove`, in a folder where the decoder may leave its dumps. It takes one JSON request a line
on stdin and answers on stdout, a JSON object a line:

    {"ready": true}                   MindSpore is imported
    {"row": n}                        row n is about to be decoded (one by one), or has been (otherwise)
    {"bad": n, "detail": ...}         the image of row n is at fault
    {"wrong": ...}                    what was read is not what was written
    {"failed": ...}                   MindSpore gave up; whose fault it is, is to be found one by one
    {"done": true}                    every row was seen

Some files make the decoder die by a signal or spin for ever, so it has a process of its own, see prover.py.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dataprep.mindrecord import ShardReader

HEARTBEAT_ROWS = 64
_NO_ROW = ("no row", -1, 0, 0)  # what is expected behind the last row


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # MindSpore and the codecs print to both; the parent alone talks to people.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ["GLOG_v"] = "4"  # noqa: SIM112  MindSpore spells it so
    _end_with_parent()
    import mindspore.dataset  # noqa: F401  takes seconds, so it is done before the first request

    _say(answers, ready=True)
    for line in sys.stdin:
        request = json.loads(line)
        walk = _one_by_one if request["one_by_one"] else _all_at_once
        for answer in walk(request):
            _say(answers, **answer)
        _say(answers, done=True)


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent: a decoder that spins would not notice that it is alone."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit(1)


def _say(answers: IO[str], **values: Any) -> None:
    answers.write(json.dumps(values) + "\n")


def _all_at_once(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every row in order, decoded by MindSpore's threads, compared with what the builder noted."""
    expected = map(json.loads, Path(request["rows"]).read_bytes().splitlines())
    number = -1
    try:
        for number, row in enumerate(_rows(request)):
            key, label, width, height, *_ = next(expected, _NO_ROW)
            if (row["key"].item(), row["label"].item()) != (key, label):
                yield {"wrong": f"row {number} reads as {row['key']} with label {row['label']}, not as {key}"}
                return
            shape = row["image"].shape
            if request["decode"] == "full" and shape != (height, width, 3):
                yield {"bad": number, "detail": f"decodes to shape {shape}, not to {height} x {width} pixels"}
            if number % HEARTBEAT_ROWS == 0:
                yield {"row": number}
        if next(expected, None):
            yield {"wrong": f"it reads as {number + 1} rows, fewer than were written"}
    except (RuntimeError, ValueError) as error:
        yield {"failed": _first_line(error)}


def _rows(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import mindspore.dataset as ds

    ds.config.set_prefetch_size(2)  # decoded photos are large, and nothing waits for them
    names = request["columns"]
    data = ds.MindDataset(
        [request["shard"]],
        columns_list=list(names.values()),
        shuffle=False,
        num_parallel_workers=1,
        num_shards=1,
        shard_id=0,
    )
    if request["decode"]:
        decode = _decoder(request["decode"])
        data = data.map(decode, input_columns=names["image"], num_parallel_workers=request["threads"])
    for row in data.create_dict_iterator(num_epochs=1, output_numpy=True):
        yield {role: row[name] for role, name in names.items()}


def _decoder(how: str) -> Any:
    """`full` decodes each pixel. `strip` is the trainer's own RandomCropDecodeResize, given the crop that is one pixel
    wide and as high as the image: of a JPEG it reads the whole stream, every scan line, and leaves out the arithmetic
    of the other columns' pixels, which cannot fail. It finds what `full` finds (measured on 1,283 broken and odd files)
    in a quarter of the time. Other formats are decoded in full by either.
    """
    from mindspore.dataset import vision

    if how == "full":
        return vision.Decode()
    # No crop of the whole area is so narrow, so after one attempt MindSpore takes the full height, in the middle.
    narrow = (5e-7, 1e-6)
    return vision.RandomCropDecodeResize(8, (1.0, 1.0), narrow, vision.Inter.NEAREST, max_attempts=1)


def _one_by_one(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each image from row `first` on by itself, announced before it is decoded: the last one named is the culprit."""
    import numpy as np

    decode = _decoder(request["decode"] or "full")
    with ShardReader(Path(request["shard"])) as reader:
        for number, row in enumerate(reader):
            if number < request["first"]:
                continue
            yield {"row": number}
            image = np.frombuffer(row[request["columns"]["image"]], np.uint8)
            with suppress(RuntimeError):
                decode(image)
                continue
            # An image may be charged with an error that the one before it left behind in the decoder (measured on
            # 2.10), so only one that fails again is at fault.
            try:
                decode(image)
            except RuntimeError as error:
                yield {"bad": number, "detail": _first_line(error)}


def _first_line(error: Exception) -> str:
    """MindSpore's messages carry rulers and source lines; the sentence stands behind [ERROR]."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    said = next((line for line in lines if line.startswith("[ERROR]")), lines[0])
    return said.removeprefix("[ERROR]").strip()[:200]


if __name__ == "__main__":
    main()
