"""Pages: Jinja2 over templates of this program and the look in schemas/page, which both programs share."""

import base64
import hashlib
from collections.abc import Iterable
from importlib import resources
from typing import Any

from dataprep.errors import DataprepError
from dataprep.keys import printable

INSTALL = "dataprep report needs the packages jinja2 and matplotlib: pip install jinja2 matplotlib"


def render(template: str, script: str, contents: Iterable[tuple[str, str]], **values: Any) -> str:
    """The page of `template`, with the script of that name below templates/, and a link to each of `contents` (id,
    title). Every value is escaped, and what would move a cursor or turn the line is spelled out by the filter
    `name`. Raises DataprepError when Jinja2 is missing.
    """
    try:
        import jinja2
    except ImportError:
        raise DataprepError(INSTALL) from None

    look = resources.files("schemas").joinpath("page")
    own = resources.files("dataprep").joinpath("templates")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("dataprep", "templates"), jinja2.PackageLoader("schemas", "page")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"sha256": _sha256, "name": printable}
    page: str = environment.get_template(template).render(
        style=look.joinpath("page.css").read_text("utf-8"),
        scripts=[look.joinpath("page.js").read_text("utf-8"), own.joinpath(script).read_text("utf-8")],
        contents=list(contents),
        **values,
    )
    return page


def _sha256(script: str) -> str:
    """The digest by which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()