"""Decode an opened image and read what its codec prints: libtiff reports damage but still returns pixels."""

import re
import sys
import threading
from types import TracebackType

from PIL import Image

from dataprep.images.formats.tiff.directories import reported_tiff_damage
from dataprep.images.reasons import reason_of_error
from schemas.images.policy import ImageRejected
from schemas.process.native_stderr import NativeStderr

# Pillow silences libtiff's warnings. Errors are printed as "module: text", also those after which it goes on decoding.
_LIBTIFF = re.compile(r"^[\w.]+: .+$")
_DAMAGE = re.compile(r"^(\w*Decode\w*|JPEGLib|TIFFFill\w+|TIFFRead(?!Directory)\w+|tempfile\.tif): ")
_ONE_AT_A_TIME = threading.Lock()  # descriptor 2 belongs to all threads of the process


class CodecMessages:
    """Context manager that captures the messages of libtiff. It does nothing for other formats.

    If `data` (the bytes of the image) is given, they are decoded on entry to read libtiff's warnings too. Raises
    ImageRejected if the warnings report damage.
    """

    def __init__(self, image_format: str | None, data: bytes = b"") -> None:
        self._data = data
        self._stderr = NativeStderr() if image_format == "TIFF" else None
        self._others: list[str] = []

    def __enter__(self) -> "CodecMessages":
        if self._stderr:
            if self._data and (damage := reported_tiff_damage(self._data)):
                raise ImageRejected(*damage)
            _ONE_AT_A_TIME.acquire()
            try:
                self._stderr.__enter__()
            except BaseException:
                _ONE_AT_A_TIME.release()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stderr:
            self._complaint()
            self._stderr.__exit__(kind, error, trace)
            _ONE_AT_A_TIME.release()
            if self._others:  # printed by other threads, for the terminal
                sys.stderr.write("\n".join([*self._others, ""]))

    def load(self, image: Image.Image) -> tuple[str, ...]:
        """Decode the pixels and return warnings.

        Raises ImageRejected with the codec's message, or Pillow's errors.
        """
        if not self._stderr:
            image.load()
            return ()
        try:
            image.load()
        except OSError as error:
            message = self._complaint()
            if message is None:
                raise
            reason, _ = reason_of_error(OSError(f"{error} {message}"))
            raise ImageRejected(reason, message) from error
        message = self._complaint()
        if message and _DAMAGE.match(message):
            raise ImageRejected("corrupt", message)
        return ("tiff_errors_reported",) if message else ()

    def _complaint(self) -> str | None:
        """Return the first message about damage since the last call; without one, the first message of any kind."""
        lines = self._stderr.take().splitlines() if self._stderr else []
        own = [line for line in lines if _LIBTIFF.match(line)]
        self._others += [line for line in lines if not _LIBTIFF.match(line)]
        return next((line for line in own if _DAMAGE.match(line)), own[0] if own else None)
