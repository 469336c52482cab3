import os
from pathlib import Path

import pytest

from trainer.storage import file_system, look_at_storage

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
def test_innermost_mount_tells_the_file_system(path: str, kind: str, network: bool) -> None:
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
    found = look_at_storage(tmp_path, ["a", "b"], 100, 20.0, lambda: float(next(ticks)))
    half = len(places) // 2
    assert places[:half] == places[half:]
    assert len({descriptor for descriptor, _ in places}) == 2
    assert found.cold_rows_per_s == pytest.approx(half / (half + 2))
    assert found.cached_rows_per_s is not None


def test_no_time_gives_no_figure(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10))
    found = look_at_storage(tmp_path, ["a"], 100, 0.0)
    assert (found.cold_rows_per_s, found.cached_rows_per_s) == (None, None)
