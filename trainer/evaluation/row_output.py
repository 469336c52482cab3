"""Output stream of `trainer predict`."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from trainer.errors import disk_error


@contextlib.contextmanager
def rows_to(out: Path | None) -> Iterator[TextIO]:
    """Yield stdout, or a temporary file that becomes `out` at the end. Raises TrainerError if writing `out` fails."""
    if out is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        yield sys.stdout
        return
    if out.exists() and not out.is_file():  # a device or a pipe is written directly
        with out.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
            yield stream
        return
    out = out.resolve()
    parts = out.with_name(f".{out.name}-{os.getpid()}")
    try:
        with parts.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
            yield stream
        os.replace(parts, out)
    except OSError as error:
        raise disk_error(error, f"cannot write {out}") from None
    finally:
        parts.unlink(missing_ok=True)
