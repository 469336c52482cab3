"""pycocotools reads the same boxes and categories of each image."""

import contextlib
import io
import random
from pathlib import Path
from typing import Any

import pytest

from dataprep.items import key_to_path
from tests.dataprep.examples import Files, picture
from tests.dataprep.sources.annotations.examples import annotations, as_json, scan

peer = pytest.importorskip("pycocotools.coco", reason="needs pycocotools (extra: test)")


@pytest.fixture
def dataset(files: Files) -> Path:
    """Twenty images and a hundred boxes of ten sparse categories, in shuffled order."""
    rng = random.Random(0)
    numbers = rng.sample(range(1000), 20)
    categories = [{"id": number, "name": f"class {number}"} for number in rng.sample(range(90), 10)]
    images = [{"id": n, "file_name": f"{n:04}.jpg", "width": 24, "height": 16} for n in numbers]
    boxes = [
        {
            "id": i,
            "image_id": rng.choice(numbers),
            "category_id": rng.choice(categories)["id"],
            "bbox": [rng.uniform(0, 12), rng.uniform(0, 8), rng.uniform(0, 12), rng.uniform(0, 8)],
            "iscrowd": int(rng.random() < 0.1),
        }
        for i in range(100)
    ]
    text = as_json({"info": {}, "images": images, "annotations": boxes, "categories": categories})
    return files({"annotations/instances_a.json": text} | {f"images/{n:04}.jpg": picture(n) for n in numbers})


def test_boxes_and_categories_are_those_of_pycocotools(dataset: Path) -> None:
    found = annotations(scan(dataset, "coco", "boxes"))
    with contextlib.redirect_stdout(io.StringIO()):
        coco: Any = peer.COCO(dataset / "annotations/instances_a.json")
    names = {category["id"]: category["name"] for category in coco.loadCats(coco.getCatIds())}
    assert len(found) == len(coco.getImgIds())
    for image in coco.loadImgs(coco.getImgIds()):
        ours = found[f"images/{key_to_path(image['file_name'])}"]
        theirs = coco.loadAnns(coco.getAnnIds(imgIds=image["id"]))
        assert ours["classes"] == [names[one["category_id"]] for one in theirs]
        assert ours["iscrowd"] == [one["iscrowd"] for one in theirs]
        sizes = [[left, top, right - left, bottom - top] for left, top, right, bottom in ours["boxes"]]
        for mine, other in zip(sizes, theirs, strict=True):
            assert mine == pytest.approx(other["bbox"])
