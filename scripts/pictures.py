"""Make the pictures of the READMEs: python scripts/pictures.py [FOLDER].

Draws the sample set, shards it, trains on it and writes both reports, all in FOLDER (which must be new; a temporary one
that is removed if left out). The programs run in a pseudo-terminal, and docs/terminal.svg is the screen in the middle
of training. Headless Chromium takes docs/dataset-page.png and docs/run-page.png from the reports. Needs the packages of
the test extra, and Chromium with its driver (Debian: chromium and chromium-driver).
"""

import codecs
import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from base64 import b64decode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from PIL import Image, ImageDraw

DOCS = Path(__file__).resolve().parent.parent / "docs"
BIN = Path(sys.executable).parent

SHARD = "dataprep shard photos dataset --val 0.1"
TRAIN = "trainer run dataset --epochs 8 --out runs/first"
SHOWN_EPOCH = 6  # the terminal is shown in the middle of this epoch
COLUMNS, ROWS = 114, 40

PAGE_WIDTH = 1100  # CSS pixels
SCALE = 1.5  # device pixels per CSS pixel
MARGIN = 16
LARGEST = 300_000  # bytes of a picture: it lies in the repository
COLOURS = 256
FRAME = "#c8ced6"
HIDDEN = "header.top button { visibility: hidden } * { scroll-behavior: auto !important }"


@dataclass(frozen=True)
class Crop:
    """A part of a page: from the top of one element to the bottom of another, at most `height` CSS pixels."""

    first: str
    last: str
    height: int = 10_000


DATASET_PAGE = (Crop("header.top", "nav.contents"), Crop("#classes", "#classes"), Crop("#images", "#images", 580))
RUN_PAGE = (
    Crop("header.top", "nav.contents"),
    Crop("#epochs", "#epoch-val_accuracy"),
    Crop("#evaluations h3:has(+ .table .matrix)", ".table:has(.matrix)"),
    Crop("#evaluations h3:has(+ p + .cards)", "#evaluations .cards", 285),
)


def main() -> None:
    """Make all pictures; they replace those in docs/ when all of them are made."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    if folder and folder.exists():
        sys.exit(f"Error: {folder} exists; name a new folder")
    with tempfile.TemporaryDirectory(prefix="pictures-") as scratch:
        work = folder or Path(scratch) / "work"
        work.mkdir(parents=True)
        pictures = Path(scratch)
        sharding, training = make_set_and_run(work)
        svg = render_svg([(SHARD, sharding), (TRAIN, training)])
        (pictures / "terminal.svg").write_text(svg)
        take_pages(work, pictures)
        for picture in sorted(path for path in pictures.iterdir() if path.is_file()):
            size = picture.stat().st_size
            if size > LARGEST:
                sys.exit(f"Error: {picture.name} has {size:,} bytes, above {LARGEST:,}; show less of the page")
            shutil.copyfile(picture, DOCS / picture.name)
            print(f"docs/{picture.name}: {size:,} bytes")


def make_set_and_run(work: Path) -> tuple[str, str]:
    """Make a dataset, a run and their reports; return the output of sharding, and of training up to its picture."""
    run_in_terminal("dataprep sample photos", work)
    sharding = "".join(run_in_terminal(SHARD, work))
    training = until_shown(run_in_terminal(TRAIN, work))
    for command in ("trainer eval runs/first dataset", "dataprep report dataset", "trainer report runs/first"):
        run_in_terminal(command, work)
    # Only the picture says ~: a temporary folder's name would differ in each.
    return sharding.replace(str(work), "~"), training.replace(str(work), "~")


def run_in_terminal(command: str, work: Path) -> list[str]:
    """Run a command in a pseudo-terminal; return its output in the pieces in which it arrives."""
    print(f"$ {command}", file=sys.stderr)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    name, *arguments = command.split()
    env = os.environ | {"TERM": "xterm-256color"}
    process = subprocess.Popen(
        [str(BIN / name), *arguments], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave
    )
    os.close(slave)
    decoder = codecs.getincrementaldecoder("utf-8")()  # a piece may end within a character
    pieces = []
    while piece := _read(master):
        pieces.append(decoder.decode(piece))
    os.close(master)
    if process.wait():
        sys.exit(f"{''.join(pieces)}\nError: '{command}' ended with {process.returncode}")
    return pieces


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # EIO: the last process of the terminal has ended
        return b""


def until_shown(pieces: list[str]) -> str:
    """Return the output of training up to the first bar past the middle of the epoch that is shown."""
    text = ""
    for piece in pieces:
        text += piece
        bars = re.findall(rf"epoch {SHOWN_EPOCH}/\d+ \|[^|]*\| (\d+)/(\d+), [^\r\n]*", text)
        if bars and 2 * int(bars[-1][0]) > int(bars[-1][1]):
            return text
    sys.exit(f"Error: '{TRAIN}' showed no bar in the middle of epoch {SHOWN_EPOCH}")


@dataclass
class Screen:
    """The little of a terminal that the two programs use. A cell is a character with its style."""

    lines: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: str = ""

    def feed(self, text: str) -> None:
        """Write text with its control characters and sequences."""
        for sequence, final, character in re.findall(r"\x1b\[([\d;?]*)([A-Za-z])|([^\x1b])", text):
            if final == "m":
                self.style = {"1": "bold", "31": "red", "32": "green", "33": "yellow"}.get(sequence.split(";")[-1], "")
            elif final == "K":
                del self.lines[self.row][self.column :]
            elif final == "A":
                self.row = max(0, self.row - int(sequence or 1))
            elif character == "\r":
                self.column = 0
            elif character == "\n":
                self._next_line()
            elif character:
                self._put(character)

    def _next_line(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _put(self, character: str) -> None:
        if self.column == COLUMNS:
            self._next_line()
            self.column = 0
        line = self.lines[self.row]
        line.extend([(" ", "")] * (self.column + 1 - len(line)))
        line[self.column] = (character, self.style)
        self.column += 1


CELL, LINE, PADDING, FONT = 8.4, 20, 18, 14
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}"
  viewBox="0 0 {width:.0f} {height}">
<style>
text {{ font: {font}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d6deeb;
  white-space: pre }}
.prompt {{ fill: #7fdbca }} .bold {{ fill: #ffffff; font-weight: bold }} .bar {{ fill: #82aaff }}
.green {{ fill: #7fdbca }} .yellow {{ fill: #ecc48d }} .red {{ fill: #ff7a85 }}
</style>
<rect width="100%" height="100%" rx="8" fill="#0b1622"/>
"""


def render_svg(sessions: list[tuple[str, str]]) -> str:
    """Draw the screen after commands and their output."""
    screen = Screen()
    for command, output in sessions:
        screen.style = "prompt"
        screen.feed("$ ")
        screen.style = "bold"
        screen.feed(command)
        screen.style = ""
        screen.feed(f"\r\n{output}")
    lines = screen.lines
    while not lines[-1]:
        lines.pop()
    width, height = COLUMNS * CELL + 2 * PADDING, len(lines) * LINE + 2 * PADDING
    drawn = [HEAD.format(width=width, height=height, font=FONT)]
    for row, line in enumerate(lines):
        drawn += _draw_line(line, PADDING + row * LINE)
    return "".join(drawn) + "</svg>\n"


def _draw_line(line: list[tuple[str, str]], top: int) -> list[str]:
    """Draw the blocks of bars as rectangles, since fonts disagree on them; the width of all other text is fixed."""
    drawn = []
    column = 0
    while column < len(line):
        character, style = line[column]
        end = column + 1
        if "█" <= character <= "▏":
            eighths = ord("▏") - ord(character) + 1
            drawn.append(
                f'<rect class="bar" x="{PADDING + column * CELL:.1f}" y="{top + 4}" '
                f'width="{CELL * eighths / 8 + 0.2:.1f}" height="{LINE - 8}"/>\n'
            )
        else:
            while end < len(line) and line[end][1] == style and not "█" <= line[end][0] <= "▏":
                end += 1
            text = "".join(cell for cell, _ in line[column:end])
            start = column + len(text) - len(text.lstrip())
            if text := text.strip():
                mark = f' class="{style}"' if style else ""
                drawn.append(
                    f'<text{mark} xml:space="preserve" x="{PADDING + start * CELL:.1f}" y="{top + 15}" '
                    f'textLength="{len(text) * CELL:.1f}">{escape(text)}</text>\n'
                )
        column = end
    return drawn


def take_pages(work: Path, pictures: Path) -> None:
    """Take the pictures of both reports."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or sys.exit("Error: chromium is not installed")
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver") or sys.exit("Error: chromedriver is not installed"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        for page, name, crops in (
            (work / "dataset" / "report.html", "dataset-page.png", DATASET_PAGE),
            (work / "runs" / "first" / "report.html", "run-page.png", RUN_PAGE),
        ):
            take_page(driver, page, crops).save(pictures / name, optimize=True)
    finally:
        driver.quit()


def take_page(driver: Any, page: Path, crops: tuple[Crop, ...]) -> Image.Image:
    """Return the crops of a page, one below the other."""
    metrics = {"width": PAGE_WIDTH, "height": 1400, "deviceScaleFactor": SCALE, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    light = [{"name": "prefers-color-scheme", "value": "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": light})
    driver.get(page.as_uri())
    add = "document.head.append(Object.assign(document.createElement('style'), {textContent: arguments[0]}))"
    driver.execute_script(add, HIDDEN)
    parts = [take_crop(driver, crop) for crop in crops]
    gap = round(MARGIN * SCALE)
    background = parts[0].getpixel((0, 0))
    whole = Image.new("RGB", (parts[0].width, sum(part.height for part in parts) + gap * (len(parts) + 1)), background)
    top = gap
    for part in parts:
        whole.paste(part, (0, top))
        top += part.height + gap
    ImageDraw.Draw(whole).rectangle((0, 0, whole.width - 1, whole.height - 1), outline=FRAME, width=2)
    return whole.quantize(COLOURS, dither=Image.Dither.NONE)


def take_crop(driver: Any, crop: Crop) -> Image.Image:
    """Return one part of the page that is open, at the full width of the page."""
    edges = (
        "const first = document.querySelector(arguments[0]), last = document.querySelector(arguments[1]);"
        "return [first.getBoundingClientRect().top, last.getBoundingClientRect().bottom]"
    )
    driver.execute_script("document.querySelector(arguments[0]).scrollIntoView()", crop.first)
    time.sleep(1)  # pictures that come into view are decoded then
    top, bottom = driver.execute_script(edges, crop.first, crop.last)
    screen = Image.open(io.BytesIO(b64decode(driver.get_screenshot_as_base64()))).convert("RGB")
    bottom = min(bottom, top + crop.height)
    return screen.crop((0, max(0, round(top * SCALE)), screen.width, round(bottom * SCALE)))


if __name__ == "__main__":
    main()
