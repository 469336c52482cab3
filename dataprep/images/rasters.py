"""Masks of objects from polygons and run lengths, pixel by pixel as COCO's tools draw them."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
_FINE = 5  # steps per pixel along the border of a polygon


def polygon_mask(points: npt.NDArray[np.float32], width: int, height: int) -> Mask:
    """Return the pixels inside a polygon of points (x, y), of shape [n, 2], as bool [height, width].

    The border is walked in steps of a fifth of a pixel. Where it crosses the middle of a column, the pixels below
    change sides. This is COCO's rule, so areas equal those of pycocotools.
    """
    corners = (points.astype(np.float64) * _FINE + 0.5).astype(np.int64)  # towards zero, as COCO's tools do
    u, v = _border(np.concatenate([corners, corners[:1]]))
    moved = np.flatnonzero(u[1:] != u[:-1]) + 1
    column = (np.where(u[moved] < u[moved - 1], u[moved], u[moved] - 1) + 0.5) / _FINE - 0.5
    row = np.ceil(np.clip((np.minimum(v[moved], v[moved - 1]) + 0.5) / _FINE - 0.5, 0, height)).astype(np.int64)
    inside = (column == np.floor(column)) & (column >= 0) & (column <= width - 1)
    positions = column[inside].astype(np.int64) * height + row[inside]
    crossings = np.zeros(width * height + 1, np.int64)
    np.add.at(crossings, positions, 1)
    mask: Mask = (np.cumsum(crossings[:-1]) % 2 == 1).reshape(width, height).T
    return mask


def _border(corners: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the points along the edges between corners, each edge with both of its ends."""
    us, vs = [], []
    for (x0, y0), (x1, y1) in zip(corners[:-1].tolist(), corners[1:].tolist(), strict=True):
        dx, dy = abs(x1 - x0), abs(y1 - y0)
        flat = dx >= dy
        turned = (flat and x0 > x1) or (not flat and y0 > y1)
        (xs, ys), (xe, ye) = ((x1, y1), (x0, y0)) if turned else ((x0, y0), (x1, y1))
        steps = np.arange((dx if flat else dy) + 1)
        if turned:
            steps = steps[::-1]
        slope = (ye - ys) / dx if flat and dx else (xe - xs) / dy if dy else 0.0
        if flat:
            us.append(steps + xs)
            vs.append((ys + slope * steps + 0.5).astype(np.int64))
        else:
            us.append((xs + slope * steps + 0.5).astype(np.int64))
            vs.append(steps + ys)
    return np.concatenate(us), np.concatenate(vs)


def run_length_mask(counts: str | Sequence[int], width: int, height: int) -> Mask:
    """Return a mask of run lengths, down the columns, as bool [height, width].

    `counts` is a list, or COCO's compressed text. Raises ValueError if they do not fill the mask.
    """
    lengths = list(_decompressed(counts)) if isinstance(counts, str) else list(counts)
    if any(length < 0 for length in lengths) or sum(lengths) != width * height:
        raise ValueError(f"its run lengths have {sum(lengths)} pixels, not {width} x {height}")
    values = np.arange(len(lengths)) % 2 == 1
    mask: Mask = np.repeat(values, lengths).reshape(width, height).T
    return mask


def _decompressed(text: str) -> Iterable[int]:
    """Yield the run lengths of a compressed text: five bits a character, and from the third on differences."""
    lengths: list[int] = []
    at = 0
    while at < len(text):
        value = shift = 0
        while True:
            if at >= len(text):
                raise ValueError("its run lengths end inside a number")
            bits = ord(text[at]) - 48
            at += 1
            value |= (bits & 0x1F) << shift
            shift += 5
            if not bits & 0x20:
                break
        if bits & 0x10:
            value -= 1 << shift
        lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
    return lengths


def object_mask(segment: dict[str, Any], width: int, height: int) -> Mask:
    """Return the mask of run lengths {"counts": ..., "size": [height, width]}. Raises ValueError if they do not fit."""
    if list(segment["size"]) != [height, width]:
        raise ValueError(f"its run lengths are for {segment['size'][1]} x {segment['size'][0]} pixels")
    return run_length_mask(segment["counts"], width, height)
