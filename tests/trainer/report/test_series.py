import numpy as np
import pytest

from trainer.report.series import Series, smooth, thin


def of(*values: float) -> Series:
    return Series(np.arange(len(values), dtype=np.float64), np.array(values, np.float64))


def test_thinned_series_keeps_its_extremes_ends_and_order() -> None:
    y = np.sin(np.arange(100_000) / 5000)
    y[[12_345, 67_890]] = 50, -50
    found = thin(Series(np.arange(100_000.0), y), 300)
    assert len(found.x) <= 602
    assert {12_345.0, 67_890.0, 0.0, 99_999.0} <= set(found.x)
    assert (np.diff(found.x) > 0).all()
    assert (found.y == y[found.x.astype(int)]).all()


def test_short_series_is_left_as_it_is() -> None:
    given = of(3, 1, 2)
    assert thin(given, 2) is given


def test_smoothing_keeps_a_constant_and_is_centred() -> None:
    assert smooth(of(*[3.0] * 100)).y == pytest.approx(3.0)
    step = smooth(of(*[1.0] * 50, *[0.0] * 50), 0.2).y
    assert step[49] + step[50] == pytest.approx(1)
    assert step[30] == pytest.approx(1)


def test_values_that_are_no_numbers_are_gaps() -> None:
    given = of(1, np.nan, 3, np.inf)
    assert given.finite().y.tolist() == [1, 3]
    assert np.isfinite(smooth(of(*[1, np.nan] * 50)).y).all()
    assert not of(np.nan).measured
