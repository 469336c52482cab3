"""Versions of the code, libraries and machine that affect the written bytes."""

import hashlib
import platform
import sqlite3
from functools import cache
from pathlib import Path

import PIL
from PIL import features

# Libraries of Pillow that decode, convert or encode pixels; None if this build lacks one.
CODECS = ("jpg", "libjpeg_turbo", "zlib", "zlib_ng", "jpg_2000", "libtiff", "webp", "avif", "littlecms2")


@cache  # a process that outlives an update of the files still runs the old code
def _sources_digest() -> str:
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for package in ("dataprep", "schemas"):
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".json"):
                digest.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def software() -> dict[str, str]:
    """Return versions by name. Processes with equal versions write the same bytes."""
    codecs = {f"Pillow's {name}": str(features.version(name)) for name in CODECS}
    return {
        "mindspore-dataprep": _sources_digest(),
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
        "SQLite": sqlite3.sqlite_version,
        "Pillow": PIL.__version__,
        **codecs,
    }
