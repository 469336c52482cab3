"""The refused files and the equal pictures of a set, as the page lists them."""

import json
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.dataset import Dataset
from schemas.layout import DUPLICATES, REJECTS
from schemas.page import shorten

LIST_BYTES = 1_800_000  # compressed
TRIED = 4  # files that are tried for each picture that is wanted: many refused files do not decode
SHOWN_LEAKS, SHOWN_CONFLICTS, SHOWN_OTHERS = 24, 12, 12


@dataclass
class Refused:
    """What was refused: `packed` is the list for the page (gzip), of `listed` files of `total`. `reasons` are numbered
    in it by their place here; `tried` has files by reason that may be shown, `by_label` counts those in class
    folders. `problems` says what could not be read.
    """

    total: int = 0
    listed: int = 0
    packed: bytes = b""
    reasons: list[str] = field(default_factory=list)
    by_label: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
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
    for reject in _lines(folder / REJECTS, {"key": str, "reason": str, "detail": str, "size": int}, refused.problems):
        refused.total += 1
        reason = reject["reason"]
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


def list_equal(folder: Path, problems: list[str]) -> list[Equal]:
    """The groups of duplicates.jsonl that the page shows: leaks first, then conflicts, then others. What cannot be read
    is told to `problems`.
    """
    kinds: tuple[list[Equal], ...] = [], [], []
    limits = SHOWN_LEAKS, SHOWN_CONFLICTS, SHOWN_OTHERS
    fields = {"kind": str, "keys": list, "splits": list, "classes": list, "leak": bool, "conflict": bool}
    for line in _lines(folder / DUPLICATES, fields, problems):
        rank = 0 if line["leak"] else 1 if line["conflict"] else 2
        if len(kinds[rank]) < limits[rank] and (equal := _equal(line)):
            kinds[rank].append(equal)
    return [equal for kind in kinds for equal in kind]


def _equal(line: dict[str, Any]) -> Equal | None:
    """The two rows that tell most; None where the line has no two."""
    rows = [tuple(map(str, row)) for row in zip(line["keys"], line["splits"], line["classes"], strict=False)]
    if line["leak"]:
        rows.sort(key=lambda row: row[1] != "train")
        others = [row for row in rows if row[1] != "train"]
    else:
        others = [row for row in rows[1:] if not line["conflict"] or row[2] != rows[0][2]]
    if not others:
        return None
    (key, split, name), (other_key, other_split, other_name) = rows[0], others[0]
    both = (key, split, name), (other_key, other_split, other_name)
    return Equal(line["kind"], line["leak"], line["conflict"], both, len(rows))


def _lines(path: Path, fields: Mapping[str, type], problems: list[str]) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines that have these fields, up to the first that has not."""
    number = 0
    try:
        with path.open("rb") as file:
            for text in file:
                number += 1
                line = json.loads(text)
                if not isinstance(line, dict) or any(type(line.get(name)) is not kind for name, kind in fields.items()):
                    raise ValueError
                yield line
    except OSError:
        problems.append(f"{path.name} is missing")
    except ValueError:
        problems.append(f"{path.name} is damaged in line {number}")
