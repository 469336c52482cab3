"""The refused files and the equal pictures of a set, as the page lists them."""

import json
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataprep.report.page import shorten
from schemas.dataset import Dataset
from schemas.layout import DUPLICATES, REJECTS

LIST_BYTES = 1_800_000  # compressed
TRIED = 4  # files that are tried for each picture that is wanted: many refused files do not decode
SHOWN_LEAKS, SHOWN_CONFLICTS, SHOWN_OTHERS = 24, 12, 12


@dataclass
class Refused:
    """What was refused: `packed` is the list for the page (gzip), of `listed` files of `total`. `reasons` are numbered
    in it by their place here; `tried` has files by reason that may be shown, `by_label` counts those in class folders.
    """

    total: int = 0
    listed: int = 0
    packed: bytes = b""
    reasons: list[str] = field(default_factory=list)
    by_label: Counter[int] = field(default_factory=Counter)
    tried: defaultdict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class Equal:
    """A group of equal pictures: a line of duplicates.jsonl, and the two rows of it that are put side by side."""

    kind: str
    leak: bool
    conflict: bool
    rows: tuple[tuple[str, str, str], tuple[str, str, str]]  # key, split, class
    count: int


def list_refused(folder: Path, dataset: Dataset, pictures: int) -> Refused:
    """Read rejects.jsonl of a sealed set, a line at a time. For each reason up to TRIED x `pictures` files are
    kept to be tried, a seeded choice of all.
    """
    refused = Refused()
    labels = {name: label for label, name in enumerate(dataset.classes)}
    depth = 1 if dataset.plan.get("layout") == "splits" else 0
    seen, chance = Counter[str](), random.Random(0)
    packer, parts, size = zlib.compressobj(9, zlib.DEFLATED, 31), [], 0
    for reject in _lines(folder / REJECTS):
        refused.total += 1
        reason = str(reject["reason"])
        if reason not in refused.reasons:
            refused.reasons.append(reason)
        seen[reason] += 1
        folders = reject["key"].split("/")[:-1]
        if len(folders) > depth and folders[depth] in labels:
            refused.by_label[labels[folders[depth]]] += 1
        _keep(refused.tried[reason], reject, TRIED * pictures, seen[reason], chance)
        if size < LIST_BYTES:
            refused.listed += 1
            cells = refused.reasons.index(reason), reject["size"], shorten(reject["key"]), shorten(reject["detail"])
            parts.append(packer.compress("\t".join(map(str, cells)).encode() + b"\n"))
            size += len(parts[-1])
    refused.packed = b"".join([*parts, packer.flush()])
    return refused


def _keep(kept: list[dict[str, Any]], reject: dict[str, Any], limit: int, seen: int, chance: random.Random) -> None:
    """Keep a fair choice of up to `limit` of the `seen` rejects of a reason, this one the last of them."""
    if len(kept) < limit:
        kept.append(reject)
    elif (place := chance.randrange(seen)) < limit:
        kept[place] = reject


def list_equal(folder: Path) -> list[Equal]:
    """The groups of duplicates.jsonl that the page shows: leaks first, then conflicts, then others."""
    kinds: tuple[list[Equal], ...] = [], [], []
    limits = SHOWN_LEAKS, SHOWN_CONFLICTS, SHOWN_OTHERS
    for line in _lines(folder / DUPLICATES):
        rank = 0 if line["leak"] else 1 if line["conflict"] else 2
        if len(kinds[rank]) < limits[rank]:
            kinds[rank].append(_equal(line))
    return [equal for kind in kinds for equal in kind]


def _equal(line: dict[str, Any]) -> Equal:
    rows = list(zip(line["keys"], line["splits"], line["classes"], strict=True))
    first = rows[0]
    if line["leak"]:
        first = next(row for row in rows if row[1] == "train")
        second = next(row for row in rows if row[1] != "train")
    elif line["conflict"]:
        second = next(row for row in rows if row[2] != first[2])
    else:
        second = rows[1]
    return Equal(line["kind"], line["leak"], line["conflict"], (first, second), len(rows))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; none where it is missing."""
    try:
        with path.open("rb") as file:
            yield from map(json.loads, file)
    except FileNotFoundError:
        return
