"""Makes a program read names of files as UTF-8, whatever the locale, and print in the terminal's encoding."""

import io
import os
import sys
from pathlib import Path

_TERMINAL = "MINDSPORE_DATAPREP_TERMINAL"  # the variable that tells the program started again how its terminal encodes


def use_utf8() -> None:
    """Start this program again in Python's UTF-8 mode where the locale has another encoding.

    Python decodes names by the locale, and MindSpore takes paths as UTF-8: under Latin-1 they would mean different
    folders by the same text, and a name that GBK cannot decode would seem not to exist. Child processes inherit the
    mode. The arguments are passed on as the bytes that they are. What is printed stays in the locale's encoding on a
    terminal, with escapes for letters that it lacks, and is UTF-8 in files and pipes. To be called after
    streams.prepare_streams.
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
