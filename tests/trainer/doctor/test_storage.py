import os
from pathlib import Path

import pytest

from trainer.doctor.storage import bytes_from_storage, drop_from_cache, file_system, measure_storage

MOUNTS = r"""/dev/sda1 / ext4 rw 0 0
host:/export /data nfs4 rw 0 0
tmpfs /data/fast tmpfs rw 0 0
bucket /my\040sets fuse.s3fs rw 0 0
lxcfs /proc/x fuse.lxcfs rw 0 0
odd
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/home/set", "ext4", False),
        ("/data", "nfs4", True),
        ("/data/sets/one", "nfs4", True),
        ("/database", "ext4", False),
        ("/data/fast/set", "tmpfs", False),
        ("/my sets/one", "fuse.s3fs", True),
        ("/proc/x/y", "fuse.lxcfs", False),
    ],
)
def test_innermost_mount_determines_the_file_system(path: str, kind: str, network: bool) -> None:
    assert file_system(Path(path), MOUNTS) == (kind, network)


def test_nothing_is_known_without_mounts() -> None:
    assert file_system(Path("/home"), "") == ("unknown", False)


def test_rows_are_read_twice_at_the_same_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(bytes(5000))
    places: list[tuple[int, int]] = []
    read = os.pread

    def spy(descriptor: int, count: int, place: int) -> bytes:
        places.append((descriptor, place))
        return read(descriptor, count, place)

    monkeypatch.setattr(os, "pread", spy)
    ticks = iter(range(10_000))
    found = measure_storage(tmp_path, ["a", "b"], 100, 20.0, lambda: float(next(ticks)))
    half = len(places) // 2
    assert places[:half] == places[half:]
    assert len({descriptor for descriptor, _ in places}) == 2
    assert found.cold_rows_per_s == pytest.approx(half / (half + 2))
    assert found.cached_rows_per_s is not None


def test_no_time_gives_no_figure(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10))
    found = measure_storage(tmp_path, ["a"], 100, 0.0)
    assert (found.cold_rows_per_s, found.cached_rows_per_s) == (None, None)


def test_only_rows_are_dropped_from_the_cache_just_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run begins with what the check of its files has left in the cache, and so must what is measured."""
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    done: list[tuple[str, int, int]] = []
    read = os.pread
    monkeypatch.setattr(os, "posix_fadvise", lambda _, place, size, advice: done.append(("forget", place, size)))
    monkeypatch.setattr(os, "pread", lambda *given: done.append(("read", given[2], given[1])) or read(*given))
    measure_storage(tmp_path, ["a"], 100, 20.0)
    names = [name for name, _, _ in done]
    assert names == ["forget", "read"] * 512 + ["read"] * 512
    assert all(place % 4096 == 0 and 0 < size <= 8192 for name, place, size in done if name == "forget")


def test_file_dropped_from_the_cache_keeps_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    drop_from_cache(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"12345"


def test_bytes_from_storage_are_those_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "io").write_text("rchar: 9\nread_bytes: 4096\nwrite_bytes: 1\n")
    assert bytes_from_storage(tmp_path / "io") == 4096
    assert bytes_from_storage(tmp_path / "none") == 0
