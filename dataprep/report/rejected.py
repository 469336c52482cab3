"""Read the rejected files and the duplicates of a dataset for the page."""

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
CANDIDATES = 4  # files tried per picture: many rejected files do not decode
SHOWN_LEAKS, SHOWN_CONFLICTS, SHOWN_OTHERS = 24, 12, 12


@dataclass
class Rejected:
    """The rejected files.

    `packed` is the compressed list for the page (gzip), with `listed` of the `total` files. The list refers to
    `reasons` by index. `candidates` has files by reason to make pictures of. `by_label` counts those in class folders.
    `problems` names files that could not be read.
    """

    total: int = 0
    listed: int = 0
    packed: bytes = b""
    reasons: list[str] = field(default_factory=list)
    by_label: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    candidates: defaultdict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class DuplicateGroup:
    """A line of duplicates.jsonl: a group of `count` equal images, two of which are shown side by side."""

    kind: str
    leak: bool
    conflict: bool
    rows: tuple[tuple[str, str, str], tuple[str, str, str]]  # key, split, class
    count: int


def list_rejected(folder: Path, dataset: Dataset, pictures: int) -> Rejected:
    """Read rejects.jsonl line by line. Keep a seeded sample of CANDIDATES x `pictures` files per reason."""
    rejected = Rejected()
    labels = {name: label for label, name in enumerate(dataset.classes)}
    depth = 1 if dataset.plan.get("layout") == "splits" else 0
    counts, rng = Counter[str](), random.Random(0)
    packer, chunks, size = zlib.compressobj(9, zlib.DEFLATED, 31), [], 0
    for reject in _lines(folder / REJECTS, {"key": str, "reason": str, "detail": str, "size": int}, rejected.problems):
        rejected.total += 1
        reason = reject["reason"]
        if reason not in rejected.reasons:
            rejected.reasons.append(reason)
        counts[reason] += 1
        folders = reject["key"].split("/")[:-1]
        if len(folders) > depth and folders[depth] in labels:
            rejected.by_label[labels[folders[depth]]] += 1
        _keep(rejected.candidates[reason], reject, CANDIDATES * pictures, counts[reason], rng)
        if size < LIST_BYTES:
            rejected.listed += 1
            cells = rejected.reasons.index(reason), reject["size"], shorten(reject["key"]), shorten(reject["detail"])
            chunks.append(packer.compress("\t".join(map(str, cells)).encode() + b"\n"))
            size += len(chunks[-1])
    rejected.packed = b"".join([*chunks, packer.flush()])
    return rejected


def _keep(sample: list[dict[str, Any]], reject: dict[str, Any], limit: int, count: int, rng: random.Random) -> None:
    """Add the last of `count` rejects to a uniform sample of at most `limit`."""
    if len(sample) < limit:
        sample.append(reject)
    elif (index := rng.randrange(count)) < limit:
        sample[index] = reject


def list_duplicates(folder: Path, problems: list[str]) -> list[DuplicateGroup]:
    """Return the groups that the page shows: leaks, then conflicts, then others.

    Read errors are added to `problems`.
    """
    kinds: tuple[list[DuplicateGroup], ...] = [], [], []
    limits = SHOWN_LEAKS, SHOWN_CONFLICTS, SHOWN_OTHERS
    fields = {"kind": str, "keys": list, "splits": list, "classes": list, "leak": bool, "conflict": bool}
    for line in _lines(folder / DUPLICATES, fields, problems):
        rank = 0 if line["leak"] else 1 if line["conflict"] else 2
        if len(kinds[rank]) < limits[rank] and (group := _group(line)):
            kinds[rank].append(group)
    return [group for kind in kinds for group in kind]


def _group(line: dict[str, Any]) -> DuplicateGroup | None:
    """Return the group with the two rows that show its problem best; None if it has fewer than two."""
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
    return DuplicateGroup(line["kind"], line["leak"], line["conflict"], both, len(rows))


def _lines(path: Path, fields: Mapping[str, type], problems: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file. Stop at the first object without these fields."""
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
