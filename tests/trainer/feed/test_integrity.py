from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from trainer.feed.integrity import check_files, check_labels


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: (folder / "train.mindrecord0").unlink(), "train.mindrecord0 is missing"),
        (lambda folder: (folder / "train.mindrecord0.db").unlink(), "train.mindrecord0.db is missing"),
        (lambda folder: (folder / "train.mindrecord0").write_bytes(b"x"), "has 1 bytes, expected"),
        (lambda folder: flip_last_byte(folder / "train.mindrecord0.db"), "train.mindrecord0.db does not match"),
        (lambda folder: flip_last_byte(folder / "train.mindrecord0"), "train.mindrecord0 is not the file"),
    ],
)
def test_damaged_files_are_rejected_and_named(
    make_set: Callable[..., Path], damage: Callable[[Path], object], sentence: str
) -> None:
    folder = make_set({"train": 3})
    damage(folder)
    with pytest.raises(ContractError, match=sentence):
        check_files(folder, load_dataset(folder), "train", full=False)


def test_large_split_is_hashed_only_with_full_check(
    make_set: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.feed.integrity.FULL_CHECK_BYTES", 0)
    folder = make_set({"train": 3})
    flip_last_byte(folder / "train.mindrecord0")
    dataset = load_dataset(folder)
    check_files(folder, dataset, "train", full=False)
    with pytest.raises(ContractError, match="sha256 differs"):
        check_files(folder, dataset, "train", full=True)


def test_valid_labels_pass(stripes: Path) -> None:
    check_labels(stripes, load_dataset(stripes), "train")


@pytest.mark.parametrize("label", [3, -1])
def test_label_outside_the_classes_is_rejected(label: int, make_set: Callable[..., Path]) -> None:
    folder = make_set({"train": [0, 1, 2, label]})
    with pytest.raises(ContractError, match=rf"1 label outside 0\.\.2, for example {label}"):
        check_labels(folder, load_dataset(folder), "train")


def test_class_without_rows_is_no_error(make_set: Callable[..., Path]) -> None:
    folder = make_set({"train": [0, 0, 2]})
    check_labels(folder, load_dataset(folder), "train")
