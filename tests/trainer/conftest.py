"""Fixtures: small sealed datasets of striped images, the settings in effect on CPU, and a checkpoint."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("GLOG_v", "3")

import pytest

from schemas.dataset import load_dataset
from tests.trainer.examples import CLASSES, Splits, seal
from trainer.config import RunConfig
from trainer.device.context import InEffect, Machine, apply, decide


@pytest.fixture(autouse=True)
def unmarked_by_others() -> Iterator[None]:
    """Start each test with the seeds of a new run and the sys.path of a new process.

    Level O1 leaves MindSpore's own folders on sys.path (measured on 2.10). One of them contains a math.py, so a process
    that another test starts with this path fails to import modules.
    """
    before = sys.path[:]
    if mindspore := sys.modules.get("mindspore"):
        mindspore.set_seed(0)
        mindspore.dataset.config.set_seed(0)
    yield
    sys.path[:] = before


@pytest.fixture(scope="session")
def stripes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 train rows in two shards, 13 val rows. Do not change it: make_set makes a dataset that may be changed."""
    return seal(tmp_path_factory.mktemp("data") / "stripes", {"train": 48, "val": 13}, shards=2)


@pytest.fixture
def make_set(tmp_path: Path) -> Callable[..., Path]:
    """A function that seals a new dataset in tmp_path/set and returns its folder."""

    def make(splits: Splits, classes: tuple[str, ...] = CLASSES, last_image: bytes | None = None) -> Path:
        return seal(tmp_path / "set", splits, classes=classes, last_image=last_image)

    return make


@pytest.fixture(scope="session")
def cpu() -> InEffect:
    """The settings in effect on CPU, applied to this process."""
    effect = decide(RunConfig(dataset="", device="CPU", workers=1, prefetch=2), Machine(ascend=False, cores=2))
    apply(effect)
    return effect


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory, stripes: Path, cpu: InEffect) -> Path:
    """A checkpoint of the model tiny with random weights, for the classes and pixels of `stripes`."""
    import mindspore

    from trainer.feed.recipes import Pixels
    from trainer.nn.models.tiny import tiny
    from trainer.runs import checkpoint

    mindspore.set_seed(1)
    path = tmp_path_factory.mktemp("untrained") / "best.ckpt"
    meta = checkpoint.Meta(
        RunConfig(str(stripes)),
        CLASSES,
        load_dataset(stripes).digest,
        Pixels(32, (100.0,) * 3, (30.0,) * 3),
        1,
        1,
        None,
    )
    checkpoint.save(path, tiny(len(CLASSES)), meta)
    return path
