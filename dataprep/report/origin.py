"""How a set was made: the command, the source, and what the run log says, as far as .work is still there."""

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
from schemas.dataset import Dataset
from schemas.layout import PLAN, WORK

_FLAGS = {"follow_links"}


@dataclass(frozen=True)
class Origin:
    """Where a set comes from; `command` makes it again. `source` and what the run log says of the last run that worked
    on it are None or empty where .work did not come along: its `software` and `workers`, when it was `sealed` and on
    which `host`, and the `seconds` that it took.
    """

    source: str | None
    command: str
    software: dict[str, str] = field(default_factory=dict)
    workers: int = 0
    sealed: str = ""
    host: str = ""
    seconds: float = 0.0


def find_origin(folder: Path, dataset: Dataset, refused: Counter[int]) -> Origin:
    """What is known of how the set in `folder` was made. `refused` counts refused files by label."""
    source = _source(folder / WORK / PLAN)
    origin = Origin(source, _command(folder, source, dataset, refused))
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
    except (OSError, ValueError, KeyError, TypeError):  # a log that is gone or was cut tells nothing
        return origin


def _source(plan: Path) -> str | None:
    if not plan.is_file():
        return None
    try:
        with closing(Plan.open(plan)) as saved:
            return str(saved.source)
    except (DataprepError, sqlite3.Error, ValueError, KeyError, TypeError):
        return None


def _command(folder: Path, source: str | None, dataset: Dataset, refused: Counter[int]) -> str:
    """The command that makes this set again, quoted for a shell."""
    words = ["dataprep", "shard", source or "SOURCE", str(folder)]
    asked = dataset.plan.get("options", {})
    usual = ShardOptions().deciding()
    for name, value in asked.items():
        option = "--" + name.replace("_", "-")
        if value == usual.get(name):
            continue
        if name in _FLAGS:
            words += [option] if value else []
        elif name == "classes":
            words += [option, "CLASSES.txt"]
        elif name == "depth_range":
            words += [option, *map(str, value)]
        elif isinstance(value, list):
            words += [word for one in value for word in (option, str(one))]
        else:
            words += [option, str(value)]
    return shlex.join([*words, *_budgets(dataset, refused)])


def _budgets(dataset: Dataset, refused: Counter[int]) -> list[str]:
    """What the set needs that would not be sealed with the usual budgets: they change no byte, so are not noted."""
    usual, all_refused = ShardOptions(), sum(dataset.rejected.values())
    words = []
    if not usual.max_rejects.allows(all_refused, all_refused + dataset.written):
        words += ["--max-rejects", str(all_refused)]
    for label, count in refused.items():
        rows = sum(split.class_rows[label] for split in dataset.splits.values())
        if not usual.max_class_loss.allows(count, rows + count):
            return [*words, "--max-class-loss", "100%"]
    return words
