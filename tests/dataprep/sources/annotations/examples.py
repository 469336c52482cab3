"""What the tests of annotation layouts share."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dataprep.items import FoundClass, Ignored, Item, Notice, Reject, ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources import find_source
from dataprep.sources.detect import detect_layout
from tests.dataprep.examples import encoded


def scan(source: Path, layout: str, needs: str | None, **options: Any) -> list[ScanEntry]:
    """Detect the layout, which must be this one, and return the entries of the scan."""
    chosen = SourceOptions(needs=needs, **options)
    assert detect_layout(source, chosen) == layout
    return list(find_source(layout).scan(source, chosen))


def items(found: Sequence[ScanEntry]) -> dict[str, Item]:
    listed = [entry for entry in found if isinstance(entry, Item)]
    assert len({item.key for item in listed}) == len(listed)
    return {item.key: item for item in listed}


def annotations(found: Sequence[ScanEntry]) -> dict[str, Any]:
    return {key: item.annotation for key, item in items(found).items()}


def splits(found: Sequence[ScanEntry]) -> dict[str, str | None]:
    return {key: item.split for key, item in items(found).items()}


def reasons(found: Sequence[ScanEntry]) -> dict[str, str]:
    return {entry.key: entry.reason for entry in found if isinstance(entry, Reject)}


def details(found: Sequence[ScanEntry]) -> dict[str, str]:
    return {entry.key: entry.detail for entry in found if isinstance(entry, Reject)}


def rules(found: Sequence[ScanEntry]) -> dict[str, str]:
    return {entry.key: entry.rule for entry in found if isinstance(entry, Ignored)}


def notices(found: Sequence[ScanEntry]) -> str:
    return "\n".join(entry.text for entry in found if isinstance(entry, Notice))


def classes(found: Sequence[ScanEntry]) -> list[tuple[str, str | None]]:
    return [(entry.class_name, entry.split) for entry in found if isinstance(entry, FoundClass)]


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def mask(values: Sequence[Sequence[int]]) -> bytes:
    return encoded(Image.fromarray(np.array(values, np.uint8)), "PNG")


def turned(angle: int, size: tuple[int, int]) -> bytes:
    """A JPEG of this stored size with an EXIF orientation."""
    image = Image.new("RGB", size, "red")
    exif = image.getexif()
    exif[0x0112] = angle
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()
