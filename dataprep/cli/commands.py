"""The commands of `dataprep`. They call one function, print its result and choose the exit code.

Imports are inside the commands, so that --help is fast.
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
from dataprep.cli.source_options import source_options
from dataprep.storage.disk import disk_errors, uninterrupted
from schemas.command_line import PathType
from schemas.counting import many
from schemas.images.policy import Policy
from schemas.process.streams import print_result

if TYPE_CHECKING:
    from dataprep.options import ShardOptions

_T = TypeVar("_T")
FOLDER = PathType(path_type=Path, file_okay=False)
PATH = PathType(path_type=Path)
SEALED = PathType(path_type=Path, file_okay=False, exists=True, readable=False)
FILE = PathType(path_type=Path, dir_okay=False, exists=True)
JSON_HELP = "Print the result as one JSON object."


def _settled(folder: Path, work: Callable[[], _T]) -> _T:
    """Return the result of `work`.

    If a killed `shard` left an unfinished replacement in `folder`, finish it first.
    """
    from dataprep.job.swap import settle

    def whole() -> _T:
        settle(folder)
        return work()

    with disk_errors(folder):
        return uninterrupted(folder, whole)


def _echo(result: object, as_json: bool) -> None:
    from dataprep.cli.text import as_lines, as_object

    _print(json.dumps(as_object(result)) if as_json else "\n".join(as_lines(result)))


def _print(text: str) -> None:
    """Print a result. Exit with 1 if stdout cannot be written."""
    if not print_result(text):
        sys.exit(1)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mindspore-dataprep")
def main() -> None:
    """Turn folders of raw images into sealed MindRecord datasets for MindSpore.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the data was rejected,
    75 try again later, 130/143 interrupted (run the same command to resume).
    """


@main.command(short_help="Draw a small set of demo images.")
@click.argument("folder", type=FOLDER)
@click.option("--images", default=1200, show_default=True, help="Number of images.")
@click.option("--classes", type=click.IntRange(2, 10), default=6, show_default=True, help="Number of classes.")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
def sample(folder: Path, images: int, classes: int, seed: int) -> None:
    """Draw a small set of demo images into FOLDER, including a few broken and unusual files.

    \b
    Example: dataprep sample demo/raw
    """
    from dataprep.tools.sample import draw_sample

    drawn = draw_sample(folder, images, classes, seed)
    _print(
        f"{many(drawn.images, 'image')} of {many(len(drawn.classes), 'class', 'classes')} in {folder}: "
        f"{', '.join(drawn.classes)}\n"
        f"broken on purpose: {', '.join(drawn.broken)}\n"
        f"unusual on purpose: {', '.join(drawn.unusual)}"
    )


@main.command(short_help="Turn images into a sealed dataset.")
@click.argument("source", type=PathType(path_type=str))
@click.argument("out", type=PATH)
@source_options
@click.option("--seed", default=0, show_default=True, help="Random seed of the splits and the row order.")
@click.option("--shard-size", type=Size(),
              help="Approximate size of a shard.  [default: 512MiB, or 1/16 of the dataset if smaller]")
@click.option("--num-shards", type=click.IntRange(1), help="Number of train shards; replaces --shard-size.")
@click.option("--check", type=click.Choice(["decode", "header"]), default="decode", show_default=True,
              help="Check each image: decode it completely, or read only its header.")
@click.option("--prove", type=click.Choice(["decode", "rows", "off"]), default="decode", show_default=True,
              help="Check each shard with MindSpore: decode its images, only read its rows, or skip the check.")
@click.option("--warnings", type=click.Choice(["reject", "keep"]), default="reject", show_default=True,
              help="Damaged images that the decoder accepts with a warning: reject them, or keep and count them.")
@click.option("--image-format", type=click.Choice(["keep", "jpeg", "png"]), default="keep", show_default=True,
              help="Format of the stored images. keep: JPEG stays JPEG, every other format becomes PNG.")
@click.option("--quality", type=click.IntRange(1, 100), default=Policy.quality, show_default=True,
              help="JPEG quality for re-encoded images.")
@click.option("--resize", type=click.IntRange(1), metavar="SHORT_SIDE",
              help="Shrink images to this short side in pixels.")
@click.option("--icc", type=click.Choice(["ignore", "convert"]), default="ignore", show_default=True,
              help="Embedded colour profiles: ignore them, as MindSpore does, or convert the images to sRGB.")
@click.option("--animation", type=click.Choice(["first", "reject"]), default="first", show_default=True,
              help="Images with several frames or pages: use the first one, or reject the image.")
@click.option("--strip-metadata", is_flag=True,
              help="Remove EXIF (with GPS), XMP, text and comments from the images; pixels do not change.")
@click.option("--min-side", type=click.IntRange(1), default=1, show_default=True,
              help="Reject images whose short side has fewer pixels than this.")
@click.option("--max-aspect", type=click.FloatRange(1),
              help="Reject images whose long side exceeds this multiple of the short side.")
@click.option("--max-pixels", type=click.IntRange(1), default=Policy.max_pixels, show_default=True,
              help="Reject images with more pixels than this; only the header is read.")
@click.option("--max-bytes", type=Size(), default=f"{Policy.max_bytes >> 20}MiB", show_default=True,
              help="Reject files larger than this without reading them.")
@click.option("--depth-bits", type=click.IntRange(9, 16), default=16, show_default=True,
              help="Number of significant bits in 16-bit values; 12 for 12-bit cameras and scanners.")
@click.option("--depth-range", type=float, nargs=2, metavar="LOW HIGH",
              help="Map LOW to 0 and HIGH to 255 in images with 16-bit grey, 32-bit, signed or float pixels.")
@click.option("--ignore", multiple=True, metavar="PATTERN",
              help="Ignore files and folders that match this pattern, as in .gitignore. Repeatable.")
@click.option("--follow-links", is_flag=True, help="Follow symbolic links to folders.")
@click.option("--empty-classes", type=click.Choice(["warn", "error", "keep"]), default="warn", show_default=True,
              help="Action for class folders without images.")
@click.option("--duplicates", type=click.Choice(["report", "drop", "fail"]), default="report", show_default=True,
              help="Action for images in train that are also in val or test; drop removes the train copies.")
@click.option("--workers", type=WorkersType(), default="auto", show_default=True,
              help="Number of worker processes; auto: one per core, fewer if memory is short.")
@click.option("--scan-workers", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Number of threads that list files; use 16 for a network file system.")
@click.option("--engine", type=click.Choice(["process", "serial", "dask"]), default="process", show_default=True,
              help="process: worker processes; serial: this process; dask: a Dask cluster, by default a local one.")
@click.option("--dask-address", metavar="URL", help="Address of the Dask scheduler, as tcp://host:8786.")
@click.option("--dask-scheduler-file", type=PathType(path_type=Path, dir_okay=False), metavar="FILE",
              help="File to which the Dask scheduler wrote its address.")
@click.option("--max-rejects", type=BudgetType(), default="1%", show_default=True,
              help="Do not seal if more files than this number or percentage are rejected.")
@click.option("--max-class-loss", type=BudgetType(), default="20%", show_default=True,
              help="Do not seal if a class loses more files than this number or percentage.")
@click.option("--deadline", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True,
              help="Time limit in seconds to read a file, and in CPU seconds to decode an image.")
@click.option("--quarantine", type=FOLDER, help="Copy rejected files to this folder.")
@click.option("--retry-rejects", is_flag=True, help="Re-check rejected files after you have fixed them.")
@click.option("--dry-run", is_flag=True, help="Print the plan and write nothing.")
@click.option("--overwrite", is_flag=True, help="Replace the sealed dataset in OUT when the new one is complete.")
@click.option("--restart", is_flag=True, help="Delete the shards of the unfinished job in OUT and plan the job again.")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
@click.option("--config", type=FILE, is_eager=True, expose_value=False, callback=load_config,
              help="TOML file with option values. Command-line options override it; a repeated option replaces the "
                   "list in the file.")
@click.option("-v", "--verbose", is_flag=True, help="Report each shard and each rejected file.")
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and the result.")
@click.pass_context
def shard(
    ctx: click.Context, /, source: str, out: Path, dry_run: bool, overwrite: bool, restart: bool, retry_rejects: bool,
    as_json: bool, verbose: bool, quiet: bool, **values: Any,
) -> None:  # fmt: skip
    """Turn the images of SOURCE into a sealed MindRecord dataset in OUT.

    SOURCE is a folder or file of one of the layouts in docs/sources.md, such as class folders.

    If the job is killed, run the same command to resume it. The result is the same, byte for byte.

    \b
    Example: dataprep shard photos/ dataset/ --val 0.1 --workers 8
    """
    from dataprep import pipeline
    from dataprep.cli.terminal import TerminalProgress
    from dataprep.job.dry_run import preview
    from dataprep.job.existing_set import Existing
    from dataprep.storage.remote import source_path_of

    if retry_rejects and (overwrite or restart):
        raise click.UsageError(f"give --retry-rejects or {'--overwrite' if overwrite else '--restart'}, not both")
    existing = Existing(overwrite, restart, retry_rejects)
    options = _shard_options(values)
    progress = TerminalProgress(int(verbose) - int(quiet))
    try:
        if dry_run:
            planned = preview(source_path_of(source), out, options, progress, existing)
            progress.warn(planned.warnings)
            _echo(planned, as_json)
            return
        ctx.meta["stopped"] = progress.stopped
        summary = pipeline.shard(source_path_of(source), out, options, progress, existing)
    finally:
        progress.close()
    _echo(summary, as_json)


def _shard_options(values: dict[str, Any]) -> "ShardOptions":
    from dataprep.options import ShardOptions

    check_finite(values)
    if values["val"] + values["test"] >= 1:
        raise click.UsageError("--val and --test together leave no rows for train")
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
        raise click.UsageError("--depth-range needs two finite numbers, the smaller first")
    if bits != 16:
        raise click.UsageError("give --depth-bits or --depth-range, not both")


@main.command(short_help="Show the content of a dataset or one record.")
@click.argument("path", type=PathType(path_type=Path, exists=True))
@click.option("--split", help="Split: train, val or test.  [default: the first split]")
@click.option("--row", type=click.IntRange(0), help="Number of the row to show, from 0.")
@click.option("--key", help="Key of the record to show.")
@click.option("--save", type=PathType(path_type=Path, dir_okay=False), help="Write the record's image to this file.")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
def inspect(path: Path, split: str | None, row: int | None, key: str | None, save: Path | None, as_json: bool) -> None:
    """Show the schema, classes and counts of a dataset, or one record. PATH is a dataset folder or a MindRecord file.

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
        click.echo(f"wrote {save}", err=True)
    _echo(record, as_json)


@main.command(short_help="Check that a dataset is unchanged since it was sealed.")
@click.argument("out", type=SEALED)
@click.option("--quick/--full",
              help="quick: check sizes, index digests and row counts; full: check every byte.  [default: full]")
@click.option("--decode", is_flag=True, help="Also decode every image with MindSpore.")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
@click.option("-q", "--quiet", is_flag=True, help="Print only the result.")
def verify(out: Path, quick: bool, decode: bool, as_json: bool, quiet: bool) -> None:
    """Check a sealed dataset: sizes, sha256, index against data, row counts. Exit with 1 if there is a problem.

    Damaged rows are listed by number and key.

    \b
    Example: dataprep verify dataset/
    """
    from dataprep.cli.terminal import TerminalSteps
    from dataprep.tools.verify import verify as verify_set

    with closing(TerminalSteps(quiet)) as steps:
        verdict = _settled(out, lambda: verify_set(out, full=not quick, decode=decode, progress=steps.show))
    _echo(verdict, as_json)
    if verdict.problems:
        sys.exit(1)


@main.command(short_help="Restore or salvage a damaged dataset.")
@click.argument("out", type=SEALED)
@click.option("--salvage", type=FOLDER, metavar="NEW", help="Write the undamaged rows to a new dataset in this folder.")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
@click.option("-q", "--quiet", is_flag=True, help="Print only the result.")
def repair(out: Path, salvage: Path | None, as_json: bool, quiet: bool) -> None:
    """Restore file names, missing indexes and row digests of a sealed dataset, or salvage its undamaged rows.

    Exit with 1 if problems remain.

    \b
    Example: dataprep repair dataset/ --salvage saved/
    """
    from dataprep.cli.terminal import TerminalSteps
    from dataprep.tools.repair import repair as repair_set
    from dataprep.tools.salvage import salvage as salvage_set

    with closing(TerminalSteps(quiet)) as steps:
        if salvage:
            salvaged = _settled(out, lambda: salvage_set(out, salvage, steps.show))
        else:
            repaired = _settled(out, lambda: repair_set(out, steps.show))
    if salvage:
        _echo(salvaged, as_json)
        return
    _echo(repaired, as_json)
    if repaired.problems:
        sys.exit(1)


@main.command(short_help="Write one HTML page about a dataset.")
@click.argument("out", type=SEALED)
@click.option("--out", "page", type=PATH, metavar="FILE", help="File to write.  [default: OUT/report.html]")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
@click.option("-q", "--quiet", is_flag=True, help="Print only the result.")
def report(out: Path, page: Path | None, as_json: bool, quiet: bool) -> None:
    """Write one HTML page about a sealed dataset: classes, sizes, images, rejected files, duplicates.

    The page is one file and needs no network. It contains images of the dataset, so it is as private as they are.

    \b
    Example: dataprep report dataset/
    """
    from dataprep.cli.terminal import TerminalSteps
    from dataprep.report.page import report as write_report

    with closing(TerminalSteps(quiet)) as steps:
        reported = _settled(out, lambda: write_report(out, page, steps.show))
    _echo(reported, as_json)
