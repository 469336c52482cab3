import pytest

from schemas.counting import many


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 batches"), (1, "1 batch"), (2, "2 batches"), (12345, "12,345 batches")]
)
def test_one_is_singular(count: int, text: str) -> None:
    assert many(count, "batch", "batches") == text
    assert many(count, "row") == text.replace("batches", "rows").replace("batch", "row")
