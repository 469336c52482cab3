"""Pages: Jinja2 over this program's templates and the look in schemas/page, which both programs share."""

import base64
import hashlib
import importlib
import logging
from collections.abc import Iterable
from importlib import resources
from typing import Any

from trainer.errors import TrainerError


def render(template: str, contents: Iterable[tuple[str, str]], **values: Any) -> str:
    """The page of `template`, whose style has its name; `contents` is a link (id, title) to each section.

    All values are escaped; the filter `name` also spells out what would move a cursor or turn the line.
    """
    need("jinja2")
    import jinja2

    look = resources.files("schemas").joinpath("page")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("trainer.report", "templates"), jinja2.PackageLoader("schemas", "page")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = resources.files("trainer.report").joinpath("templates")
    environment.filters |= {"sha256": _sha256, "name": printable}
    page: str = environment.get_template(template).render(
        style=look.joinpath("page.css").read_text("utf-8")
        + own.joinpath(template.replace(".html", ".css")).read_text("utf-8"),
        scripts=[look.joinpath("page.js").read_text("utf-8")],
        contents=list(contents),
        **values,
    )
    return page


def need(*packages: str) -> None:
    """Raise TrainerError unless these packages of the extra `report` can be imported."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # or it reports at length that it has no home folder
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError:
            raise TrainerError(
                f"trainer report needs the package {package}: pip install jinja2 matplotlib (the extra [report])"
            ) from None


def data_uri(kind: str, content: bytes) -> str:
    """The bytes of a picture as an address that holds them."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def printable(text: object, length: int = 300) -> str:
    """`text` with what would move a cursor, turn the line, or cannot be encoded, escaped; its middle gives way."""
    shown = str(text)
    if len(shown) > length:
        shown = f"{shown[: length // 2]}…{shown[-length // 2 :]}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)


def _sha256(script: str) -> str:
    """The digest by which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
