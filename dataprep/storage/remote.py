"""Object stores as SOURCE, such as s3://bucket/folder, through fsspec.

Inside the program an address is written as an absolute path, /s3:/bucket/folder, since paths have one slash.
"""

import functools
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dataprep.errors import DataprepError, TryLater, WrongUsage
from dataprep.items import decode_name

_URL = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.DOTALL)
_PATH = re.compile(r"/([a-z][a-z0-9+.-]+):/(.*)", re.DOTALL)
_PATH_IN_TEXT = re.compile(r"(?<![\w./])/([a-z][a-z0-9+.-]+):/")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
# Pauses before another attempt, for errors that go away: a busy server, a lost connection.
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
# Addresses that fsspec opens on this machine or that have no folders.
_NOT_STORES = ("file", "local", "memory", "http", "https")
_T = TypeVar("_T")


class StoredObject(NamedTuple):
    """An object below a prefix: its name relative to the prefix, size in bytes and time in nanoseconds."""

    name: str
    size: int
    mtime_ns: int


def source_path_of(source: str) -> Path:
    """Return the path of SOURCE as given on the command line, which may be an address.

    Raises WrongUsage for an address that is no object store.
    """
    match = _URL.fullmatch(source)
    if match is None:
        return Path(source)
    if match[1] in _NOT_STORES:
        raise WrongUsage(
            f"SOURCE {source} is not an object store; use a path, or an address such as s3://bucket/folder"
        )
    return Path(f"/{match[1]}:/{match[2].strip('/')}")


def is_remote(path: str | bytes | os.PathLike[str]) -> bool:
    """Return True for a path that source_path_of made of an address."""
    text = os.fspath(path)
    return text[:1] == ("/" if isinstance(text, str) else b"/") and _PATH.match(_text(text)) is not None


def address_of(path: str | bytes | os.PathLike[str]) -> str:
    """Return the address of a remote path, and any other path as it is."""
    return _PATH.sub(r"\1://\2", _text(os.fspath(path)), count=1)


def with_addresses(text: str) -> str:
    """Return a message with its remote paths as addresses."""
    return _PATH_IN_TEXT.sub(r"\1://", text)


def _text(path: str | bytes) -> str:
    return decode_name(path) if isinstance(path, bytes) else path


def list_objects(path: Path) -> Iterator[StoredObject]:
    """Yield every object below a remote path, in the order of the store.

    Raises WrongUsage if there is none, DataprepError if the store refuses, TryLater if it cannot be reached.
    """
    address = address_of(path)
    system, prefix = _system(address)
    try:
        found: dict[str, dict[str, Any]] = _patiently(lambda: system.find(prefix, detail=True))
    except PermissionError as error:
        raise DataprepError(
            f"SOURCE {address} may not be listed: {error}; check the credentials of the store"
        ) from None
    except FileNotFoundError:
        found = {}
    except OSError as error:
        raise TryLater(f"SOURCE {address} cannot be listed now: {error.strerror}; run the same command again") from None
    names = sorted(name for name, info in found.items() if info.get("type", "file") == "file")
    if not names:
        raise WrongUsage(f"SOURCE {address} has no object; check the address")
    for name in names:
        relative = name[len(prefix.rstrip("/")) :].lstrip("/")
        if relative and not relative.endswith("/"):  # a marker of an empty folder
            yield StoredObject(relative, int(found[name]["size"]), _time_ns(found[name]))


def _time_ns(info: dict[str, Any]) -> int:
    """Return the time of an object; stores name it differently, and some have none."""
    value = next((info[key] for key in ("LastModified", "last_modified", "updated", "mtime") if key in info), None)
    stamp = getattr(value, "timestamp", None)
    if stamp is not None:
        microseconds: int = round(stamp() * 1e6)
        return microseconds * 1000
    return int(value * 1e9) if isinstance(value, (int, float)) else 0


def read_object(path: str | bytes) -> bytes:
    """Return the bytes of an object, tried again if the store is busy. Raises OSError."""
    system, name = _system(address_of(path))
    return _patiently(lambda: bytes(system.cat_file(name)))


def _patiently(call: Callable[[], _T]) -> _T:
    """Return call(). Errors that may go away are tried again after pauses; the last one is raised as OSError."""
    for pause_s in (*PAUSES_S, None):
        try:
            return call()
        except (FileNotFoundError, PermissionError):
            raise
        except (MemoryError, DataprepError):
            raise
        except Exception as error:  # the libraries of the stores have exceptions of their own
            if pause_s is None:
                raise OSError(getattr(error, "errno", None) or 0, str(error) or type(error).__name__) from None
            time.sleep(pause_s)
    raise AssertionError


@functools.cache
def _file_system(protocol: str, process: int) -> Any:
    """Return the file system of a protocol, one for each process."""
    try:
        import fsspec
    except ImportError:
        raise DataprepError(f"SOURCE is an address, which needs fsspec: {_advice(protocol)}") from None
    try:
        return fsspec.filesystem(protocol, skip_instance_cache=True, use_listings_cache=False)
    except ImportError:
        raise DataprepError(f"an address {protocol}:// needs another package: {_advice(protocol)}") from None
    except ValueError:
        known = ", ".join(sorted(set(_PACKAGES)))
        raise WrongUsage(f"no package knows addresses {protocol}://; known are {known} and those of fsspec") from None


def _advice(protocol: str) -> str:
    return f"pip install fsspec {_PACKAGES.get(protocol, '')}".strip()


def _system(address: str) -> tuple[Any, str]:
    match = _URL.fullmatch(address)
    assert match
    return _file_system(match[1], os.getpid()), match[2]
