"""Read file names as UTF-8 in any locale, and print in the encoding of the terminal."""

import io
import os
import sys
from pathlib import Path

_TERMINAL = "MINDSPORE_DATAPREP_TERMINAL"  # passes the terminal encoding on to the restarted program


def use_utf8() -> None:
    """Restart this program in Python's UTF-8 mode if the locale has another encoding.

    Python decodes names by the locale, but MindSpore takes paths as UTF-8. Under Latin-1, Python and MindSpore would
    open different folders for the same text. A name that GBK cannot decode would seem not to exist. Child processes
    inherit the mode. Arguments are passed on byte for byte. Output to a terminal stays in the encoding of the locale,
    with escapes for missing characters; files and pipes get UTF-8. Call it after streams.prepare_streams.
    """
    terminal = os.environ.pop(_TERMINAL, None)
    for stream in (sys.stdout, sys.stderr) if terminal else ():
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            stream.reconfigure(encoding=terminal, errors="backslashreplace")
    if sys.flags.utf8_mode or sys.getfilesystemencoding() == "utf-8":
        return
    os.environ["PYTHONUTF8"] = "1"
    os.environ[_TERMINAL] = sys.getfilesystemencoding()
    interpreter, *arguments = Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
    sys.stdout.flush()
    os.execv(sys.executable, [interpreter, b"-X", b"utf8", *arguments])
