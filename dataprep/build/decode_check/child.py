"""The child that reads a shard back with MindSpore: the only module of dataprep that imports it.

Run as `python -m dataprep.build.decode_check.child`, in a folder where the decoder may leave its dumps, with a file as
descriptor 2, see native_stderr.stderr_file. It takes one JSON request per line on stdin and answers on stdout, one JSON
object per line:

    {"ready": true}                   MindSpore is imported
    {"row": n}                        row n is about to be decoded (row by row), or has been (otherwise)
    {"bad": n, "detail": ...}         MindSpore does not decode the image of row n
    {"complaint": n, "name": ..., "detail": ..., "damage": ...}      what a decoder printed about the image of row n
    {"unheard": n, "detail": ...}     the original of row n is not decoded, so nothing is printed about it
    {"wrong": ...}                    what was read is not what was written
    {"failed": ...}                   MindSpore gave up; decode row by row to find the image
    {"done": true}                    every row was read

Some files make the decoder die by a signal or spin for ever, so it has a process of its own, see prover.py.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from dataprep.build.decode_check.complaints import complaints
from dataprep.build.decode_check.originals import read_originals
from dataprep.images.formats.jpeg_rewrite import read_to_end
from dataprep.mindrecord.reader import ShardReader
from schemas.counting import many
from schemas.process.native_stderr import STDERR, take_text

HEARTBEAT_S = 0.5
PARENT = "DATAPREP_PARENT"  # the variable in which the supervisor gives its process number
_NO_ROW = ("no row", -1, 0, 0)  # what is expected behind the last row

Answers = Iterator[dict[str, Any]]


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # MindSpore prints there too; the parent alone talks to people.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
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
    if os.getppid() != int(os.environ[PARENT]):  # it ended before the line above; process 1 may well be the parent
        sys.exit(1)


def _say(answers: IO[str], **values: Any) -> None:
    answers.write(json.dumps(values) + "\n")


def _all_at_once(request: dict[str, Any]) -> Answers:
    """Every row in order, decoded by MindSpore's threads, compared with what the builder noted; then by itself each row
    that a decoder may have printed something about.
    """
    heard = _Heard(request["threads"])
    for answer in _read_back(request, heard):
        yield answer
        if "wrong" in answer or "failed" in answer:
            return
    if not request["decode"]:
        return
    examiner = _Examiner()
    found = False
    for answer in examiner.rows(request, heard.rows) if heard.rows else ():
        found |= "row" not in answer
        yield answer
    if heard.rows and not found:  # it was printed about another row, or about none
        yield from examiner.rows(request, None)
    yield from examiner.originals(request)


def _read_back(request: dict[str, Any], heard: "_Heard") -> Answers:
    expected = map(json.loads, Path(request["rows"]).read_bytes().splitlines())
    number = -1
    pulse = _Pulse()
    take_text(STDERR)
    try:
        for number, row in enumerate(_rows(request)):
            heard.listen(number)
            key, label, width, height, *_ = next(expected, _NO_ROW)
            for role, value in (("key", key), ("label", label)):
                if role in row and row[role].item() != value:
                    yield {"wrong": f"row {number} was written for {key}, its {role} reads as {row[role]}"}
                    return
            shape = row["image"].shape
            if request["decode"] == "full" and shape != (height, width, 3):
                yield {"bad": number, "detail": f"decodes to shape {shape}, not to {height} x {width} pixels"}
            yield from pulse.beat(number)
        if next(expected, None):
            yield {"wrong": f"it reads as {many(number + 1, 'row')}, fewer than were written"}
    except (RuntimeError, ValueError) as error:
        yield {"failed": _first_line(error)}


class _Pulse:
    """Says now and then how far the child is, so that it does not count as silent."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def beat(self, row: int) -> Answers:
        """The answer that names `row`, if the last one was a while ago."""
        now = time.monotonic()
        if now - self._last > HEARTBEAT_S:
            self._last = now
            yield {"row": row}


class _Heard:
    """The `rows` among which are those that something was printed about while `threads` decoded ahead.

    It belongs to a row that had not come when stderr was last looked at, and that was in work by then: each thread
    has a few rows in its queues (2 by our prefetch size), and the steps behind it a few more.
    """

    def __init__(self, threads: int) -> None:
        self.rows: set[int] = set()
        self._ahead = 32 + 8 * threads

    def listen(self, row: int) -> None:
        """Look at stderr when `row` has come."""
        if take_text(STDERR):
            self.rows.update(range(row, row + self._ahead))


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
        data = data.map(
            _decoding(request["decode"]), input_columns=names["image"], num_parallel_workers=request["threads"]
        )
    for row in data.create_dict_iterator(num_epochs=1, output_numpy=True):
        yield {role: row[name] for role, name in names.items()}


def _decoding(how: str) -> list[Any]:
    """The operations for `full`, which decodes each pixel, or `strip`, which decodes each JPEG to its end."""
    from mindspore.dataset import vision

    return [vision.Decode()] if how == "full" else [_to_end, _strip()]


def _to_end(image: Any) -> Any:
    import numpy as np

    return np.frombuffer(read_to_end(image.tobytes()), np.uint8)


def _strip() -> Any:
    """The trainer's own RandomCropDecodeResize, given the crop that is as high as the image and next to nothing wide.

    Of a JPEG it reads every scan to its end, and leaves out the arithmetic of the other columns' pixels, which cannot
    fail. It finds what Decode finds in a quarter of the time. Other formats are decoded in full.
    """
    from mindspore.dataset import vision

    # No crop of the whole area and this ratio fits into an image, so after one attempt MindSpore takes the full
    # height. A much smaller ratio rounds to a crop of one pixel, which fits anywhere (measured on 2.10).
    narrow = (9e-4, 1e-3)
    return vision.RandomCropDecodeResize(8, (1.0, 1.0), narrow, vision.Inter.NEAREST, max_attempts=1)


def _decoded_originals(path: Path, threads: int) -> Iterator[int]:
    """Decodes each JPEG of the file of originals to its end; the number of each."""
    import mindspore.dataset as ds
    import numpy as np

    def entries() -> Iterator[tuple[Any, int]]:
        for number, (_, data) in enumerate(read_originals(path)):
            yield np.frombuffer(read_to_end(data), np.uint8), number

    data = ds.GeneratorDataset(
        entries, ["image", "entry"], shuffle=False, num_parallel_workers=1, python_multiprocessing=False
    )
    data = data.map(_strip(), input_columns="image", num_parallel_workers=threads)
    for row in data.create_dict_iterator(num_epochs=1, output_numpy=True):
        yield row["entry"].item()


def _one_by_one(request: dict[str, Any]) -> Answers:
    """The rows from `first` to `last` (-1: all that follow), each by itself, announced before it is decoded."""
    yield from _Examiner().rows(request, None, with_originals=True)


class _Examiner:
    """Decodes one image at a time, and listens to the decoders."""

    def __init__(self) -> None:
        from mindspore.dataset import vision

        self._full, self._strip = vision.Decode(), _strip()
        self._error: str | None = None

    def rows(self, request: dict[str, Any], wanted: set[int] | None, with_originals: bool = False) -> Answers:
        """What is to be said of the images of the `wanted` rows between `first` and `last`, or of all of them."""
        first, last = request["first"], request["last"]
        originals = read_originals(Path(request["originals"])) if with_originals else iter(())
        original = next(originals, None)
        with ShardReader(Path(request["shard"])) as reader:
            for number, row in enumerate(reader):
                data = None
                if original and original[0] == number:
                    data, original = original[1], next(originals, None)
                if number < first or (wanted is not None and number not in wanted):
                    continue
                if 0 <= last < number:
                    return
                yield {"row": number}
                yield from self._image(number, row[request["columns"]["image"]])
                if data:
                    yield from self._complaints(number, data)

    def originals(self, request: dict[str, Any]) -> Answers:
        """What is to be said of the JPEGs that rows were made from, which no trainer decodes."""
        path = Path(request["originals"])
        if not path.is_file():
            return
        heard = _Heard(request["threads"])
        pulse = _Pulse()
        wanted: set[int] | None = heard.rows
        try:
            for entry in _decoded_originals(path, request["threads"]):
                heard.listen(entry)
                yield from pulse.beat(entry)
        except RuntimeError:  # not every JPEG that Pillow reads is one that MindSpore does; such a one says nothing
            wanted = None
        found = False
        for answer in self._examined_originals(path, wanted) if wanted != set() else ():
            found |= "complaint" in answer
            yield answer
        if wanted and not found:
            yield from self._examined_originals(path, None)

    def _examined_originals(self, path: Path, wanted: set[int] | None) -> Answers:
        """What is to be said of the `wanted` entries of the file of originals, or of all of them."""
        for entry, (number, data) in enumerate(read_originals(path)):
            if wanted is None or entry in wanted:
                yield {"row": number}
                yield from self._complaints(number, data)

    def _image(self, number: int, data: bytes) -> Answers:
        printed = self._decode(data)
        if self._error:
            # An image may be charged with an error that the one before it left behind in the decoder (measured on
            # 2.10), so only one that fails again is at fault.
            printed = self._decode(data)
        if self._error:
            yield {"bad": number, "detail": self._error}
        elif printed:
            yield from self._complaints(number, data)

    def _complaints(self, number: int, data: bytes) -> Answers:
        for complaint in complaints(data, self._decode):
            yield {
                "complaint": number,
                "name": complaint.name,
                "detail": complaint.text,
                "damage": complaint.damage,
            }
        if self._error:
            yield {"unheard": number, "detail": self._error}

    def _decode(self, data: bytes) -> str:
        """What decoders print about an image that is decoded in full, and by the strip; notes the error of the former.

        The strip reads a JPEG to its end, which full decoding need not do.
        """
        import numpy as np

        self._error = None
        take_text(STDERR)
        try:
            self._full(np.frombuffer(data, np.uint8))
        except RuntimeError as error:
            self._error = _first_line(error)
        return take_text(STDERR) + self._decode_strip(data)

    def _decode_strip(self, data: bytes) -> str:
        import numpy as np

        try:
            self._strip(np.frombuffer(read_to_end(data), np.uint8))
        except RuntimeError as error:
            # Decode and the strip fail over the same files, but for want of memory.
            self._error = self._error or _first_line(error)
        return take_text(STDERR)


def _first_line(error: Exception) -> str:
    """MindSpore's messages carry rulers and source lines; the sentence stands behind [ERROR]."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    said = next((line for line in lines if line.startswith("[ERROR]")), lines[0])
    return said.removeprefix("[ERROR]").strip()[:200]


if __name__ == "__main__":
    main()
