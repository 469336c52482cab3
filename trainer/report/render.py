"""Render the run page from its template."""

import base64
import logging
from collections.abc import Iterable

from schemas.page import missing_package, shorten
from schemas.page import render as render_page
from trainer.errors import TrainerError


def render(template: str, contents: Iterable[tuple[str, str]], **values: object) -> str:
    """Return the page of `template`; `contents` are the links (id, title) to its sections."""
    require_packages("jinja2")
    return render_page("trainer.report", template, contents, {"name": printable}, values)


def require_packages(*packages: str) -> None:
    """Raise TrainerError if a package of the extra `report` cannot be imported."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no long warning about a missing home folder
    problem = missing_package("trainer report", *packages)
    if problem:
        raise TrainerError(problem)


def data_uri(kind: str, content: bytes) -> str:
    """Return a picture as a data URI."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def printable(value: object, length: int = 300) -> str:
    """Return a value as text with control characters escaped, at most `length` characters."""
    return shorten(str(value), length)
