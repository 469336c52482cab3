import os
import socket
import threading
from pathlib import Path

import pytest

from trainer.feed.image_file import read_file
from trainer.feed.picture import Unreadable


def test_regular_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("a")
    assert read_file(tmp_path / "link", max_bytes=5) == b"12345"


def test_special_file_is_rejected_without_blocking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket may not be long
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        for name, kind in (("fifo", "FIFO"), ("socket", "socket"), ("/dev/zero", "device"), (".", "folder")):
            with pytest.raises(Unreadable, match=f"^not a regular file: a {kind}$"):
                read_file(Path(name))


def test_fifo_that_replaces_a_file_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    real_open = os.open

    def replaced(name: Path, flags: int) -> int:
        path.unlink()
        os.mkfifo(path)
        return real_open(name, flags)

    monkeypatch.setattr(os, "open", replaced)
    raised: list[BaseException] = []

    def read() -> None:
        try:
            read_file(path)
        except BaseException as error:
            raised.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(20)
    assert [str(error) for error in raised] == ["not a regular file: a FIFO"]


def test_a_file_above_the_limit_is_rejected_unread(tmp_path: Path) -> None:
    path = tmp_path / "giant"
    path.touch()
    os.truncate(path, 1 << 40)  # a hole
    with pytest.raises(Unreadable, match="the file has 1099511627776 bytes, the limit is 268435456"):
        read_file(path)


def test_file_of_unknown_size_is_read_up_to_the_limit() -> None:
    with pytest.raises(Unreadable, match="the file has more bytes than the limit of 10"):
        read_file(Path("/proc/self/status"), max_bytes=10)


def test_a_dangling_link_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "lost").symlink_to("nowhere")
    with pytest.raises(OSError, match="No such file or directory"):
        read_file(tmp_path / "lost")
