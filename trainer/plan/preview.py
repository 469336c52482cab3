"""`trainer run --preview FILE.png`: draw a sheet of labelled images from the training pipeline."""

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from schemas.storage.files import write_whole
from trainer.config import RunConfig
from trainer.device.context import this_machine
from trainer.errors import TrainerError, disk_error
from trainer.feed.mixing import mixes
from trainer.feed.pipeline import train_batches
from trainer.feed.recipes import Pixels
from trainer.plan.prepare import check_data, prepared
from trainer.plan.run_plan import plan_run

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

COLUMNS, ROWS = 8, 4
LEAST_SIDE = 112  # pixels; smaller images are enlarged by an integer factor to make room for the label
CAPTION, MARGIN = 16, 4  # pixels
CJK_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansSC-Regular.otf",
    "SourceHanSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "DroidSansFallbackFull.ttf",
)
LEAST_SHARE = 0.005  # classes with a smaller share of a mixed label are not shown


@dataclass(frozen=True)
class Preview:
    """Preview sheet: file, number of images, rows of the train split, and recipe."""

    file: str
    images: int
    rows: int
    recipe: str


def draw_preview(config: RunConfig, file: Path, home: Path = Path()) -> Preview:
    """Write the first images of the training pipeline to the PNG `file`.

    Nothing is trained, and only the CPU is used. User modules are looked up in `home`. Raises TrainerError if the
    request is invalid, and ContractError if the dataset is unusable.
    """
    if file.suffix.lower() != ".png":
        raise TrainerError(f"--preview {file}: the file name must end in .png")
    file = file.absolute()
    plan = plan_run(replace(config, device="CPU", autotune=False), this_machine("CPU"), home=home)
    check_data(plan, ("train",))
    with prepared(plan):
        source = plan.folder, plan.dataset, plan.recipe, plan.pixels
        batches = train_batches(*source, config.batch_size, plan.effect, plan.task.columns)
        # The mixing ratio is drawn per batch, so a mixed sheet shows four batches, one per row.
        images, labels = _first(batches, COLUMNS * ROWS, COLUMNS if mixes(plan.recipe) else config.batch_size)
    shown = [to_picture(image, plan.pixels) for image in images]
    font = find_font("".join(plan.dataset.classes))
    names = drawable(plan.dataset.classes, font)
    captions = [caption(label, names) if plan.task.classifies else f"{label:g}" for label in labels]
    _write(file, _sheet(shown, captions, font))
    return Preview(str(file), len(shown), plan.train_split.rows, config.recipe)


def _first(batches: Any, count: int, of_each: int) -> tuple[list[Any], list[Any]]:
    images: list[Any] = []
    labels: list[Any] = []
    for some_images, some_labels in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
        images += list(some_images[:of_each])
        labels += list(some_labels[:of_each])
        if len(images) >= count:
            break
    return images[:count], labels[:count]


def to_picture(image: NDArray[np.float32], pixels: Pixels) -> NDArray[np.uint8]:
    """Undo the normalisation: return an image float32 (3, S, S) as uint8 (S, S, 3)."""
    back = image.transpose(1, 2, 0) * np.array(pixels.std, np.float32) + np.array(pixels.mean, np.float32)
    picture: NDArray[np.uint8] = np.clip(np.rint(back), 0, 255).astype(np.uint8)
    return picture


def caption(label: Any, classes: Sequence[str]) -> str:
    """Return the class name of an integer label, or the two largest shares of a soft label, float32 (classes,)."""
    if np.ndim(label) == 0:
        return classes[int(label)]
    largest = [int(number) for number in np.argsort(-label, kind="stable")[:2] if label[number] >= LEAST_SHARE]
    if len(largest) == 1:
        return classes[largest[0]]
    return " + ".join(f"{label[number]:.0%} {classes[number]}" for number in largest)


def find_font(text: str) -> Font:
    """Return Pillow's default font, or an installed CJK font if the default lacks letters of `text`."""
    own = ImageFont.load_default()
    if not has_letters(own, text):
        for name in CJK_FONTS:
            with contextlib.suppress(OSError):
                return ImageFont.truetype(name, 11)
    return own


def has_letters(font: Font, text: str) -> bool:
    """Return True if the font has a glyph for every letter of `text`."""
    if not isinstance(font, ImageFont.FreeTypeFont):  # Pillow without FreeType
        return all(letter <= "\xff" for letter in text)
    box = bytes(font.getmask("\uffff"))
    return all(letter.isspace() or bytes(font.getmask(letter)) != box for letter in set(text))


def drawable(classes: Sequence[str], font: Font) -> list[str]:
    """Return the class names; `class 3` replaces the name of class 3 if the font cannot draw the name."""
    return [name if has_letters(font, name) else f"class {label}" for label, name in enumerate(classes)]


def _sheet(pictures: Sequence[NDArray[np.uint8]], captions: Sequence[str], font: Font) -> Image.Image:
    side = pictures[0].shape[0]
    factor = max(1, -(-LEAST_SIDE // side))
    width, height = factor * side + MARGIN, factor * side + CAPTION + MARGIN
    columns = min(COLUMNS, len(pictures))
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (columns * width + MARGIN, rows * height + MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (picture, text) in enumerate(zip(pictures, captions, strict=True)):
        left, top = MARGIN + number % columns * width, MARGIN + number // columns * height
        image = Image.fromarray(picture).resize((factor * side, factor * side), Image.Resampling.NEAREST)
        sheet.paste(image, (left, top))
        draw.text((left, top + factor * side + 2), _fitting(text, draw, font, factor * side), "black", font)
    return sheet


def _fitting(text: str, draw: ImageDraw.ImageDraw, font: Font, width: int) -> str:
    while len(text) > 1 and draw.textlength(text, font) > width:
        text = text[:-1]
    return text


def _write(file: Path, sheet: Image.Image) -> None:
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    try:
        write_whole(file, buffer.getvalue())
    except OSError as error:
        raise disk_error(error, f"cannot write the preview {file}") from None
