"""Read annotation files. A file that cannot be used is one sentence, or a reject if it is of one image."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from dataprep.errors import DataprepError, DataRejected, TryLater
from dataprep.items import encode_name
from dataprep.sources.peek import read_head
from dataprep.storage.disk import OWN_ERRORS
from schemas.errors import PASSING_ERRORS, ContractError
from schemas.images.policy import ImageRejected
from schemas.process.memory import is_shortage
from schemas.storage.regular_file import open_regular

MAX_BYTES = 16 << 20  # of the annotation of one image


def read_whole(path: Path) -> bytes:
    """Return the content of a file with the annotations of many images.

    Raises DataRejected if it cannot be read, TryLater for a temporary error.
    """
    try:
        with open_regular(path) as file:
            return file.read()
    except ContractError as error:
        raise DataRejected(str(error)) from None
    except OSError as error:
        check_passing(path, error)
        raise DataRejected(f"{path} cannot be read: {error.strerror}") from None


def read_lines(path: Path, encoding: str) -> list[str]:
    """Return the lines of a text file of names, without white space around them and without empty lines.

    Raises DataRejected if it is not text in this encoding.
    """
    try:
        text = read_whole(path).decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise DataRejected(f"{path} is not text in {encoding} ({error}); name its encoding with --encoding") from None
    if "\0" in text:
        raise DataRejected(f"{path} is not a text file: it has NUL characters")
    return [line for line in map(str.strip, text.splitlines()) if line]


def read_small(root: str, path: str) -> bytes | None:
    """Return the content of the annotation file of one image; None if it does not exist.

    Raises ImageRejected if it cannot be read, TryLater for a temporary error.
    """
    full = Path(os.fsdecode(os.path.join(encode_name(root), encode_name(path))))
    try:
        with open_regular(full) as file:
            data = file.read(MAX_BYTES + 1)
    except ContractError:
        raise ImageRejected("invalid_annotation", f"{path} is not a regular file") from None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        check_passing(full, error)
        raise ImageRejected("invalid_annotation", f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ImageRejected("invalid_annotation", f"{path} is larger than {MAX_BYTES >> 20} MiB")
    return data


def has_head(path: Path, head: re.Pattern[bytes]) -> bool:
    """Return True if the first 32 bytes of a file begin with `head`."""
    try:
        return head.match(read_head(os.fsencode(path))) is not None
    except OSError:
        return False


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it does not exist.

    Raises DataRejected if it cannot be listed, TryLater for a temporary error.
    """
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        check_passing(folder, error)
        raise DataRejected(f"{folder} cannot be listed: {error.strerror}; make it readable (chmod u+rx)") from None


def quietly(test: Callable[[Path], bool]) -> Callable[[Path], bool]:
    """Return a function that returns False if `test` cannot read what it looks at. The scan reports the error."""

    def tested(root: Path) -> bool:
        try:
            return test(root)
        except (OSError, DataprepError):
            return False

    return tested


def is_file(root: Path, path: str) -> bool:
    """Return True if a path below `root`, text as in annotations, is a file."""
    return os.path.isfile(os.path.join(os.fsencode(root), encode_name(path)))


def read_start(path: Path) -> bytes:
    """Return the first 64 KiB of a file; nothing if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(1 << 16)
    except (OSError, ContractError):
        return b""


def check_passing(path: Path, error: OSError) -> None:
    """Raise TryLater for a temporary error, and the error itself if this process is the cause."""
    if error.errno in OWN_ERRORS or is_shortage(error):
        raise error
    if error.errno in PASSING_ERRORS:
        raise TryLater(f"{path} cannot be read now: {error.strerror}; run the same command again later")


def is_text(value: object) -> bool:
    """Return True for a string with a visible character that can be written as UTF-8."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can express
        return False
    return True


def is_number(value: object) -> bool:
    """Return True for a finite number that fits a coordinate. True and False are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
