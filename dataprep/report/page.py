"""Pages: Jinja2 over this program's templates and the look in schemas/page, which both programs share."""

import base64
import hashlib
import importlib
import logging
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from dataprep.errors import DataprepError
from dataprep.formatting import duration, size
from schemas.counting import many
from schemas.names import printable


def need(*packages: str) -> None:
    """Raise DataprepError unless these packages of the extra `report` can be imported."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # or it reports at length that it has no home folder
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError:
            raise DataprepError(
                f"dataprep report needs the package {package}: pip install jinja2 matplotlib (the extra [report])"
            ) from None


def render(template: str, contents: Iterable[tuple[str, str]], **values: Any) -> str:
    """The page of `template`, whose script and style have its name; `contents` is a link (id, title) to each section.
    Every value is escaped; the filter `name` also spells out what would move a cursor or turn the line.
    """
    need("jinja2")
    import jinja2

    look = resources.files("schemas").joinpath("page")
    own = resources.files("dataprep.report").joinpath("templates")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("dataprep.report", "templates"), jinja2.PackageLoader("schemas", "page")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "sha256": _sha256,
        "name": printable,
        "short": shorten,
        "size": size,
        "many": many,
        "duration": duration,
        "by_count": _by_count,
        "explained": _explained,
    }
    style, script = template.replace(".html", ".css"), template.replace(".html", ".js")
    page: str = environment.get_template(template).render(
        style=look.joinpath("page.css").read_text("utf-8") + own.joinpath(style).read_text("utf-8"),
        scripts=[look.joinpath("page.js").read_text("utf-8"), own.joinpath(script).read_text("utf-8")],
        contents=list(contents),
        **values,
    )
    return page


def shorten(text: str, length: int = 160) -> str:
    """A name as a page shows it: nothing in it moves a cursor or turns the line, and its middle gives way."""
    if len(text) > length:
        text = f"{text[: length // 2]}…{text[-length // 2 :]}"
    return printable(text)


def _by_count(values: Mapping[str, int]) -> list[tuple[str, int]]:
    """Names and counts, the most first."""
    return sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))


def _explained(values: Mapping[str, int], words: Mapping[str, str]) -> list[list[Any]]:
    """The same with a word on each between name and count; gif_to_png explains itself."""
    return [[name, words.get(name, _became(name)), count] for name, count in _by_count(values)]


def _became(name: str) -> str:
    before, _, after = name.partition("_to_")
    return f"{before.upper()} became {after.upper()}" if after else ""


def _sha256(script: str) -> str:
    """The digest by which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
