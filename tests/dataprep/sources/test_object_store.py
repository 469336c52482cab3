"""Object stores, through a file system of fsspec that fails as stores do, and through a real S3 server."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dataprep.errors import DataprepError, TryLater, WrongUsage
from dataprep.options import Budget
from dataprep.storage import remote
from dataprep.storage.remote import address_of, is_remote, source_path_of, with_addresses
from schemas.dataset import load_dataset
from tests.dataprep.examples import digests, picture, shard

fsspec = pytest.importorskip("fsspec")
IMAGES = {f"{'ab'[number % 2]}/{number}.jpg": picture(number) for number in range(12)}


class Flaky(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A store in memory. `failures` are raised by the next calls that concern a name."""

    protocol = "flaky"
    objects: ClassVar[dict[str, bytes]] = {}
    failures: ClassVar[dict[str, list[Exception]]] = {}
    calls: ClassVar[Counter[str]] = Counter()

    def find(self, prefix: str, detail: bool = False, **_: Any) -> Any:
        self._fail(prefix)
        found = {name: data for name, data in self.objects.items() if name.startswith(prefix)}
        return {name: {"type": "file", "size": len(data), "mtime": 1.5} for name, data in found.items()}

    def cat_file(self, name: str, **_: Any) -> bytes:
        self._fail(name)
        if name not in self.objects:
            raise FileNotFoundError(name)
        return self.objects[name]

    def _fail(self, name: str) -> None:
        self.calls[name] += 1
        if self.failures.get(name):
            raise self.failures[name].pop(0)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> type[Flaky]:
    """A store with twelve images below flaky://bucket/photos."""
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(Flaky, "objects", {f"bucket/photos/{name}": data for name, data in IMAGES.items()})
    monkeypatch.setattr(Flaky, "failures", {})
    monkeypatch.setattr(Flaky, "calls", Counter())
    monkeypatch.setattr(remote, "PAUSES_S", (0.0, 0.0))
    return Flaky


PHOTOS = source_path_of("flaky://bucket/photos/")


def shards(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in digests(folder).items() if ".mindrecord" in name}


def test_an_address_is_told_from_a_path() -> None:
    assert is_remote(source_path_of("s3://bucket/a b/c"))
    assert address_of(source_path_of("s3://bucket/a b/c")) == "s3://bucket/a b/c"
    assert not is_remote(source_path_of("/data/s3:/x"))
    assert with_addresses("SOURCE /s3:/bucket/x has no object") == "SOURCE s3://bucket/x has no object"
    with pytest.raises(WrongUsage, match="not an object store"):
        source_path_of("https://host/x")


@pytest.mark.usefixtures("store")
def test_the_same_images_give_the_same_shards_as_from_folders(tmp_path: Path) -> None:
    for name, data in IMAGES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    shard(tmp_path / "in", tmp_path / "folders")
    shard(PHOTOS, tmp_path / "store")
    assert shards(tmp_path / "store") == shards(tmp_path / "folders")


def test_a_busy_store_is_asked_again(store: type[Flaky], tmp_path: Path) -> None:
    busy = [OSError("503 Slow Down"), RuntimeError("503 Service Unavailable")]
    store.failures = {"bucket/photos": list(busy), "bucket/photos/a/0.jpg": list(busy)}
    shard(PHOTOS, tmp_path / "out")
    assert load_dataset(tmp_path / "out").written == 12
    assert store.calls["bucket/photos/a/0.jpg"] == 3


def test_a_store_that_stays_away_is_tried_later(store: type[Flaky], tmp_path: Path) -> None:
    store.failures = {"bucket/photos": [OSError("no route")] * 9}
    with pytest.raises(TryLater, match="flaky://bucket/photos cannot be listed now: no route"):
        shard(PHOTOS, tmp_path / "out")


def test_a_store_that_refuses_says_what_to_check(store: type[Flaky], tmp_path: Path) -> None:
    store.failures = {"bucket/photos": [PermissionError("Forbidden")]}
    with pytest.raises(DataprepError, match="credentials"):
        shard(PHOTOS, tmp_path / "out")
    with pytest.raises(WrongUsage, match="has no object"):
        shard(source_path_of("flaky://bucket/nothing"), tmp_path / "out")


def test_objects_that_cannot_be_read_are_rejects(
    store: type[Flaky], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep.build.read_ahead.RETRY_PAUSES_S", ())
    store.failures = {"bucket/photos/a/0.jpg": [PermissionError("Forbidden")] * 50}
    shard(PHOTOS, tmp_path / "out", max_rejects=Budget(1, False), max_class_loss=Budget(1, False))
    assert load_dataset(tmp_path / "out").rejected == {"permission_denied": 1}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(DataprepError, match="pip install fsspec gcsfs"):
        shard(source_path_of("gs://bucket/x"), tmp_path / "out")
    with pytest.raises(WrongUsage, match="no package knows"):
        shard(source_path_of("nonsense://bucket/x"), tmp_path / "out")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of an S3 server in another thread of this process."""
    server_module = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield boto3.client("s3")
    server.stop()


@pytest.mark.slow
def test_an_s3_server_is_listed_and_read_by_the_workers(s3: Any, tmp_path: Path) -> None:
    s3.create_bucket(Bucket="images")
    for name, data in IMAGES.items():
        s3.put_object(Bucket="images", Key=f"set/{name}", Body=data)
    command = [sys.executable, "-m", "dataprep", "shard", "s3://images/set", str(tmp_path / "out"), "--prove", "off"]
    done = subprocess.run([*command, "--workers", "2"], env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert load_dataset(tmp_path / "out").written == 12
    gone = subprocess.run([*command[:4], "s3://images/none", *command[5:]], capture_output=True, text=True)
    assert gone.returncode != 0
    assert "Error: OUT" in gone.stderr or "Error: SOURCE s3://images/none has no object" in gone.stderr
