"""What each process of a run began with: from which step, on which software, and what was in effect then."""

import contextlib
import importlib.metadata
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from schemas.regular_file import read_regular
from trainer.decision import Decision
from trainer.kernels import Begun
from trainer.runfolder import LAST, STARTS, append_line

MAX_BYTES = 1 << 30
PACKAGES = ("mindspore", "numpy", "mindspore-dataprep")


@dataclass(frozen=True)
class Start:
    """One process that began a run, or went on with it after step `step`; `at` is its clock, UTC, to the second.

    `dataset_digest` is the identity of the data, `software` names versions, `decisions` is the table that was printed.
    `instruction_set` is that of the CPU kernels in effect, empty in lines of before it was kept, and where another
    device computes.
    """

    step: int
    at: str
    dataset_digest: str
    software: dict[str, str] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    instruction_set: str = ""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Start":
        """Read the stored form; raises TypeError, KeyError, ValueError or AttributeError when it is something else."""
        return cls(
            step=int(values["step"]),
            at=str(values["at"]),
            dataset_digest=str(values["dataset_digest"]),
            software={str(name): str(version) for name, version in values["software"].items()},
            decisions=tuple(_decision(one) for one in values["decisions"]),
            instruction_set=str(values.get("instruction_set", "")),
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


def note_start(
    run: Path, step: int, dataset_digest: str, decisions: Sequence[Decision], instruction_set: str = ""
) -> None:
    """Append the line of this process to RUN/starts.jsonl: another machine may decide otherwise when a run goes on."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    start = Start(step, now, dataset_digest, software(), tuple(decisions), instruction_set)
    path, line = run / STARTS, asdict(start)
    for decision in line["decisions"]:
        del decision["notable"]  # how it is shown; all of them are stored
    append_line(path, json.dumps(line))


def begun_with(out: str | None) -> Begun | None:
    """What the run in the folder `out` computed its first steps with; None when there is no checkpoint to go on from.

    Of several processes that began at step 0 the last one made those steps. A damaged line counts as not kept.
    """
    if out is None or not ((Path(out) / LAST).exists() or any(Path(out).glob("step-*.ckpt"))):
        return None
    first = [start for start in _starts(Path(out) / STARTS) if start.step == 0]
    if not first:
        return Begun("", "")
    return Begun(first[-1].instruction_set, first[-1].software.get("mindspore", ""))


def _starts(path: Path) -> list[Start]:
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in read_regular(path, MAX_BYTES).decode(errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                found.append(Start.from_dict(json.loads(line)))
    return found
