"""Renders the run page from its template."""

import base64
from collections.abc import Iterable

from schemas.page import missing_package, shorten
from schemas.page import render as render_page
from trainer.errors import TrainerError


def render(template: str, contents: Iterable[tuple[str, str]], **values: object) -> str:
    """Return the page; `contents` is a link (id, title) to each section, `values` the variables of the template."""
    need("jinja2")
    return render_page("trainer.report", template, contents, {"name": printable}, values)


def need(*packages: str) -> None:
    """Raise TrainerError unless these packages of the extra `report` can be imported."""
    problem = missing_package("trainer report", *packages)
    if problem:
        raise TrainerError(problem)


def data_uri(kind: str, content: bytes) -> str:
    """Return a data URI of an image; `kind` is png or jpeg."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def printable(value: object, length: int = 300) -> str:
    """Return a value as text with control characters escaped, at most `length` characters."""
    return shorten(str(value), length)
