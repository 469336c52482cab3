"""Find the origin of a dataset: its command, source and run log, if .work still exists."""

import json
import shlex
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dataprep.errors import DataprepError
from dataprep.options import ShardOptions
from dataprep.plan.store import Plan
from dataprep.storage.remote import address_of
from schemas.dataset import Dataset
from schemas.layout import PLAN, WORK

_FLAGS = {"follow_links"}


@dataclass(frozen=True)
class Origin:
    """The origin of a dataset.

    `command` builds it again. The other fields come from .work and are None or empty if it is missing. `source` is
    SOURCE. `software`, `workers`, `sealed` (time), `host` and `seconds` are those of the last run.
    """

    source: str | None
    command: str
    software: dict[str, str] = field(default_factory=dict)
    workers: int = 0
    sealed: str = ""
    host: str = ""
    seconds: float = 0.0


def find_origin(folder: Path, dataset: Dataset, rejected: Counter[int]) -> Origin:
    """Return the origin of the dataset in `folder`. `rejected` counts rejected files by label."""
    source = _source(folder / WORK / PLAN)
    origin = Origin(source, _command(folder, source, dataset, rejected))
    events: dict[str, dict[str, Any]] = {}
    try:
        with (folder / WORK / "run.jsonl").open("rb") as log:
            for line in map(json.loads, log):
                events[line["event"]] = line
        start, sealed = events.get("start", {}), events["sealed"]
        return replace(
            origin,
            software={str(name): str(version) for name, version in dict(start.get("software", {})).items()},
            workers=int(start.get("workers", 0)),
            sealed=str(sealed["time"]),
            host=str(sealed["host"]),
            seconds=float(sealed["seconds"]),
        )
    except (OSError, ValueError, KeyError, TypeError):  # the log is missing or truncated
        return origin


def _source(plan: Path) -> str | None:
    if not plan.is_file():
        return None
    try:
        with closing(Plan.open(plan)) as saved:
            return str(saved.source)
    except (DataprepError, sqlite3.Error, ValueError, KeyError, TypeError):
        return None


def _command(folder: Path, source: str | None, dataset: Dataset, rejected: Counter[int]) -> str:
    """Return the command that builds this dataset again, quoted for a shell."""
    words = ["dataprep", "shard", address_of(source) if source else "SOURCE", str(folder)]
    defaults = ShardOptions().deciding()
    for name, value in dataset.plan.get("options", {}).items():
        option = "--" + name.replace("_", "-")
        if value == defaults.get(name):
            continue
        if name in _FLAGS:
            words += [option] if value else []
        elif name == "split_file":
            words += [option, str(value).rpartition(" ")[0]]
        elif name == "classes":
            words += [option, "CLASSES.txt"]
        elif name == "depth_range":
            words += [option, *map(str, value)]
        elif isinstance(value, list):
            words += [word for element in value for word in (option, str(element))]
        else:
            words += [option, str(value)]
    return shlex.join([*words, *_budgets(dataset, rejected)])


def _budgets(dataset: Dataset, rejected: Counter[int]) -> list[str]:
    """Return the reject limits that are needed because the defaults are too low.

    dataset.json does not contain them, because they change no byte.
    """
    defaults, total = ShardOptions(), sum(dataset.rejected.values())
    words = []
    if not defaults.max_rejects.allows(total, total + dataset.written):
        words += ["--max-rejects", str(total)]
    for label, count in rejected.items():
        rows = sum(split.class_rows[label] for split in dataset.splits.values())
        if not defaults.max_class_loss.allows(count, rows + count):
            return [*words, "--max-class-loss", "100%"]
    return words
