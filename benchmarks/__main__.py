"""Compare the two programs with plain alternatives; each figure is a ratio within one run.

    python -m benchmarks write --images FOLDER [--rounds 3] [--only NAME ...] [--json FILE]

FOLDER has class folders (make one with python -m benchmarks.images). Every way is a separate process, measured as a
whole, in interleaved rounds. Figures are medians, ratios are to the first way. stdout: versions, JSON lines, a table.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import damage, loop, read, rows, scan, start, write
from benchmarks.report import as_object, describe, extra_ratios, machine, save, table
from benchmarks.suite import Suite, measure

SUITES: dict[str, tuple[str, Callable[[argparse.Namespace, Path], Suite]]] = {
    "write": ("images to a set on disk, beside other formats and the physical limits", write.write_suite),
    "prove": ("what proving a set with MindSpore's decoder costs", write.prove_suite),
    "read": ("an epoch of training input, 224 pixels, beside other pipelines and settings", read.read_suite),
    "rows": ("time and memory to the first batch of large sets of tiny images", rows.rows_suite),
    "scan": ("large folders, and large plans", scan.scan_suite),
    "damage": ("check and salvage of a damaged set beside a sound one", damage.damage_suite),
    "start": ("how soon the programs answer, and what a worker takes", start.start_suite),
    "loop": ("training: the feed alone, the step alone, and both", loop.loop_suite),
}
WITHOUT_IMAGES = ("rows", "scan", "damage")


def arguments() -> argparse.ArgumentParser:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    suites = parser.add_subparsers(dest="suite", required=True)
    for name, (what, _) in SUITES.items():
        suite = suites.add_parser(name, help=what, description=what)
        if name not in WITHOUT_IMAGES:
            suite.add_argument("--images", type=Path, required=True, help="Folder of class folders.")
        suite.add_argument("--rounds", type=int, default=3, help="Median of so many.  [default: 3]")
        suite.add_argument("--only", nargs="+", default=[], metavar="NAME", help="Ways whose name has this in it.")
        suite.add_argument("--json", type=Path, metavar="FILE", help="Keep everything in this file too.")
        suite.add_argument("--scratch", type=Path, metavar="DIR", help="Where to work.  [default: the system's]")
        suite.add_argument("--list", action="store_true", help="Print the names of the ways and stop.")
        if name == "scan":
            suite.add_argument("--files", type=int, nargs="*", default=[100_000, 300_000, 1_000_000])
            suite.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000], help="Of plans.")
        if name == "damage":
            suite.add_argument("--rows", type=int, nargs="+", default=[16_000])
            suite.add_argument("--side", type=int, default=32, help="Of the images in pixels.  [default: 32]")
        if name == "rows":
            suite.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    return parser


def main() -> None:
    """Measure one suite and print the results."""
    asked = arguments().parse_args()
    images = asked.images.resolve() if "images" in asked else None
    if images is not None and not images.is_dir():
        sys.exit(f"--images {images} is not a folder")
    asked.images = images
    with tempfile.TemporaryDirectory(prefix="bench-", dir=asked.scratch) as work:
        suite = SUITES[asked.suite][1](asked, Path(work))
        if asked.list:
            print("\n".join(way.name for way in suite.ways))
            return
        before = machine() | (describe(images) if images else {})
        print(json.dumps({"suite": suite.name, **before}), flush=True)
        found = measure(suite, asked.rounds, asked.only, Path(work))
    if not found:
        sys.exit("no way was run")
    objects = [as_object(suite, row) for row in found]
    after = {"load_at_end": machine()["load"], **{k: round(v, 3) for k, v in extra_ratios(suite, found).items()}}
    print("\n".join(json.dumps(each) for each in [*objects, {"suite": suite.name, **after}]))
    print("\n" + "\n".join(table(suite, found)))
    print(*(f"{name}: {value:.2f}" for name, value in extra_ratios(suite, found).items()), sep="\n")
    if asked.json:
        save(asked.json, {"suite": suite.name, **before, **after, "rows": objects}, found)


if __name__ == "__main__":
    main()
