"""Options of `dataprep shard` about its source: where images, labels and splits are."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from dataprep.sources import SOURCES
from schemas.command_line import PathType

_Command = TypeVar("_Command", bound=Callable[..., object])
_FILE = PathType(path_type=Path, dir_okay=False, exists=True)
_ANY = PathType(path_type=Path, exists=True)
_FOLDER = PathType(path_type=Path, file_okay=False, exists=True)

# In the order of --help.
_OPTIONS = (
    click.option("--layout", type=click.Choice(["auto", *SOURCES]), default="auto", show_default=True,
                 help="Layout of SOURCE, see docs/sources.md; auto: detect, and stop if ambiguous."),
    click.option("--schema", default="classification", show_default=True,
                 help="Record schema: a record kind or a JSON file."),
    click.option("--field", multiple=True, metavar="NAME:TYPE",
                 help="Add a column of SOURCE to the records, as in age:float32. Repeatable."),
    click.option("--classes", type=_FILE, help="File with one class name per line, in label order."),
    click.option("--root", type=_FOLDER, help="Folder of the paths in a table.  [default: folder of the table]"),
    click.option("--path-column", metavar="NAME", help="Column of the image paths.  [default: by common names]"),
    click.option("--label-column", metavar="NAME", help="Column of the classes.  [default: by common names]"),
    click.option("--split-column", metavar="NAME", help="Column of the splits.  [default: by common names]"),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of text files in SOURCE."),
    click.option("--annotations", type=_ANY, help="File or folder of annotations.  [default: its usual place]"),
    click.option("--image-field", metavar="NAME", help="Column of the image in record files.  [default: detect]"),
    click.option("--boxes", type=click.Choice(["clip", "reject"]), default="clip", show_default=True,
                 help="Invalid boxes. clip: cut at the border and drop what is empty; reject: reject the image."),
    click.option("--ignore-value", type=click.IntRange(0, 65535), default=255, show_default=True,
                 help="Value of mask pixels without a class."),
    click.option("--val", type=click.FloatRange(0, 1, max_open=True), default=0.1, show_default=True,
                 help="Fraction of each class for val, unless SOURCE has splits."),
    click.option("--test", type=click.FloatRange(0, 1, max_open=True), default=0.0, show_default=True,
                 help="Fraction of each class for test, unless SOURCE has splits."),
    click.option("--split-by", type=click.Choice(["class", "hash"]), default="class", show_default=True,
                 help="class: exact fractions per class; hash: by key, so adding images moves none."),
    click.option("--split-file", type=_FILE, help="Table with the columns key and split."),
    click.option("--group-by", metavar="REGEX|COLUMN",
                 help="Keep images of a group, such as a patient or video, in one split."),
)  # fmt: skip


def source_options(command: _Command) -> _Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
