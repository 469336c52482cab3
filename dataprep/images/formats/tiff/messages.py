"""Decodes an opened image and listens to what its codec prints: libtiff reports damage, and gives a picture of it."""

import re
import sys
import threading
from types import TracebackType

from PIL import Image

from dataprep.images.formats.tiff.directories import heard_tiff_damage
from dataprep.images.reasons import of_error
from schemas.images.policy import Refusal
from schemas.process.native_stderr import NativeStderr

# Pillow silences libtiff's warnings. Its errors are printed as "module: text", also those that it decodes beyond.
_LIBTIFF = re.compile(r"^[\w.]+: .+$")
_DAMAGE = re.compile(r"^(\w*Decode\w*|JPEGLib|TIFFFill\w+|TIFFRead(?!Directory)\w+|tempfile\.tif): ")
_ONE_AT_A_TIME = threading.Lock()  # descriptor 2 belongs to all threads of the process


class CodecMessages:
    """While entered, what libtiff prints is heard; for other formats this does nothing. Enter it where an error is the
    machine's fault, not the image's. With `data`, the bytes of the image, entering it decodes them to hear libtiff's
    warnings too, and raises Refusal where these tell of damage.
    """

    def __init__(self, image_format: str | None, data: bytes = b"") -> None:
        self._data = data
        self._stderr = NativeStderr() if image_format == "TIFF" else None
        self._others: list[str] = []

    def __enter__(self) -> "CodecMessages":
        if self._stderr:
            if self._data and (damage := heard_tiff_damage(self._data)):
                raise Refusal(*damage)
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
            if self._others:  # another thread's, which meant them for its terminal
                sys.stderr.write("\n".join([*self._others, ""]))

    def load(self, image: Image.Image) -> tuple[str, ...]:
        """Decode the pixels; returns warnings. Raises Refusal in the codec's words where it complained of damage, and
        whatever Pillow raises.
        """
        if not self._stderr:
            image.load()
            return ()
        try:
            image.load()
        except OSError as error:
            said = self._complaint()
            if said is None:
                raise
            reason, _ = of_error(OSError(f"{error} {said}"))
            raise Refusal(reason, said) from error
        said = self._complaint()
        if said and _DAMAGE.match(said):
            raise Refusal("corrupt", said)
        return ("tiff_errors_reported",) if said else ()

    def _complaint(self) -> str | None:
        """The first complaint of damage since the last call, or else the first of any kind."""
        lines = self._stderr.take().splitlines() if self._stderr else []
        own = [line for line in lines if _LIBTIFF.match(line)]
        self._others += [line for line in lines if not _LIBTIFF.match(line)]
        return next((line for line in own if _DAMAGE.match(line)), own[0] if own else None)
