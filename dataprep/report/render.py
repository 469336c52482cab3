"""Render the dataset page from its template."""

from collections.abc import Callable, Iterable, Mapping

from dataprep.errors import DataprepError
from dataprep.formatting import duration, size
from schemas.counting import many
from schemas.names import printable
from schemas.page import missing_package, shorten
from schemas.page import render as render_page


def need(*packages: str) -> None:
    """Raise DataprepError if one of these packages of the extra `report` cannot be imported."""
    problem = missing_package("dataprep report", *packages)
    if problem:
        raise DataprepError(problem)


def render(contents: Iterable[tuple[str, str]], **values: object) -> str:
    """Return the page; `contents` is a link (id, title) to each section, `values` the variables of the template."""
    need("jinja2")
    filters: dict[str, Callable[..., object]] = {
        "name": printable,
        "short": shorten,
        "size": size,
        "many": many,
        "duration": duration,
        "by_count": _by_count,
        "explained": _explained,
    }
    return render_page("dataprep.report", "report.html", contents, filters, values)


def _by_count(values: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return names and counts, the largest count first."""
    return sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))


def _explained(values: Mapping[str, int], meanings: Mapping[str, str]) -> list[list[object]]:
    """Return name, meaning and count, the largest count first.

    Names such as gif_to_png need no meaning.
    """
    return [[name, meanings.get(name, _conversion(name)), count] for name, count in _by_count(values)]


def _conversion(name: str) -> str:
    before, _, after = name.partition("_to_")
    return f"{before.upper()} became {after.upper()}" if after else ""
