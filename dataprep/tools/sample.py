"""`dataprep sample`: draw a small set of images with a few broken and unusual files, as in real folders."""

import io
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from dataprep.errors import DataprepError

SIDES = (48, 160)
Point = tuple[float, float]
Outline = list[Point]


@dataclass(frozen=True)
class Sample:
    """The drawn files. `broken` files will be rejected, `unusual` files will be normalised."""

    path: str
    images: int
    classes: list[str]
    broken: list[str]
    unusual: list[str]


def draw_sample(folder: Path, images: int = 1200, classes: int = 6, seed: int = 0) -> Sample:
    """Draw `images` images in `classes` class folders below `folder`, the same for the same seed.

    Raises DataprepError if the folder is not empty or a number is out of range.
    """
    if not 2 <= classes <= len(SHAPES):
        raise DataprepError(f"--classes {classes}: choose 2 to {len(SHAPES)}")
    if images < 2 * classes:
        raise DataprepError(f"--images {images}: choose at least two per class: {2 * classes} or more")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataprepError(f"{folder} is not an empty folder; choose another")
    names = list(SHAPES)[:classes]
    for name in names:
        (folder / name).mkdir(parents=True)
    for number in range(images):
        name = names[number % classes]
        rng = random.Random(f"{seed}:{number}")
        kind = rng.choice(("jpg", "png"))
        path = folder / name / f"{name}_{number // classes:04d}.{kind}"
        path.write_bytes(_encoded(draw(name, rng), kind))
    broken, unusual = _add_problems(folder, names, random.Random(f"{seed}:odd"))
    return Sample(str(folder), images, sorted(names), broken, unusual)


def draw(name: str, rng: random.Random) -> Image.Image:
    """Draw a shape on a textured background, with random position, size, angle and colours."""
    width = rng.randint(*SIDES)
    height = min(max(round(width * rng.uniform(0.8, 1.25)), SIDES[0]), SIDES[1])
    background_colour, colour = _two_colours(rng)
    image = _texture(width, height, background_colour, rng)
    radius = min(width, height) * rng.uniform(0.36, 0.48)
    centre = rng.uniform(radius, width - radius), rng.uniform(radius, height - radius)
    # Drawn at four times the size and shrunk, for smooth edges.
    mask = Image.new("L", (4 * width, 4 * height), 0)
    pen = ImageDraw.Draw(mask)
    angle = rng.uniform(-0.4, 0.4)
    for outline, value in SHAPES[name]():
        pen.polygon([_to_pixels(point, centre, radius, angle) for point in outline], fill=value)
    paint = _texture(width, height, colour, rng)
    image.paste(paint, mask=mask.resize((width, height), Image.Resampling.BOX))
    return image


def _to_pixels(point: Point, centre: Point, radius: float, angle: float) -> Point:
    x, y = (radius * value for value in point)
    turned = x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)
    return 4 * (centre[0] + turned[0]), 4 * (centre[1] + turned[1])


def _two_colours(rng: random.Random) -> tuple[list[int], list[int]]:
    """Return a background and a shape colour that differ, also in grey."""
    while True:
        first, second = ([rng.randint(20, 235) for _ in range(3)] for _ in range(2))
        if abs(sum(first) - sum(second)) > 150:
            return first, second


def _texture(width: int, height: int, colour: list[int], rng: random.Random) -> Image.Image:
    """Return a texture of `colour` with soft blotches and fine grain."""
    noise = np.random.default_rng(rng.getrandbits(64))
    blotches = Image.fromarray(noise.integers(0, 255, (5, 5), dtype=np.uint8)).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    grain = noise.normal(0, 6, (height, width, 3))
    soft = (np.asarray(blotches, dtype=np.float64)[:, :, None] - 127) * 0.2
    return Image.fromarray((np.array(colour) + soft + grain).clip(0, 255).astype(np.uint8))


def _regular(corners: int, radii: tuple[float, ...] = (1.0,)) -> Outline:
    """Return a polygon whose corners alternate between the radii."""
    step = 2 * math.pi / corners
    return [
        (radii[i % len(radii)] * math.cos(i * step), radii[i % len(radii)] * math.sin(i * step)) for i in range(corners)
    ]


def _cross() -> Outline:
    arm, end = 0.3, 0.95
    corner = [(end, arm), (arm, arm), (arm, end)]
    quarters: Outline = []
    for turn in range(4):
        c, s = round(math.cos(turn * math.pi / 2)), round(math.sin(turn * math.pi / 2))
        quarters += [(x * c - y * s, x * s + y * c) for x, y in corner]
    return quarters


def _crescent() -> Outline:
    outer = [(math.cos(a / 20), math.sin(a / 20)) for a in range(18, 108)]
    inner = [(0.45 + 0.78 * math.cos(a / 20), 0.78 * math.sin(a / 20)) for a in range(100, 25, -1)]
    return outer + inner


_ARROW: Outline = [(1, 0), (0.15, 0.75), (0.15, 0.3), (-0.95, 0.3), (-0.95, -0.3), (0.15, -0.3), (0.15, -0.75)]
_BAR: Outline = [(1, 0.22), (-1, 0.22), (-1, -0.22), (1, -0.22)]
# A shape is a list of outlines with fill values: 255 paints, 0 cuts out.
SHAPES: dict[str, Callable[[], list[tuple[Outline, int]]]] = {
    "circle": lambda: [(_regular(60), 255)],
    "cross": lambda: [(_cross(), 255)],
    "ring": lambda: [(_regular(60), 255), (_regular(60, (0.55,)), 0)],
    "square": lambda: [(_regular(4), 255)],
    "star": lambda: [(_regular(10, (1.0, 0.4)), 255)],
    "triangle": lambda: [(_regular(3), 255)],
    "arrow": lambda: [(_ARROW, 255)],
    "bar": lambda: [(_BAR, 255)],
    "crescent": lambda: [(_crescent(), 255)],
    "frame": lambda: [(_regular(4), 255), (_regular(4, (0.6,)), 0)],
}


def _encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG" if kind == "jpg" else "PNG", **({"quality": 90} if kind == "jpg" else {}), **options)
    return buffer.getvalue()


def _add_problems(folder: Path, names: list[str], rng: random.Random) -> tuple[list[str], list[str]]:
    """Add broken and unusual files; return the names of both."""
    first, second = names[0], names[1]
    whole = _encoded(draw(first, rng), "jpg")
    turned = draw(second, rng)
    exif = Image.Exif()
    exif[0x0112] = 6
    deep = np.asarray(draw(second, rng).convert("L")).astype(np.uint16) * 257
    broken = {
        f"{first}/truncated.jpg": whole[: len(whole) // 2],
        f"{first}/empty.png": b"",
        f"{second}/not_found.jpg": b"404: the picture that you are looking for is not here\n",
    }
    unusual = {
        f"{second}/phone_portrait.jpg": _encoded(turned.transpose(Image.Transpose.ROTATE_90), "jpg", exif=exif),
        f"{first}/print_cmyk.jpg": _encoded(draw(first, rng).convert("CMYK"), "jpg"),
        f"{second}/scan_16bit.png": _encoded(Image.fromarray(deep), "png"),
        f"{first}/.DS_Store": b"\0\0\0\1Bud1" + bytes(64),
    }
    for name, data in {**broken, **unusual}.items():
        (folder / name).write_bytes(data)
    return list(broken), list(unusual)
