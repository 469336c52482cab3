"""The HTML shell of the report pages: the templates, style and script in schemas/page, extended by each program."""

import base64
import hashlib
import importlib
import logging
from collections.abc import Callable, Iterable, Mapping
from importlib import resources

from schemas.names import printable


def missing_package(command: str, *packages: str) -> str | None:
    """Return an error message for the first package that cannot be imported; None if all can be imported."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no warnings about a missing home folder
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError:
            return f"{command} needs the package {package}: pip install jinja2 matplotlib (the extra [report])"
    return None


def render(
    package: str,
    template: str,
    contents: Iterable[tuple[str, str]],
    filters: Mapping[str, Callable[..., object]],
    values: Mapping[str, object],
) -> str:
    """Return the page of a template in the folder `templates` of `package`; its .css and .js have the template's name.

    `contents` is a link (id, title) to each section. All values are escaped.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package, "templates"), jinja2.PackageLoader("schemas", "page")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"sha256": _sha256, **filters}
    folders = resources.files("schemas").joinpath("page"), resources.files(package).joinpath("templates")
    name = template.removesuffix(".html")
    styles = folders[0].joinpath("page.css"), folders[1].joinpath(f"{name}.css")
    scripts = folders[0].joinpath("page.js"), folders[1].joinpath(f"{name}.js")
    page: str = environment.get_template(template).render(
        style="".join(style.read_text("utf-8") for style in styles),
        scripts=[script.read_text("utf-8") for script in scripts if script.is_file()],
        contents=list(contents),
        **values,
    )
    return page


def shorten(text: str, length: int = 160) -> str:
    """Return `text` with control characters escaped, and without its middle if it is longer than `length`."""
    if len(text) > length:
        text = f"{text[: length // 2]}…{text[-length // 2 :]}"
    return printable(text)


def _sha256(script: str) -> str:
    """Return the digest by which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
