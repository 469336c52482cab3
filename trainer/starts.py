"""What each process of a run began with: from which step, on which software, and what was in effect then."""

import importlib.metadata
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trainer.decision import Decision
from trainer.runfolder import STARTS, sync

PACKAGES = ("mindspore", "numpy", "mindspore-dataprep")


@dataclass(frozen=True)
class Start:
    """One process that began a run, or went on with it after step `step`; `at` is its clock, UTC, to the second.

    `dataset_digest` is the identity of the data, `software` names versions, `decisions` is the table that was printed.
    """

    step: int
    at: str
    dataset_digest: str
    software: dict[str, str] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Start":
        """Read the stored form; raises TypeError, KeyError, ValueError or AttributeError when it is something else."""
        return cls(
            step=int(values["step"]),
            at=str(values["at"]),
            dataset_digest=str(values["dataset_digest"]),
            software={str(name): str(version) for name, version in values["software"].items()},
            decisions=tuple(_decision(one) for one in values["decisions"]),
        )


def _decision(values: dict[str, Any]) -> Decision:
    setting, asked, effect, why = (str(values[key]) for key in ("setting", "asked", "effect", "why"))
    return Decision(setting, asked, effect, why)


def software() -> dict[str, str]:
    """The versions that decide what a run computes."""
    found = {"Python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # run from its sources
            continue
    return found


def note_start(run: Path, step: int, dataset_digest: str, decisions: Sequence[Decision]) -> None:
    """Append the line of this process to RUN/starts.jsonl: another machine may decide otherwise when a run goes on."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    start = Start(step, now, dataset_digest, software(), tuple(decisions))
    path, line = run / STARTS, asdict(start)
    for decision in line["decisions"]:
        del decision["notable"]  # how it is shown; all of them are stored
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    sync(path)
