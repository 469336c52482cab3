"""A forged set that was sealed again, so that all digests fit, is refused in a sentence: no crash, no hang."""

from pathlib import Path

import pytest

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from tests.trainer.forged_sets import DATA, HEADERS, INDEXES, forge
from trainer.config import RunConfig
from trainer.errors import TrainerError
from trainer.feed.integrity import check_files

# Nothing reads these bytes.
UNREAD = {"inc_text", "raw_length_huge", "raw_length_zero"}
UNREAD |= {"blob_length_huge", "blob_length_zero", "blob_length_longer"}
LABELS = {"label_large"}  # of the right type, so that only the count of the labels tells


@pytest.mark.parametrize("name", sorted((HEADERS | INDEXES).keys() - UNREAD - LABELS))
def test_forged_header_or_index_is_rejected_before_it_is_opened(name: str, stripes: Path, tmp_path: Path) -> None:
    folder = forge(stripes, tmp_path / "forged", (HEADERS | INDEXES)[name])
    with pytest.raises(ContractError) as refused:
        check_files(folder, load_dataset(folder), "train", full=True)
    assert "train.mindrecord0" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", sorted(DATA.keys() - UNREAD))
@pytest.mark.parametrize("command", ["eval", "predict"])
def test_forged_rows_are_reported_in_one_sentence(
    name: str, command: str, stripes: Path, untrained: Path, tmp_path: Path, cpu: object
) -> None:
    from trainer.evaluation.evaluate import evaluate_checkpoint
    from trainer.evaluation.predict import predict

    folder = forge(stripes, tmp_path / "forged", DATA[name])
    asked = RunConfig(dataset="", device="CPU", workers=1)

    def nothing(*_: object) -> None:
        pass

    def run() -> None:
        if command == "eval":
            evaluate_checkpoint(untrained, folder, "train", asked, nothing, nothing)
        else:
            predict(untrained, [folder], asked, "train", 1, nothing, nothing, nothing)

    with pytest.raises((ContractError, TrainerError)) as refused:
        run()
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)
