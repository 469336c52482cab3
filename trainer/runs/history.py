"""Start records of a run: first step, software versions and decisions of each process."""

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
from trainer.decisions import Decision, StartSettings
from trainer.runs.folder import CONFIG, LAST, STARTS, append_line, older_checkpoints

Number = TypeVar("Number", int, float)

MAX_BYTES = 1 << 30
PACKAGES = ("mindspore", "numpy", "mindspore-dataprep")


@dataclass(frozen=True)
class Start:
    """Record of a process that started a run (`step` 0) or resumed a run after `step`.

    `at` is the UTC time to the second. `software` maps packages to versions. `decisions` is the printed table of
    settings. `instruction_set` is the level of the CPU kernels, empty if not recorded or on another device. `affinity`
    is the number of cores in the affinity mask of the process, None if not recorded.
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
        """Parse a stored record. Raises TypeError, KeyError, ValueError or AttributeError if the record is invalid."""
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
    """Return the versions of the software that affects the results of a run."""
    versions = {"Python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # the program runs from its sources
            continue
    return versions


def append_start(
    run: Path,
    step: int,
    dataset_digest: str,
    decisions: Sequence[Decision],
    instruction_set: str = "",
    affinity: int | None = None,
) -> None:
    """Append the record of this process to RUN/starts.jsonl, because a resume may run on another machine."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    start = Start(step, now, dataset_digest, software(), tuple(decisions), instruction_set, affinity)
    path, line = run / STARTS, asdict(start)
    for decision in line["decisions"]:
        del decision["notable"]  # affects the display only
    append_line(path, json.dumps(line))


def start_settings(out: str | None) -> StartSettings | None:
    """Return the settings with which the run in `out` was started, or None if the run has no checkpoint.

    If several processes started at step 0, the settings of the last process are returned. Damaged records are ignored.
    """
    if out is None or not ((Path(out) / LAST).exists() or older_checkpoints(Path(out))):
        return None
    first = [start for start in _starts(Path(out) / STARTS) if start.step == 0]
    if not first:
        return StartSettings("", "")
    effects = {decision.setting: decision.effect for decision in first[-1].decisions}
    return StartSettings(
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
    # Earlier versions had one default optimizer for all models, recorded only in config.json.
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
