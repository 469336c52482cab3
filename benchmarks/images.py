"""Make image sets for measurements: crops of larger pictures, so that they resemble photographs.

    python -m benchmarks.images OUT --from DIR --count 5000 --kilobytes 100

The same pictures and options give the same files.
"""

import argparse
import io
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

MAX_SOURCES = 48  # decoded pictures are held in memory, some 25 MB each
SOURCE_BYTES = 200_000  # smaller files are icons and patterns
PIXELS_A_KILOBYTE = 4_200  # of a photograph as JPEG, at the qualities in between LOW and HIGH
LOW, HIGH = (78, 88), (92, 98)


def make_images(out: Path, sources: list[Path], count: int, kilobytes: float, classes: int, seed: int) -> float:
    """Write `count` JPEGs into class folders of `out`; return their mean KB. Raises SystemExit without sources."""
    rng = random.Random(seed)
    pictures = list(_pictures(sources))
    if not pictures:
        raise SystemExit("no picture of a megapixel or more was found")
    for number in range(classes):
        (out / f"c{number:02d}").mkdir(parents=True, exist_ok=True)
    total = 0
    for number in range(count):
        crop = _crop(rng.choice(pictures), kilobytes, rng)
        # Steered: below the wanted mean a high quality is drawn, above it a low one.
        below = total < number * kilobytes * 1000
        buffer = io.BytesIO()
        crop.save(buffer, "JPEG", quality=rng.randint(*(HIGH if below else LOW)))
        (out / f"c{number % classes:02d}" / f"{number:06d}.jpg").write_bytes(buffer.getvalue())
        total += buffer.tell()
    return total / count / 1000


def _pictures(sources: list[Path]) -> Iterator[Image.Image]:
    found = 0
    for path in sources:
        try:
            picture: Image.Image = Image.open(path)
            if min(picture.size) < 1000 or found == MAX_SOURCES:
                continue
            picture = picture.convert("RGB")
            picture.info.clear()  # a comment or profile would be written into every crop
        except OSError:
            continue
        found += 1
        yield picture


def _crop(picture: Image.Image, kilobytes: float, rng: random.Random) -> Image.Image:
    """Return a random crop, shrunk by a random factor: large pictures are not sharp at full size."""
    scale = (kilobytes * PIXELS_A_KILOBYTE) ** 0.5
    side = scale * rng.uniform(0.93, 1.07)
    ratio = rng.choice((4 / 3, 3 / 2, 3 / 4))
    width, height = round(side * ratio**0.5), round(side / ratio**0.5)
    zoom = min(rng.uniform(1.5, 4.0), picture.width / width, picture.height / height)
    across, down = int(width * zoom), int(height * zoom)
    left, top = rng.randint(0, picture.width - across), rng.randint(0, picture.height - down)
    box = (left, top, left + across, top + down)
    return picture.resize((width, height), Image.Resampling.BILINEAR, box, reducing_gap=2.0)


def main() -> None:
    """Make one set and print its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="folders", type=Path, action="append", required=True, help="Repeatable.")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--kilobytes", type=float, default=100.0, help="The wanted mean size.")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    files = (path for folder in asked.folders for path in sorted(folder.rglob("*")))
    sources = [path for path in files if path.suffix in (".jpg", ".png") and path.stat().st_size > SOURCE_BYTES]
    mean = make_images(asked.out, sources, asked.count, asked.kilobytes, asked.classes, asked.seed)
    sizes = [path.stat().st_size for path in asked.out.rglob("*.jpg")]
    print(f"{len(sizes)} JPEGs in {asked.out}, mean {mean:.1f} KB, median {statistics.median(sizes) / 1000:.1f} KB")


if __name__ == "__main__":
    main()
