"""The commands of `dataprep`: thin, and the only place that echoes results and chooses exit codes.

What a command needs is imported inside it, so that --help answers at once.
"""

import json
import math
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dataprep.cli.options import BudgetType, Size, WorkersType, check_finite, class_names, load_config
from dataprep.cli.program import Program
from dataprep.disk import disk_errors, uninterrupted
from schemas.command_line import PathType
from schemas.counting import many
from schemas.process.streams import print_result

if TYPE_CHECKING:
    from dataprep.options import ShardOptions

_T = TypeVar("_T")
FOLDER = PathType(path_type=Path, file_okay=False)
PATH = PathType(path_type=Path)
SEALED = PathType(path_type=Path, file_okay=False, exists=True, readable=False)
FILE = PathType(path_type=Path, dir_okay=False, exists=True)


def _settled(folder: Path, work: Callable[[], _T]) -> _T:
    """What `work` makes of the set in `folder`, after what a killed `shard` has left half moved there is finished."""
    from dataprep.job.swap import settle

    def whole() -> _T:
        settle(folder)
        return work()

    with disk_errors(folder):
        return uninterrupted(folder, whole)


def _echo(result: Any, as_json: bool) -> None:
    from dataprep.cli.text import as_lines, as_object

    _print(json.dumps(as_object(result)) if as_json else "\n".join(as_lines(result)))


def _print(text: str) -> None:
    """Print a result; exits 1 where only stderr could take it."""
    if not print_result(text):
        sys.exit(1)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mindspore-dataprep")
def main() -> None:
    """Turn folders of raw images into sealed MindRecord datasets for MindSpore.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the data was refused,
    75 try again later, 130/143 interrupted (the same command goes on).
    """


@main.command(short_help="Draw a small demo set.")
@click.argument("folder", type=FOLDER)
@click.option("--images", default=1200, show_default=True, help="Number of images.")
@click.option("--classes", type=click.IntRange(2, 10), default=6, show_default=True, help="Number of classes.")
@click.option("--seed", default=0, show_default=True, help="The same seed draws the same images.")
def sample(folder: Path, images: int, classes: int, seed: int) -> None:
    """Draw a small demo set of images into FOLDER, with a few broken and odd files among them.

    \b
    Example: dataprep sample demo/raw
    """
    from dataprep.tools.sample import draw_sample

    drawn = draw_sample(folder, images, classes, seed)
    _print(
        f"{many(drawn.images, 'image')} of {many(len(drawn.classes), 'class', 'classes')} in {folder}: "
        f"{', '.join(drawn.classes)}\n"
        f"broken on purpose: {', '.join(drawn.broken)}\n"
        f"odd on purpose: {', '.join(drawn.odd)}"
    )


@main.command(short_help="Turn image folders into a sealed dataset.")
@click.argument("source", type=FOLDER)
@click.argument("out", type=PATH)
@click.option(
    "--layout",
    type=click.Choice(["auto", "classes", "splits"]),
    default="auto",
    show_default=True,
    help="SOURCE/<class>/... or SOURCE/{train,val,test}/<class>/...; auto looks, and asks in case of doubt.",
)
@click.option("--schema", default="classification", show_default=True, help="Record schema: a name or a JSON file.")
@click.option("--classes", type=FILE, help="File with one class name a line, in label order.")
@click.option(
    "--val",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.1,
    show_default=True,
    help="Share of each class for val, where SOURCE has no split folders.",
)
@click.option(
    "--test",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Share of each class for test.",
)
@click.option("--seed", default=0, show_default=True, help="Decides splits and the order of rows.")
@click.option(
    "--shard-size",
    type=Size(),
    help="About the size of a shard.  [default: 512MiB, for small sets a sixteenth of them]",
)
@click.option("--num-shards", type=click.IntRange(1), help="Number of train shards, in place of --shard-size.")
@click.option(
    "--check",
    type=click.Choice(["decode", "header"]),
    default="decode",
    show_default=True,
    help="Read each image to its last byte, or its header alone.",
)
@click.option(
    "--prove",
    type=click.Choice(["decode", "rows", "off"]),
    default="decode",
    show_default=True,
    help="Read each shard back with MindSpore: decode its images, only read it, or neither.",
)
@click.option(
    "--warnings",
    type=click.Choice(["reject", "keep"]),
    default="reject",
    show_default=True,
    help="JPEGs that the decoder reads but says are damaged: keep writes and counts them.",
)
@click.option(
    "--image-format",
    type=click.Choice(["keep", "jpeg", "png"]),
    default="keep",
    show_default=True,
    help="keep: JPEG stays JPEG, all else becomes PNG.",
)
@click.option("--quality", type=click.IntRange(1, 100), default=95, show_default=True, help="Of JPEGs made anew.")
@click.option("--resize", type=click.IntRange(1), metavar="SHORT_SIDE", help="Shrink to this short side in pixels.")
@click.option(
    "--icc",
    type=click.Choice(["ignore", "convert"]),
    default="ignore",
    show_default=True,
    help="Embedded colour profiles: as MindSpore does, or to sRGB.",
)
@click.option(
    "--animation",
    type=click.Choice(["first", "reject"]),
    default="first",
    show_default=True,
    help="Of several frames or pages.",
)
@click.option(
    "--strip-metadata",
    is_flag=True,
    help="Leave EXIF (with GPS), XMP, text and comments out of the images; pixels stay as they are.",
)
@click.option("--min-side", type=click.IntRange(1), default=1, show_default=True, help="Refuse shorter sides.")
@click.option("--max-aspect", type=click.FloatRange(1), help="Refuse a larger ratio of the sides.")
@click.option(
    "--max-pixels",
    type=click.IntRange(1),
    default=178_956_970,
    show_default=True,
    help="Larger images are refused from their header.",
)
@click.option("--max-bytes", type=Size(), default="256MiB", show_default=True, help="Refuse larger files unread.")
@click.option(
    "--depth-bits",
    type=click.IntRange(9, 16),
    default=16,
    show_default=True,
    help="Bits in use of 16-bit values: 12 for 12-bit cameras and scanners.",
)
@click.option(
    "--depth-range",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    help="Map these values of deep grey, 32-bit, signed and float pixels to 0 and 255.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="PATTERN",
    help="Ignore files and folders like this, as .gitignore does. Repeatable.",
)
@click.option("--follow-links", is_flag=True, help="Follow links to folders too.")
@click.option(
    "--empty-classes",
    type=click.Choice(["warn", "error", "keep"]),
    default="warn",
    show_default=True,
    help="What to do about class folders without an image.",
)
@click.option(
    "--duplicates",
    type=click.Choice(["report", "drop", "fail"]),
    default="report",
    show_default=True,
    help="Pictures of val or test that are in train too: drop leaves out the train copies.",
)
@click.option(
    "--workers",
    type=WorkersType(),
    default="auto",
    show_default=True,
    help="Worker processes; auto: one a core, fewer where memory is short.",
)
@click.option(
    "--engine",
    type=click.Choice(["process", "serial", "dask"]),
    default="process",
    show_default=True,
    help="serial: one task after the other, in this process. dask: on a cluster, or on a local one.",
)
@click.option("--dask-address", metavar="URL", help="Where the Dask scheduler listens: tcp://host:8786.")
@click.option(
    "--dask-scheduler-file",
    type=PathType(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file in which the Dask scheduler tells its address.",
)
@click.option(
    "--max-rejects",
    type=BudgetType(),
    default="1%",
    show_default=True,
    help="Over this number or share of refused files nothing is sealed.",
)
@click.option("--max-class-loss", type=BudgetType(), default="20%", show_default=True, help="The same for each class.")
@click.option(
    "--deadline",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds to read one file, or of CPU time to decode one image.",
)
@click.option("--quarantine", type=FOLDER, help="Copy refused files into this folder.")
@click.option("--retry-rejects", is_flag=True, help="Look again at what was refused, after files were mended.")
@click.option("--dry-run", is_flag=True, help="Print the whole plan and write nothing.")
@click.option("--overwrite", is_flag=True, help="Replace the sealed set in OUT once the new one is complete.")
@click.option("--restart", is_flag=True, help="Plan the unfinished job in OUT again; what it has built goes.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option(
    "--config",
    type=FILE,
    is_eager=True,
    expose_value=False,
    callback=load_config,
    help="TOML file of these options; a flag wins over it, also over a list.",
)
@click.option("-v", "--verbose", is_flag=True, help="Tell of each shard and refused file.")
@click.option("-q", "--quiet", is_flag=True, help="Only warnings and the result.")
@click.pass_context
def shard(
    ctx: click.Context, /, source: Path, out: Path, dry_run: bool, overwrite: bool, restart: bool, retry_rejects: bool,
    as_json: bool, verbose: bool, quiet: bool, **values: Any,
) -> None:  # fmt: skip
    """Turn the images below SOURCE into a sealed MindRecord dataset in OUT.

    Killed at any moment and run again, it goes on where it stopped and ends with the same bytes.

    \b
    Example: dataprep shard photos/ dataset/ --val 0.1 --workers 8
    """
    from dataprep import pipeline
    from dataprep.cli.terminal import TerminalProgress
    from dataprep.job.dry_run import preview
    from dataprep.job.existing_set import Existing

    if retry_rejects and (overwrite or restart):
        raise click.UsageError(f"give --retry-rejects or {'--overwrite' if overwrite else '--restart'}, not both")
    existing = Existing(overwrite, restart, retry_rejects)
    options = _shard_options(values)
    progress = TerminalProgress(int(verbose) - int(quiet))
    try:
        if dry_run:
            foreseen = preview(source, out, options, progress, existing)
            progress.warn(foreseen.warnings)
            _echo(foreseen, as_json)
            return
        ctx.meta["stopped"] = progress.stopped
        summary = pipeline.shard(source, out, options, progress, existing)
    finally:
        progress.close()
    _echo(summary, as_json)


def _shard_options(values: dict[str, Any]) -> "ShardOptions":
    from dataprep.options import ShardOptions

    check_finite(values)
    if values["val"] + values["test"] >= 1:
        raise click.UsageError("--val and --test together leave nothing to train on")
    _check_depth(values["depth_bits"], values["depth_range"])
    given = [option for option in ("--dask-address", "--dask-scheduler-file") if values[option[2:].replace("-", "_")]]
    if given and values["engine"] != "dask":
        raise click.UsageError(f"{given[0]} needs --engine dask")
    if len(given) > 1:
        raise click.UsageError("give --dask-address or --dask-scheduler-file, not both")
    if values["classes"] is not None:
        values["classes"] = class_names(values["classes"])
    return ShardOptions(**values)


def _check_depth(bits: int, limits: tuple[float, float] | None) -> None:
    if limits is None:
        return
    if not (0 < limits[1] - limits[0] < math.inf):
        raise click.UsageError("--depth-range needs two finite numbers, the lower one first")
    if bits != 16:
        raise click.UsageError("give --depth-bits or --depth-range, not both")


@main.command(short_help="Show what a set holds, or one record.")
@click.argument("path", type=PathType(path_type=Path, exists=True))
@click.option("--split", help="train, val or test.  [default: the first]")
@click.option("--row", type=click.IntRange(0), help="Show this row of the split.")
@click.option("--key", help="Show the record of this key.")
@click.option("--save", type=PathType(path_type=Path, dir_okay=False), help="Write the record's image to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def inspect(path: Path, split: str | None, row: int | None, key: str | None, save: Path | None, as_json: bool) -> None:
    """Show the schema, classes and counts of a set, or one record. PATH: a dataset folder or a MindRecord file.

    \b
    Example: dataprep inspect dataset/ --split val --row 3 --save row3.jpg
    """
    from dataprep.tools.inspect import inspect, read_key, read_row, save_image

    if row is not None and key is not None:
        raise click.UsageError("give --row or --key, not both")
    folder = path if path.is_dir() else path.parent
    if row is None and key is None:
        if save:
            raise click.UsageError("--save needs --row or --key")
        _echo(_settled(folder, lambda: inspect(path, split)), as_json)
        return
    record = _settled(
        folder,
        lambda: read_key(path, split, str(key)) if row is None else read_row(path, split, row),
    )
    if save:
        save_image(record, save)
        click.echo(f"{save} is written", err=True)
    _echo(record, as_json)


@main.command(short_help="Check that a set is what was sealed.")
@click.argument("out", type=SEALED)
@click.option("--quick/--full", help="Sizes, index digests and row counts only, or every byte.  [default: full]")
@click.option("--decode", is_flag=True, help="Have MindSpore decode every image too.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
def verify(out: Path, quick: bool, decode: bool, as_json: bool, quiet: bool) -> None:
    """Check a sealed set: sizes, sha256, index against data, row counts. Exit 1 when something is wrong.

    Damaged rows are named, by number and key.

    \b
    Example: dataprep verify dataset/
    """
    from dataprep.cli.terminal import TerminalSteps
    from dataprep.tools.verify import verify as verify_set

    with closing(TerminalSteps(quiet)) as steps:
        verdict = _settled(out, lambda: verify_set(out, full=not quick, decode=decode, tell=steps.tell))
    _echo(verdict, as_json)
    if verdict.problems:
        sys.exit(1)


@main.command(short_help="Restore or salvage a damaged set.")
@click.argument("out", type=SEALED)
@click.option("--salvage", type=FOLDER, metavar="NEW", help="Write the sound rows into a new set in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
def repair(out: Path, salvage: Path | None, as_json: bool, quiet: bool) -> None:
    """Restore names, lost indexes and row digests of a sealed set; or save its sound rows.

    Exit 1 when something is still wrong.

    \b
    Example: dataprep repair dataset/ --salvage saved/
    """
    from dataprep.cli.terminal import TerminalSteps
    from dataprep.tools.repair import repair as repair_set
    from dataprep.tools.salvage import salvage as salvage_set

    with closing(TerminalSteps(quiet)) as steps:
        if salvage:
            salvaged = _settled(out, lambda: salvage_set(out, salvage, steps.tell))
        else:
            repaired = _settled(out, lambda: repair_set(out, steps.tell))
    if salvage:
        _echo(salvaged, as_json)
        return
    _echo(repaired, as_json)
    if repaired.problems:
        sys.exit(1)


@main.command(short_help="Write one HTML page about a set.")
@click.argument("out", type=SEALED)
@click.option("--out", "page", type=PATH, metavar="FILE", help="Where to write the page.  [default: OUT/report.html]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
def report(out: Path, page: Path | None, as_json: bool, quiet: bool) -> None:
    """Show a sealed set as one HTML page: balance, sizes, pictures of each class, refused files, duplicates.

    It needs no network and opens from a file. Pictures are in it, so it is as private as they are.

    \b
    Example: dataprep report dataset/
    """
    from dataprep.cli.terminal import TerminalSteps
    from dataprep.report.contents import report as write_report

    with closing(TerminalSteps(quiet)) as steps:
        reported = _settled(out, lambda: write_report(out, page, steps.tell))
    _echo(reported, as_json)
