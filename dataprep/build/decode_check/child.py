"""The child process that reads a shard back with MindSpore. The only module of dataprep that imports MindSpore.

Run as `python -m dataprep.build.decode_check.child` in a scratch folder, with a file as descriptor 2 (see
native_stderr.stderr_file). It reads one JSON request per line from stdin and writes one JSON answer per line to stdout:

    {"ready": true}                   MindSpore is imported
    {"row": n}                        row n is about to be decoded (row by row), or has been (otherwise)
    {"bad": n, "detail": ...}         MindSpore cannot decode the image of row n
    {"complaint": n, "name": ..., "detail": ..., "damage": ...}      a decoder message about the image of row n
    {"unheard": n, "detail": ...}     the original of row n cannot be decoded, so its messages are unknown
    {"wrong": ...}                    a row differs from what was written
    {"failed": ...}                   MindSpore failed; decode row by row to find the image
    {"done": true}                    every row was read

Some files crash or hang the decoder, so it runs in its own process; supervisor.py replaces it.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypedDict

from dataprep.build.decode_check.complaints import complaints
from dataprep.build.decode_check.originals import read_originals
from dataprep.images.formats.jpeg_rewrite import read_to_end
from dataprep.mindrecord.reader import ShardReader
from schemas.counting import many
from schemas.process.native_stderr import STDERR, take_text

HEARTBEAT_S = 0.5
PARENT = "DATAPREP_PARENT"  # environment variable with the process number of the supervisor
_NO_ROW = ("no row", -1, 0, 0)  # expected after the last row

Answer = dict[str, Any]
Answers = Iterator[Answer]


class Request(TypedDict):
    """A shard to read: paths, columns by role, how to decode, and the rows for `one_by_one` (`last` -1: to the end)."""

    shard: str
    rows: str
    originals: str
    columns: dict[str, str]
    decode: str | None
    threads: int
    one_by_one: bool
    first: int
    last: int


def main() -> None:
    """Answer requests until stdin is closed."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # MindSpore prints to descriptor 1 too
    os.environ["GLOG_v"] = "4"  # noqa: SIM112  MindSpore's spelling
    _end_with_parent()
    import mindspore.dataset  # noqa: F401  takes seconds, so before the first request

    _say(answers, ready=True)
    for line in sys.stdin:
        request: Request = json.loads(line)
        answer_rows = _one_by_one if request["one_by_one"] else _all_at_once
        for answer in answer_rows(request):
            _say(answers, **answer)
        _say(answers, done=True)


def _end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends.

    A hanging decoder would not notice the end of its parent.
    """
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != int(os.environ[PARENT]):  # the parent ended before prctl; do not compare with 1, which may be it
        sys.exit(1)


def _say(answers: IO[str], **values: object) -> None:
    answers.write(json.dumps(values) + "\n")


def _all_at_once(request: Request) -> Answers:
    """Read all rows with MindSpore's threads and compare them with ROWS.

    Suspect rows are then decoded one at a time.
    """
    suspects = _Suspects(request["threads"])
    for answer in _read_back(request, suspects):
        yield answer
        if "wrong" in answer or "failed" in answer:
            return
    if not request["decode"]:
        return
    decoder = _SingleDecoder()
    explained = False
    for answer in decoder.rows(request, suspects.rows) if suspects.rows else ():
        explained |= "row" not in answer
        yield answer
    if suspects.rows and not explained:  # the message belongs to another row, or to none
        yield from decoder.rows(request, None)
    yield from decoder.originals(request)


def _read_back(request: Request, suspects: "_Suspects") -> Answers:
    expected = map(json.loads, Path(request["rows"]).read_bytes().splitlines())
    number = -1
    heartbeat = _Heartbeat()
    take_text(STDERR)
    try:
        for number, row in enumerate(_rows(request)):
            suspects.read_stderr(number)
            key, label, width, height, *_ = next(expected, _NO_ROW)
            for role, value in (("key", key), ("label", label)):
                if role in row and row[role].item() != value:
                    yield {"wrong": f"row {number} was written for {key}, but its {role} reads as {row[role]}"}
                    return
            shape = row["image"].shape
            if request["decode"] == "full" and shape != (height, width, 3):
                yield {"bad": number, "detail": f"decodes to shape {shape}, not to {height} x {width} pixels"}
            yield from heartbeat.beat(number)
        if next(expected, None):
            yield {"wrong": f"it has {many(number + 1, 'row')}, fewer than were written"}
    except (RuntimeError, ValueError) as error:
        yield {"failed": _first_line(error)}


class _Heartbeat:
    """Reports progress at intervals, so that the supervisor does not treat the child as hanging."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def beat(self, row: int) -> Answers:
        """Yield an answer that names `row` if the last one is older than HEARTBEAT_S."""
        now = time.monotonic()
        if now - self._last > HEARTBEAT_S:
            self._last = now
            yield {"row": row}


class _Suspects:
    """The `rows` that decoder messages may belong to, while `threads` decode ahead.

    A message belongs to a row that was being decoded and not yet returned: each thread has 2 rows in its queue (the
    prefetch size), and later steps have a few more.
    """

    def __init__(self, threads: int) -> None:
        self.rows: set[int] = set()
        self._ahead = 32 + 8 * threads

    def read_stderr(self, row: int) -> None:
        """Read stderr after `row` was returned.

        If anything was printed, add the rows that were decoded since the last call.
        """
        if take_text(STDERR):
            self.rows.update(range(row, row + self._ahead))


def _rows(request: Request) -> Iterator[dict[str, Any]]:
    import mindspore.dataset as ds

    ds.config.set_prefetch_size(2)  # decoded photos are large, and prefetching more does not help
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
    """Return the operations for `full` (decode every pixel) or `strip` (read every JPEG to its end)."""
    from mindspore.dataset import vision

    return [vision.Decode()] if how == "full" else [_to_end, _strip()]


def _to_end(image: Any) -> Any:
    import numpy as np

    return np.frombuffer(read_to_end(image.tobytes()), np.uint8)


def _strip() -> Any:
    """Return the trainer's RandomCropDecodeResize with a crop of full height and minimal width.

    It reads every scan of a JPEG to its end but skips the pixel arithmetic of the other columns, which cannot fail. So
    it finds the same errors as Decode in a quarter of the time. Images in other formats are decoded in full.
    """
    from mindspore.dataset import vision

    # No crop with the whole area and this ratio fits, so MindSpore falls back to the full height after one attempt.
    # A much smaller ratio is rounded to a crop of one pixel, which fits anywhere (measured on 2.10).
    narrow = (9e-4, 1e-3)
    return vision.RandomCropDecodeResize(8, (1.0, 1.0), narrow, vision.Inter.NEAREST, max_attempts=1)


def _decoded_originals(path: Path, threads: int) -> Iterator[int]:
    """Decode each JPEG of the originals file to its end; yield the number of each entry."""
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


def _one_by_one(request: Request) -> Answers:
    """Decode the rows from `first` to `last` one at a time. Announce each row before it is decoded.

    If `last` is -1, decode up to the last row.
    """
    yield from _SingleDecoder().rows(request, None, with_originals=True)


class _SingleDecoder:
    """Decodes one image at a time and captures the decoder messages about it."""

    def __init__(self) -> None:
        from mindspore.dataset import vision

        self._full, self._strip = vision.Decode(), _strip()
        self._error: str | None = None

    def rows(self, request: Request, wanted: set[int] | None, with_originals: bool = False) -> Answers:
        """Decode the `wanted` rows between `first` and `last`; None means all of them."""
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

    def originals(self, request: Request) -> Answers:
        """Decode the originals of re-encoded JPEGs, which the trainer never reads."""
        path = Path(request["originals"])
        if not path.is_file():
            return
        suspects = _Suspects(request["threads"])
        heartbeat = _Heartbeat()
        wanted: set[int] | None = suspects.rows
        try:
            for entry in _decoded_originals(path, request["threads"]):
                suspects.read_stderr(entry)
                yield from heartbeat.beat(entry)
        except RuntimeError:  # MindSpore cannot decode every JPEG that Pillow can; such an original is no error
            wanted = None
        explained = False
        for answer in self._selected_originals(path, wanted) if wanted != set() else ():
            explained |= "complaint" in answer
            yield answer
        if wanted and not explained:
            yield from self._selected_originals(path, None)

    def _selected_originals(self, path: Path, wanted: set[int] | None) -> Answers:
        """Decode the `wanted` entries of the originals file; None means all of them."""
        for entry, (number, data) in enumerate(read_originals(path)):
            if wanted is None or entry in wanted:
                yield {"row": number}
                yield from self._complaints(number, data)

    def _image(self, number: int, data: bytes) -> Answers:
        printed = self._decode(data)
        if self._error:
            # The decoder may report an error of the previous image (measured on 2.10), so only an image that fails
            # twice is rejected.
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
        """Decode an image in full and by `_strip`. Return the printed text and set `_error`.

        `_strip` reads a JPEG to its end, which full decoding may not do.
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
            # Both fail on the same files, except when memory is short.
            self._error = self._error or _first_line(error)
        return take_text(STDERR)


def _first_line(error: Exception) -> str:
    """Return the sentence after [ERROR].

    MindSpore's messages also contain rulers and source lines.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    sentence = next((line for line in lines if line.startswith("[ERROR]")), lines[0])
    return sentence.removeprefix("[ERROR]").strip()[:200]


if __name__ == "__main__":
    main()
