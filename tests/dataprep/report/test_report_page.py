"""The page of `dataprep report` in a browser: hostile names, sheets, rejected files, and a set of the largest size."""

import json
import os
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep.build.worker import describe_shard
from dataprep.mindrecord.format import Geometry
from dataprep.mindrecord.writer import ShardWriter
from dataprep.options import Budget
from dataprep.report.page import report
from schemas.dataset import Dataset, Split
from schemas.layout import DATASET, DUPLICATES, REJECTS, REPORT
from schemas.names import path_to_key, printable
from schemas.record import load_schema
from tests.dataprep.examples import encoded, picture, shard
from tests.examples import PHONE, Browser

HOSTILE = (
    "<script>document.title='owned'<",
    '"><img src=x onerror=alert(1)>',
    "two\nlines\tand \x1b[31m",
    "\u202egnp.exe",
    "x" * 200,
    "{{ 7*7 }}{% raw %}",
    os.fsdecode(b"caf\xe9"),
    "猫 & <b>",
)
CLOSING = "a</script><script>document.title='owned'<"  # a folder and a file, as a key has them


def tell(*_: Any) -> None:
    pass


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a set whose every name is hostile: classes, rows, rejected files, duplicates."""
    folder = tmp_path_factory.mktemp("hostile")
    for number, name in enumerate(HOSTILE):
        place = folder / "raw" / name
        (place / CLOSING).parent.mkdir(parents=True)
        for row in range(number + 2):
            (place / f"{row}{name[:40]}.jpg").write_bytes(picture(20 * number + row))
        (place / CLOSING).write_bytes(encoded(Image.linear_gradient("L"), "JPEG")[:1500])
        (place / f"again {name[:20]}").write_bytes(picture(20 * number))
    shard(folder / "raw", folder / "out", val=0.5, max_rejects=Budget(1, True), max_class_loss=Budget(1, True))
    report(folder / "out", None, tell)
    return folder / "out" / REPORT


def shown(browser: Browser, selector: str) -> list[str]:
    return [element.text for element in browser.find_all(selector) if element.is_displayed()]


def test_hostile_names_are_shown_as_text_only(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.wait_for("document.querySelector('#list-count').textContent")
    expected = {printable(path_to_key(name)) for name in HOSTILE if len(name) < 160}
    listed = browser.driver.execute_script(
        "return [...document.querySelectorAll('#balance tbody th')].map((cell) => cell.textContent)"
    )
    assert set(listed) == expected | {f"{'x' * 80}…{'x' * 80}"}
    assert browser.driver.title == "out: dataset report"
    assert browser.find_all("img[src='x']") == []
    assert browser.find_all("script") == browser.find_all("body > script")
    assert browser.errors() == []
    assert browser.requests() == []


def test_page_fits_a_phone_with_any_names(browser: Browser, page: Path) -> None:
    browser.open(page, width=PHONE)
    browser.wait_for("document.querySelector('#list-count').textContent")
    assert browser.overflow() == 0


def test_sheets_are_drawn_when_they_become_visible(browser: Browser, page: Path) -> None:
    browser.open(page, width=PHONE)
    drawn = "document.querySelectorAll('#sheets .thumb').length"
    last = "document.querySelector('#sheets > :last-child')"
    assert browser.wait_for("document.querySelectorAll('#sheets .sheet').length") == len(HOSTILE)
    assert browser.driver.execute_script(f"return {drawn}") == 0
    browser.driver.execute_script(f"{last}.scrollIntoView()")
    assert browser.wait_for(f"{last}.querySelectorAll('img').length") >= 3
    assert browser.wait_for(f"{last}.querySelector('img').naturalWidth") == 24


def test_a_class_is_found_and_its_pictures_are_enlarged(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.find("#sheets-search").send_keys("onerror")
    assert browser.find("#sheets-count").text == "1 of 8"
    (heading,) = shown(browser, "#sheets h3 bdi")
    assert heading == HOSTILE[1]
    browser.driver.execute_script("document.querySelector('#sheets .sheet:not([hidden])').scrollIntoView()")
    browser.wait_for("document.querySelector('#sheets .thumb')")
    browser.find("#sheets .thumb").click()
    first = browser.find("#enlarged-caption").text
    assert first.startswith(f"{HOSTILE[1]}/")
    browser.press("ARROW_RIGHT")
    assert browser.find("#enlarged-caption").text != first
    browser.press("ESCAPE")
    assert not browser.find("#enlarged").is_displayed()


def test_rejected_files_are_found_by_name_and_reason(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.wait_for("document.querySelectorAll('#list tbody tr').length")
    assert browser.find("#list-count").text == "8 of 8"
    assert any(CLOSING in text for text in shown(browser, "#list tbody td"))
    assert len(browser.find_all("#rejected .thumb img[alt*='owned']")) == 8
    browser.find("#list-search").send_keys("猫")
    assert browser.find("#list-count").text == "1 of 8"
    browser.find("#list-search").clear()
    browser.find("#list-search").send_keys("no such file")
    assert browser.find("#list-count").text == "0 of 8"


def test_equal_pictures_stand_side_by_side(browser: Browser, page: Path) -> None:
    browser.open(page)
    for pair in browser.find_all(".pair"):
        left, right = pair.find_elements("css selector", "img")
        assert left.get_attribute("src") == right.get_attribute("src")
        assert left.location["y"] == right.location["y"]
    assert len(browser.find_all(".pair")) == len(HOSTILE)


def test_page_is_accessible_to_screen_readers(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.wait_for("document.querySelectorAll('#list tbody tr').length")
    every = "return [...document.querySelectorAll(arguments[0])].map((element) => element"
    ids = browser.driver.execute_script(f"{every}.id)", "[id]")
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag in browser.driver.execute_script(f"{every}.tagName)", "h1, h2, h3, h4")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(browser.driver.execute_script(f"{every}.alt)", "main img"))
    assert all(browser.driver.execute_script(f"{every}.labels.length)", "main input, main select"))
    assert all(browser.driver.execute_script(f"{every}.caption.textContent)", "table"))
    assert all(browser.driver.execute_script(f"{every}.scope)", "th"))
    targets = [link.get_attribute("href").partition("#")[2] for link in browser.find_all(".contents a")]
    assert targets == browser.driver.execute_script(f"{every}.id)", "main > section")


def test_page_without_scripts_names_the_missing_parts(browser: Browser, page: Path) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(page)
        said = browser.find("noscript").text
        assert "rejects.jsonl" in said
        assert len(browser.find_all("#balance tbody tr")) == len(HOSTILE)
        assert not browser.find("#list-search").is_displayed()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


# The largest set that the page is made for

CLASSES, REFUSED = 1000, 100_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sealed set of 1,000 classes of detailed pictures and 100,000 rejected files, in which no name is
    like another.
    """
    out = tmp_path_factory.mktemp("large")
    chance = random.Random(0)
    schema = load_schema("classification")
    names = tuple(f"class{number:04d} {chance.randbytes(6).hex()}" for number in range(CLASSES))
    pictures = [encoded(Image.effect_noise((120, 90), 90).convert("RGB"), "JPEG") for _ in range(8)]
    with ShardWriter(out, ["train.mindrecord0"], 0, schema, Geometry(1 << 20, 1 << 22)) as writer:
        for row in range(2 * CLASSES):
            label = row % CLASSES
            writer.write({"image": pictures[row % 8], "label": label, "key": f"{names[label]}/{row}.jpg"})
        writer.finish()
    described = describe_shard(writer.path, writer.rows)
    with (out / REJECTS).open("w") as rejects:
        for number in range(REFUSED):
            key = f"{names[number * CLASSES // REFUSED]}/{chance.randbytes(8).hex()}.jpg"
            reject = {"key": key, "reason": "truncated", "detail": f"{number} bytes are missing", "size": 1000 + number}
            rejects.write(json.dumps(reject) + "\n")
    (out / DUPLICATES).touch()
    dataset = Dataset(
        schema=schema,
        classes=names,
        splits={"train": Split((2,) * CLASSES, (described,))},
        found=2 * CLASSES + REFUSED,
        rejected=Counter(truncated=REFUSED),
        ignored={},
        changed={},
        policy={},
        plan={"layout": "classes", "options": {}},
    )
    (out / DATASET).write_bytes(dataset.to_json())
    reported = report(out, None, tell)
    assert (reported.classes, reported.pictures, reported.listed) == (CLASSES, 2 * CLASSES, REFUSED)
    return out / REPORT


def test_a_large_set_stays_below_ten_megabytes_and_works(browser: Browser, large: Path) -> None:
    assert large.stat().st_size < 10_000_000
    browser.open(large)
    assert browser.wait_for("document.querySelector('#list-count').textContent") == "100,000 of 100,000"
    assert len(browser.find_all("#list tbody tr")) == 50
    browser.find("#list-after").click()
    assert browser.find("#list-range").text == "51 to 100"
    browser.find("#balance-search").send_keys("CLASS0777")
    assert browser.find("#balance-count").text == "1 of 1,000"
    browser.find("#sheets-search").send_keys("CLASS0777")
    assert browser.find("#sheets-count").text == "1 of 1,000"
    assert browser.errors() == []
