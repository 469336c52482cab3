"""What each process of a run began with: from which step, on which software, and what was in effect then."""

import contextlib
import importlib.metadata
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from schemas.storage.regular_file import read_regular
from trainer.decisions import Begun, Decision
from trainer.runs.folder import CONFIG, LAST, STARTS, append_line

Number = TypeVar("Number", int, float)

MAX_BYTES = 1 << 30
PACKAGES = ("mindspore", "numpy", "mindspore-dataprep")


@dataclass(frozen=True)
class Start:
    """One process that began a run, or went on with it after step `step`; `at` is its clock, UTC, to the second.

    `dataset_digest` is the identity of the data, `software` names versions, `decisions` is the table that was printed.
    `instruction_set` is that of the CPU kernels in effect, empty in lines of before it was kept, and where another
    device computes. `affinity` counts the cores that the process was allowed to run on, None where it was not kept.
    """

    step: int
    at: str
    dataset_digest: str
    software: dict[str, str] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    instruction_set: str = ""
    affinity: int | None = None

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
            affinity=None if values.get("affinity") is None else int(values["affinity"]),
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
    run: Path,
    step: int,
    dataset_digest: str,
    decisions: Sequence[Decision],
    instruction_set: str = "",
    affinity: int | None = None,
) -> None:
    """Append the line of this process to RUN/starts.jsonl: another machine may decide otherwise when a run goes on."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    start = Start(step, now, dataset_digest, software(), tuple(decisions), instruction_set, affinity)
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
    effects = {decision.setting: decision.effect for decision in first[-1].decisions}
    return Begun(
        level=first[-1].instruction_set,
        mindspore=first[-1].software.get("mindspore", ""),
        workers=_number(int, effects.get("workers")),
        ranks=_number(int, effects.get("ranks")),
        optimizer=effects.get("optimizer") or _recorded_optimizer(Path(out) / CONFIG),
        lr=_number(float, effects.get("peak lr")),
        weight_decay=_number(float, effects.get("weight decay")),
        affinity=first[-1].affinity,
    )


def _number(kind: Callable[[str], Number], text: str | None) -> Number | None:
    with contextlib.suppress(ValueError):
        return None if text is None else kind(text)
    return None


def _recorded_optimizer(path: Path) -> str | None:
    # Earlier versions had one default for all models: it is in config.json, and the table had no line for it.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        name = json.loads(path.read_text()).get("optimizer")
        return name if isinstance(name, str) else None
    return None


def _starts(path: Path) -> list[Start]:
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in read_regular(path, MAX_BYTES).decode(errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                found.append(Start.from_dict(json.loads(line)))
    return found
