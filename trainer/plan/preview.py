"""`trainer run --preview FILE.png`: a sheet of images as training sees them, out of the very pipeline, with labels."""

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
from trainer.device.context import apply, this_machine
from trainer.errors import TrainerError, disk_error
from trainer.feed.mixing import mixes
from trainer.feed.pipeline import pipeline_errors, train_batches, try_recipe
from trainer.feed.recipes import Pixels
from trainer.plan.run_plan import check_files, plan_run
from trainer.runs.folder import scratch

COLUMNS, ROWS = 8, 4
LEAST_SIDE = 112  # small images are enlarged by a whole factor, so that a label has room below
CAPTION, MARGIN = 16, 4  # pixels
CJK_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansSC-Regular.otf",
    "SourceHanSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "DroidSansFallbackFull.ttf",
)
LEAST_SHARE = 0.005  # a class with less of a mixed label is not named


@dataclass(frozen=True)
class Preview:
    """A sheet that was drawn: how many images it shows, of how many train rows, by which recipe."""

    file: str
    images: int
    rows: int
    recipe: str


def draw_preview(config: RunConfig, file: Path) -> Preview:
    """Write the first images that training as configured would see to the PNG `file`.

    Nothing is trained and no device but the CPU is used. Raises TrainerError and ContractError as a run would.
    """
    if file.suffix.lower() != ".png":
        raise TrainerError(f"--preview {file}: the sheet is a PNG, so its name must end in .png")
    file = file.absolute()
    plan = plan_run(replace(config, device="CPU", autotune=False), this_machine("CPU"))
    check_files(plan.folder, plan.dataset, "train", config.full_check)
    with scratch(None), pipeline_errors(plan.folder):
        apply(plan.effect)
        plan.task.check_labels(plan.folder, plan.dataset, "train")
        try_recipe(config.recipe, plan.recipe, plan.pixels.size)
        source = plan.folder, plan.dataset, plan.recipe, plan.pixels
        batches = train_batches(*source, config.batch_size, plan.effect, plan.task.columns)
        # Each batch is mixed by a share of its own: a row of the sheet for each of four batches.
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
    """The way back from what the model gets, float32 (3, S, S), to uint8 (S, S, 3) as it looked before normalising."""
    back = image.transpose(1, 2, 0) * np.array(pixels.std, np.float32) + np.array(pixels.mean, np.float32)
    picture: NDArray[np.uint8] = np.clip(np.rint(back), 0, 255).astype(np.uint8)
    return picture


def caption(label: Any, classes: Sequence[str]) -> str:
    """The class of a label; of a soft label, float32 (classes,), the shares of its two largest."""
    if np.ndim(label) == 0:
        return classes[int(label)]
    largest = [int(number) for number in np.argsort(-label, kind="stable")[:2] if label[number] >= LEAST_SHARE]
    if len(largest) == 1:
        return classes[largest[0]]
    return " + ".join(f"{label[number]:.0%} {classes[number]}" for number in largest)


def find_font(text: str) -> Any:
    """Pillow's own font, or where that lacks letters of `text` one of the machine's for Chinese, if it has one."""
    own = ImageFont.load_default()
    if not has_letters(own, text):
        for name in CJK_FONTS:
            with contextlib.suppress(OSError):
                return ImageFont.truetype(name, 11)
    return own


def has_letters(font: Any, text: str) -> bool:
    """Whether a font draws each letter as itself, and none as the box that stands for what it lacks."""
    if not isinstance(font, ImageFont.FreeTypeFont):  # that of a Pillow without FreeType
        return all(letter <= "\xff" for letter in text)
    box = bytes(font.getmask("\uffff"))
    return all(letter.isspace() or bytes(font.getmask(letter)) != box for letter in set(text))


def drawable(classes: Sequence[str], font: Any) -> list[str]:
    """The names of classes, or `class 3` where the font lacks letters of a name."""
    return [name if has_letters(font, name) else f"class {label}" for label, name in enumerate(classes)]


def _sheet(pictures: Sequence[NDArray[np.uint8]], captions: Sequence[str], font: Any) -> Image.Image:
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


def _fitting(text: str, draw: ImageDraw.ImageDraw, font: Any, width: int) -> str:
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
