"""The look that both programs' pages share: what it does in a browser, keyboard and all."""

import base64
import hashlib
import io
from pathlib import Path

import jinja2
import matplotlib
import pytest
from matplotlib.figure import Figure

from tests.examples import PHONE, Browser

LOOK = Path(__file__).parent.parent / "schemas" / "page"
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
PAGE = """
{% extends "base.html" %}
{% import "parts.html" as parts %}
{% block title %}A page{% endblock %}
{% block program %}a program{% endblock %}
{% block summary %}<h1>A page</h1>{{ parts.facts([("rows", 12345), ("share", "1.5 %", "of all")]) }}{% endblock %}
{% block sections %}
{% call parts.section("numbers", "Numbers", "Some of them.") %}
{{ parts.table("fruit", "Fruit", [("name", "text"), ("rows", "number"), ("digest", "plain")], fruit, "Find a fruit") }}
{{ parts.legend(["one", "two"]) }}
{{ parts.pairs([("name", hostile)]) }}
{{ parts.figure("curve", svg, "A " ~ hostile, "A curve.") }}
{% endcall %}
{% call parts.section("pictures", "Pictures") %}
<div class="gallery" data-gallery>
{% for name in ["first", hostile, "third"] %}{{ parts.thumb(dot, name, 96, 64) }}{% endfor %}
</div>
{% endcall %}
{% endblock %}
"""


def curve() -> str:
    with matplotlib.rc_context(fname=LOOK / "figure.rc"):
        figure = Figure(figsize=(5, 3))
        axes = figure.add_subplot()
        axes.plot([0, 1, 2], [1, 3, 2], label="train")
        axes.legend()
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(LOOK), jinja2.DictLoader({"page": PAGE})]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sha256"] = lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    fruit = [
        ["pear", 9, {"text": "0f", "mono": True}],
        [HOSTILE, 1200, {"text": "", "bar": [(0.5, 1), (0.25, 2)]}],
        ["apple", {"text": "unknown", "value": ""}, "x" * 300],
        ["Apple tart", 30, "b"],
    ]
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(
        environment.get_template("page").render(
            style=(LOOK / "page.css").read_text(),
            scripts=[(LOOK / "page.js").read_text()],
            contents=[("numbers", "Numbers"), ("pictures", "Pictures")],
            fruit=fruit,
            hostile=HOSTILE,
            svg=curve(),
            dot=DOT,
        ),
        encoding="utf-8",
    )
    return path


def names(browser: Browser) -> list[str]:
    return [row.text for row in browser.find_all("#fruit tbody th") if row.is_displayed()]


def test_page_loads_nothing_and_logs_no_errors(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.requests() == []
    assert browser.errors() == []
    assert browser.find_all("script, img[onerror], [onclick]") == browser.find_all("body > script")
    assert browser.find_all("img[src='x']") == []


def test_a_script_that_the_page_does_not_name_is_not_run(browser: Browser, page: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.html"
    strange.write_text(page.read_text().replace("</main>", "<script>document.title='owned'</script></main>"))
    browser.open(strange)
    assert browser.driver.title == "A page"
    assert "Content Security Policy" in browser.errors()[0]


def test_a_heading_sorts_its_table_both_ways_and_says_so(browser: Browser, page: Path) -> None:
    browser.open(page)
    by_name, by_rows = browser.find_all("#fruit thead button")
    by_rows.click()
    assert names(browser) == [HOSTILE, "Apple tart", "pear", "apple"]
    by_rows.click()
    assert names(browser) == ["pear", "Apple tart", HOSTILE, "apple"]
    assert [th.get_attribute("aria-sort") for th in browser.find_all("#fruit thead th")] == ["none", "ascending", None]
    by_name.click()
    assert names(browser) == [HOSTILE, "apple", "Apple tart", "pear"]


def test_search_hides_rows_without_every_word_and_counts_the_rest(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.find("#fruit-search").send_keys("TART app")
    assert names(browser) == ["Apple tart"]
    assert browser.find("#fruit-count").text == "1 of 4"
    browser.find("#fruit-search").clear()
    browser.find("#fruit-search").send_keys("apple")
    assert browser.find("#fruit-count").text == "2 of 4"
    assert browser.find("#fruit-count").get_attribute("aria-live") == "polite"


def test_picture_is_enlarged_and_closed_by_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page)
    thumbs = browser.find_all(".thumb")
    browser.driver.execute_script("arguments[0].focus()", thumbs[0])
    browser.press("ENTER")
    assert browser.find("#enlarged-caption").text == "first"
    browser.press("ARROW_RIGHT")
    assert browser.find("#enlarged-caption").text == HOSTILE
    browser.press("ARROW_RIGHT", "ARROW_RIGHT")
    assert browser.find("#enlarged-place").text == "1 of 3"
    browser.press("ARROW_LEFT")
    assert browser.find("#enlarged-caption").text == "third"
    browser.press("ESCAPE")
    assert not browser.find("#enlarged").is_displayed()
    assert browser.driver.switch_to.active_element == thumbs[0]


def test_first_tab_stop_skips_to_the_content(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("TAB")
    assert browser.driver.switch_to.active_element.text == "Skip to the content"
    browser.press("ENTER")
    assert browser.driver.switch_to.active_element.tag_name == "main"


def colour(browser: Browser, selector: str, of: str) -> str:
    return str(browser.find(selector).value_of_css_property(of))


def test_theme_of_the_system_applies_until_another_is_chosen(browser: Browser, page: Path) -> None:
    browser.open(page, dark=True)
    browser.driver.execute_script("localStorage.clear()")
    browser.open(page)
    light = colour(browser, "body", "background-color"), colour(browser, "#curve path[style*='2563eb']", "stroke")
    browser.open(page, dark=True)
    dark = colour(browser, "body", "background-color"), colour(browser, "#curve path[style*='2563eb']", "stroke")
    assert light[0] == "rgba(255, 255, 255, 1)"
    assert (dark[0] != light[0], dark[1] != light[1]) == (True, True)
    browser.find("#theme").click()
    assert browser.find("#theme").text == "Theme: light"
    assert colour(browser, "body", "background-color") == light[0]
    browser.driver.execute_script("localStorage.clear()")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_sufficient_contrast(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, dark=dark)
    ground = luminance(colour(browser, "thead th", "background-color"))
    for selector in ("#fruit tbody th", ".note", "a", "figcaption", "thead button"):
        text = luminance(colour(browser, selector, "color"))
        low, high = sorted((ground, text))
        assert (high + 0.05) / (low + 0.05) >= 4.5, selector


def luminance(rgba: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [float(part) / 255 for part in rgba[rgba.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_page_on_a_phone_needs_no_horizontal_scrolling(browser: Browser, page: Path) -> None:
    browser.open(page, width=PHONE)
    assert browser.overflow() == 0


def test_headings_are_in_order_and_tables_have_captions(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert [heading.tag_name for heading in browser.find_all("h1, h2, h3")] == ["h1", "h2", "h2"]
    assert browser.find("#fruit caption").text == "Fruit"
    assert len(browser.find_all("#fruit th[scope=col]")) == 3
    assert len(browser.find_all("#fruit th[scope=row]")) == 4
