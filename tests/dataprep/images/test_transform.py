"""Annotations are moved exactly as the pixels are."""

import io

import numpy as np
import pytest
from PIL import Image

from dataprep.images.check import normalise
from schemas.images.policy import Policy

WIDTH, HEIGHT = 40, 24
BOX = (8, 4, 20, 12)  # a red box on blue, in pixels of the file


def marked(angle: int, kind: str) -> bytes:
    """Return an image of this EXIF orientation with a red box."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:, :, 2] = 255
    left, top, right, bottom = BOX
    pixels[top:bottom, left:right] = (255, 0, 0)
    exif = Image.Exif()
    exif[0x0112] = angle
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, exif=exif)
    return buffer.getvalue()


def red_box(image: Image.Image) -> list[int]:
    red = np.asarray(image.convert("RGB"))[:, :, 0] > 127
    rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
    return [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("resize", [None, 12])
@pytest.mark.parametrize("angle", range(1, 9))
def test_boxes_and_masks_follow_the_pixels(angle: int, resize: int | None, kind: str) -> None:
    picture = normalise(marked(angle, kind), Policy(resize=resize))
    assert picture.transform.original == (WIDTH, HEIGHT)
    [box] = picture.transform.boxes(np.array([BOX], np.float32))
    stored = Image.open(io.BytesIO(picture.data))
    assert box.tolist() == red_box(stored)
    mask = Image.new("L", (WIDTH, HEIGHT))
    mask.paste(255, BOX)
    moved = picture.transform.mask(mask)
    assert moved.size == stored.size
    assert red_box(Image.merge("RGB", [moved] * 3)) == red_box(stored)


def test_annotations_of_the_upright_image_are_only_scaled() -> None:
    transform = normalise(marked(6, "PNG"), Policy(resize=12)).transform
    upright = transform.of_annotations((HEIGHT, WIDTH))
    assert upright is not None
    assert upright.boxes(np.array([[2, 4, 8, 10]], np.float32)).tolist() == [[1, 2, 4, 5]]
    assert transform.of_annotations((WIDTH, HEIGHT)) == transform == transform.of_annotations(None)
    assert transform.of_annotations((WIDTH + 1, HEIGHT)) is None
