import pytest

from trainer.decisions import Decision, settings_table, table

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
