"""What besides images and options decides the bytes: this code, and the libraries and the machine below it."""

import hashlib
import platform
import sqlite3
from pathlib import Path

import PIL
from PIL import features

# Pixels are decoded, converted and encoded anew by these; None where this Pillow has none of it.
CODECS = ("jpg", "libjpeg_turbo", "zlib", "zlib_ng", "jpg_2000", "libtiff", "webp", "avif", "littlecms2")


def _sources_digest() -> str:
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for package in ("dataprep", "schemas"):
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".json"):
                digest.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


# Taken when this module is loaded: a process that lives on over an update of the files still runs the old code.
_SOURCES = _sources_digest()


def software() -> dict[str, str]:
    """Names and versions; two processes that agree in all of them write the same bytes."""
    codecs = {f"Pillow's {name}": str(features.version(name)) for name in CODECS}
    return {
        "mindspore-dataprep": _SOURCES,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
        "SQLite": sqlite3.sqlite_version,
        "Pillow": PIL.__version__,
        **codecs,
    }
