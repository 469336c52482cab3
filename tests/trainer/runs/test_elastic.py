from trainer.runs.elastic import changes


def test_nothing_changes_with_the_same_ranks() -> None:
    assert changes((2, 8), (2, 8), within_epoch=True, statistics=True) is None


def test_averaged_statistics_are_reported_only_where_they_are_averaged() -> None:
    said = [str(changes((2, 8), (1, 16), within, statistics=True)) for within in (True, False)]
    assert [sentence.count("averages are averaged") for sentence in said] == [1, 0]
    assert all("1 rank of batch 16, was 2 ranks of batch 8" in sentence for sentence in said)
