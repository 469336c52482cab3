import codecs
import os
import sys
from pathlib import Path

import pytest

from schemas.config_file import read_options
from schemas.storage.text_file import Unusable


@pytest.mark.parametrize("content", [b"val = [", b"val = 0.1\0"])
def test_broken_toml_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "job.toml").write_bytes(content)
    with pytest.raises(Unusable, match=r"job\.toml is not valid TOML"):
        read_options(tmp_path / "job.toml", ["val"])


def test_deeply_nested_toml_is_an_error(tmp_path: Path) -> None:
    depth = 2 * sys.getrecursionlimit()
    (tmp_path / "job.toml").write_text("val = " + "[" * depth + "]" * depth)
    with pytest.raises(Unusable, match=r"job\.toml is not valid TOML: its values are nested too deeply"):
        read_options(tmp_path / "job.toml", ["val"])


def test_a_fifo_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.toml")
    with pytest.raises(Unusable, match="is not a regular file"):
        read_options(tmp_path / "job.toml", ["val"])


def test_keys_have_dashes_or_underscores_and_the_file_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_bytes(codecs.BOM_UTF8 + b"num_shards = 2\nshard-size = 9\n")
    values = read_options(tmp_path / "job.toml", ["num_shards", "shard_size"])
    assert values == {"num_shards": 2, "shard-size": 9}


@pytest.mark.parametrize(
    ("key", "hint"), [("num_shard", "did you mean 'num-shards'?"), ("x", "known: num-shards, val")]
)
def test_an_unknown_key_is_an_error_with_a_hint(tmp_path: Path, key: str, hint: str) -> None:
    (tmp_path / "job.toml").write_text(f"{key} = 2\n")
    with pytest.raises(Unusable) as error:
        read_options(tmp_path / "job.toml", ["val", "num_shards"])
    assert str(error.value) == f"{tmp_path / 'job.toml'}: unknown key '{key}'; {hint}"
