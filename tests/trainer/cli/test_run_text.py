import pytest

from trainer.cli.run_text import bottleneck_text, settings_table, table
from trainer.decisions import Decision
from trainer.training.meter import BALANCED, COMPUTE, FEED, WaitReport

ROWS = [
    Decision("device", "default", "CPU", "MindSpore finds no Ascend here", notable=True),
    Decision(
        "mean / std", "default", "123.7, 116.3, 103.5 / 58.4, 57.1, 57.4", "ImageNet's: dataset.json has no statistics"
    ),
    Decision("model", "mine:" + "x" * 60, "on", "asked for"),
]


@pytest.mark.parametrize("width", [40, 79, 80, 120, 400])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(width: int) -> None:
    lines = table(ROWS, width).splitlines()
    assert max(map(len, lines)) <= width
    for row in ROWS:
        alone = table([row], width)
        cells = "".join(f"{row.setting}{row.asked}{row.effect}{row.why}settingrequestedin effectwhy".split())
        assert sorted("".join(alone.split())) == sorted(cells)


def test_table_that_fits_is_not_wrapped() -> None:
    short = ROWS[:1]
    assert table(short, 80) == table(short) == table(short, 65)
    assert len(table(ROWS).splitlines()) == 4


def test_cells_are_wrapped_in_their_column() -> None:
    one = Decision("sink", "on", "off", "MindSpore cannot sink on CPU and would ignore the request")
    assert table([one], 50).splitlines() == [
        "setting  requested  in effect  why",
        "sink     on         off        MindSpore cannot",
        "                               sink on CPU and",
        "                               would ignore the",
        "                               request",
    ]


def test_plain_defaults_are_counted_and_shown_on_request() -> None:
    assert settings_table(ROWS, None, every=False).splitlines()[-1] == "plain defaults, shown with -v: 1 more setting"
    assert settings_table(ROWS, None, every=True) == table(ROWS)
    assert settings_table(ROWS[1:2] * 2, None, every=False) == "plain defaults, shown with -v: 2 settings"
    assert settings_table(ROWS[2:], None, every=False) == table(ROWS[2:])


@pytest.mark.parametrize(
    ("bound", "share", "device", "said"),
    [
        (
            FEED,
            0.43,
            "CPU",
            "bottleneck: data feed; waited for data 43% of the time; 'trainer doctor' with",
        ),
        (COMPUTE, 0.01, "Ascend", "bottleneck: training step; waited for data 1% of the time"),
        (
            COMPUTE,
            0.01,
            "CPU",
            "bottleneck: training step (estimate: on CPU both use the same cores); waited for",
        ),
        (BALANCED, 0.07, "Ascend", "bottleneck: data feed and training step about equally; waited for data 7% of"),
    ],
)
def test_run_ends_with_what_limited_it_and_where_the_remedy_is(
    bound: str, share: float, device: str, said: str
) -> None:
    sentence = bottleneck_text(WaitReport(bound, share, device))
    assert sentence.startswith(said)
    assert "'trainer doctor' with the same options tries" in sentence


def test_bottleneck_of_a_run_with_data_sinking_is_not_measured() -> None:
    assert bottleneck_text(WaitReport(None, None, "Ascend")).startswith("bottleneck: cannot be measured")
