"""Masks of polygons and run lengths are those of COCO's tools."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.images.rasters import object_mask, polygon_mask, run_length_mask

WIDTH, HEIGHT = 31, 23
points = st.lists(
    st.tuples(st.floats(-5, WIDTH + 5, width=32), st.floats(-5, HEIGHT + 5, width=32)), min_size=3, max_size=8
)


@settings(deadline=None, max_examples=300)
@given(points)
def test_polygons_are_drawn_as_pycocotools_draws_them(corners: list[tuple[float, float]]) -> None:
    coco = pytest.importorskip("pycocotools.mask", reason="pip install pycocotools compares with it")
    flat = [float(value) for corner in corners for value in corner]
    theirs = coco.decode(coco.frPyObjects([flat], HEIGHT, WIDTH))[:, :, 0]
    ours = polygon_mask(np.array(corners, np.float32), WIDTH, HEIGHT)
    assert (ours == theirs).all()


@settings(deadline=None, max_examples=100)
@given(st.lists(st.booleans(), min_size=WIDTH * HEIGHT, max_size=WIDTH * HEIGHT))
def test_run_lengths_of_pycocotools_are_read(pixels: list[bool]) -> None:
    coco = pytest.importorskip("pycocotools.mask", reason="pip install pycocotools compares with it")
    mask = np.array(pixels).reshape(HEIGHT, WIDTH)
    compressed = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    segment = {"counts": compressed["counts"].decode(), "size": [HEIGHT, WIDTH]}
    assert (object_mask(segment, WIDTH, HEIGHT) == mask).all()


def test_run_lengths_go_down_the_columns() -> None:
    assert run_length_mask([1, 2, 3], 3, 2).tolist() == [[False, True, False], [True, False, False]]


@pytest.mark.parametrize("counts", [[1, 2], [7], [-1, 7], "", "P", "11"])
def test_run_lengths_that_do_not_fill_the_mask_are_an_error(counts: str | list[int]) -> None:
    with pytest.raises(ValueError, match="run lengths"):
        run_length_mask(counts, 3, 2)


def test_a_square_has_its_area() -> None:
    square = np.array([[2, 3], [12, 3], [12, 9], [2, 9]], np.float32)
    assert polygon_mask(square, WIDTH, HEIGHT).sum() == 60
