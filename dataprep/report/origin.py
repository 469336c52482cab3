"""How a set was made: the command, the source, and what the run log says, as far as .work is still there."""

import json
import shlex
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataprep.options import ShardOptions
from dataprep.plan import Plan
from schemas.dataset import Dataset
from schemas.layout import WORK

_FLAGS = {"follow_links"}


@dataclass(frozen=True)
class Origin:
    """Where a set comes from. `source` is None where .work did not come along; `started` and `sealed` are the last such
    lines of the run log, `command` makes the set again.
    """

    source: str | None
    command: str
    started: dict[str, Any] = field(default_factory=dict)
    sealed: dict[str, Any] = field(default_factory=dict)


def find_origin(folder: Path, dataset: Dataset, refused: Counter[int]) -> Origin:
    """What is known of how the set in `folder` was made. `refused` counts refused files by label."""
    source = None
    plan = folder / WORK / "plan.sqlite"
    if plan.is_file():
        with closing(Plan.open(plan)) as saved:
            source = saved.source
    events: dict[str, dict[str, Any]] = {}
    with suppress(OSError, ValueError, KeyError, TypeError), (folder / WORK / "run.jsonl").open("rb") as log:
        for line in map(json.loads, log):
            events[line["event"]] = line
    return Origin(source, _command(folder, source, dataset, refused), events.get("start", {}), events.get("sealed", {}))


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
