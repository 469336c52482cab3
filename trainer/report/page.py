"""Render HTML pages with Jinja2, from the templates of this package and of schemas/page."""

import base64
import hashlib
import importlib
import logging
from collections.abc import Iterable
from importlib import resources

from trainer.errors import TrainerError


def render(template: str, contents: Iterable[tuple[str, str]], **values: object) -> str:
    """Return the page of `template`; `contents` are the links (id, title) to its sections.

    All values are escaped; the filter `name` also escapes control characters.
    """
    require_packages("jinja2")
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


def require_packages(*packages: str) -> None:
    """Raise TrainerError if a package of the extra `report` cannot be imported."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no long warning about a missing home folder
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError:
            raise TrainerError(
                f"trainer report needs the package {package}: pip install jinja2 matplotlib (the extra [report])"
            ) from None


def data_uri(kind: str, content: bytes) -> str:
    """Return a picture as a data URI."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def printable(text: object, length: int = 300) -> str:
    """Return `text` with control characters and lone surrogates escaped, and shortened in the middle."""
    shown = str(text)
    if len(shown) > length:
        shown = f"{shown[: length // 2]}…{shown[-length // 2 :]}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)


def _sha256(script: str) -> str:
    """Return the digest with which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
