"""Pages: Jinja2 over templates of this program and the look in schemas/page, which both programs share."""

import base64
import hashlib
import importlib
from collections.abc import Iterable
from importlib import resources
from typing import Any

from trainer.errors import TrainerError

INSTALL = "trainer report needs the packages jinja2 and matplotlib: pip install jinja2 matplotlib"


def render(template: str, contents: Iterable[tuple[str, str]], **values: Any) -> str:
    """The page of `template` with a link to each of `contents` (id, title). Every value is escaped, and what would move
    a cursor or turn the line is spelled out by the filter `name`. Raises TrainerError when Jinja2 is missing.
    """
    jinja2 = needed("jinja2")
    look = resources.files("schemas").joinpath("page")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("trainer", "templates"), jinja2.PackageLoader("schemas", "page")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"sha256": _sha256, "name": printable}
    page: str = environment.get_template(template).render(
        style=look.joinpath("page.css").read_text("utf-8"),
        scripts=[look.joinpath("page.js").read_text("utf-8")],
        contents=list(contents),
        **values,
    )
    return page


def needed(module: str) -> Any:
    """A module of the extra `report`; raises TrainerError when it is not there."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise TrainerError(INSTALL) from None


def data_uri(kind: str, content: bytes) -> str:
    """The bytes of a picture as an address that holds them."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def printable(text: object) -> str:
    """`text` with what would move a cursor, turn the line, or cannot be encoded, escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))


def _sha256(script: str) -> str:
    """The digest by which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
