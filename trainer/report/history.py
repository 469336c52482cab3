"""Read a run folder: options, settings in effect, measurements, and what is missing.

A run may be unfinished, from another version, or partly copied.
"""

import fcntl
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from schemas.counting import many
from schemas.errors import ContractError
from schemas.storage.regular_file import read_regular
from trainer.errors import TrainerError, WrongUsage
from trainer.evaluation.details import Evaluation
from trainer.report.evaluated import read_evaluations
from trainer.report.series import Floats, Series
from trainer.runs.folder import CONFIG, METRICS, NONFINITE, RESULT, STARTS, STEPS
from trainer.runs.history import Start

Line = dict[str, object]
MAX_BYTES = 4 << 30  # most bytes that are read per file


@dataclass(frozen=True)
class Missing:
    """A file that is missing or damaged in the run folder, and the consequence (`why`)."""

    file: str
    why: str


@dataclass(frozen=True)
class Run:
    """The content of a run folder. `name` is unique among the runs of a page.

    `options` is config.json. `epochs` and `steps` are the lines of metrics.jsonl and steps.jsonl in the order of steps,
    without repetitions. `result` is result.json, or None if the run is not complete. `nonfinite` is nonfinite.json.
    """

    folder: Path
    name: str
    options: Line
    starts: tuple[Start, ...]
    epochs: tuple[Line, ...]
    steps: tuple[Line, ...]
    result: Line | None
    nonfinite: Line | None
    evaluations: tuple[Evaluation, ...]
    in_training: bool
    missing: tuple[Missing, ...]

    @property
    def decisions(self) -> dict[str, tuple[str, str, str]]:
        """Return (requested, in effect, why) of each setting, from the latest process."""
        latest = self.starts[-1].decisions if self.starts else ()
        return {one.setting: (one.asked, one.effect, one.why) for one in latest}

    @property
    def dataset_digest(self) -> str | None:
        """Return the digest of the dataset, or None if unknown."""
        if self.starts:
            return self.starts[-1].dataset_digest
        digest = (self.result or {}).get("dataset_digest")
        return digest if isinstance(digest, str) else None

    @property
    def steps_per_epoch(self) -> float | None:
        """Return the number of steps per epoch, or None before the first epoch is over."""
        step, epoch = (number(self.epochs[0].get(key)) if self.epochs else None for key in ("step", "epoch"))
        return step / epoch if step and epoch else None

    @property
    def state(self) -> str:
        """Return the state of the run in a few words."""
        planned = number(self.options.get("epochs"))
        done = f"{len(self.epochs)} of {many(int(planned), 'epoch')}" if planned else many(len(self.epochs), "epoch")
        if self.result is not None:
            early = planned is not None and len(self.epochs) < planned and self.options.get("patience") is not None
            skipped = ", with many updates skipped" if self.result.get("warning") else ""
            return f"complete, stopped early after {done}{skipped}" if early else f"complete{skipped}"
        if self.in_training:
            return f"in training, {done} done"
        return f"{'unfinished' if self.nonfinite is None else 'stopped: loss became NaN or infinite'}, {done} done"


def read_runs(folders: Sequence[Path]) -> tuple[Run, ...]:
    """Read run folders. The name of a run is the end of its path. Raises TrainerError if a folder has no run."""
    resolved = [folder.resolve() for folder in folders]
    twice = [folder for index, folder in enumerate(resolved) if folder in resolved[:index]]
    if twice:
        raise TrainerError(f"{twice[0]} is given twice; give each run once")
    return tuple(replace(read_run(one), name=name) for one, name in zip(resolved, short_names(resolved), strict=True))


def short_names(folders: Sequence[Path]) -> list[str]:
    """Return the last parts of each path, as many parts as needed for unique names."""
    for parts in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def read_run(folder: Path) -> Run:
    """Read a run folder. Raises TrainerError if the folder has no run."""
    if not any((folder / name).is_file() for name in (CONFIG, METRICS, STEPS, RESULT)):
        what = "has no run" if folder.is_dir() else "is not a folder"
        raise (TrainerError if folder.exists() else WrongUsage)(f"{folder} {what}; give the --out of a 'trainer run'")
    notes = [Missing(name, why) for name, why in ABSENT.items() if not (folder / name).is_file()]
    options, result = _object(folder, CONFIG, notes), _object(folder, RESULT, notes)
    epochs, steps = _by_step(_lines(folder, METRICS, notes)), _by_step(_lines(folder, STEPS, notes))
    starts = tuple(_starts(folder, notes))
    evaluations, unread = read_evaluations(folder)
    notes += [Missing(file, why) for file, why in unread]
    return Run(
        folder=folder,
        name=folder.name,
        options=options or {},
        starts=starts,
        epochs=epochs,
        steps=steps,
        result=result,
        nonfinite=_object(folder, NONFINITE, notes),
        evaluations=evaluations,
        in_training=_is_locked(folder),
        missing=tuple(notes),
    )


ABSENT = {
    CONFIG: "missing, so the requested settings are unknown",
    STARTS: "missing, as in runs of older versions, so the settings in effect are unknown",
    METRICS: "no epoch has ended yet, or the file was removed: no curves by epoch",
    STEPS: "no step has been logged yet (--log-every), or the file was removed: no curves by step",
}


def _object(folder: Path, name: str, notes: list[Missing]) -> Line | None:
    try:
        found = json.loads(read_regular(folder / name, MAX_BYTES).decode(errors="replace"))
    except FileNotFoundError:
        return None
    except (OSError, ContractError, ValueError, RecursionError) as error:
        notes.append(Missing(name, f"cannot be read ({error}), ignored"))
        return None
    if isinstance(found, dict):
        return found
    notes.append(Missing(name, "not a JSON object, ignored"))
    return None


def _lines(folder: Path, name: str, notes: list[Missing]) -> list[Line]:
    try:
        lines = read_regular(folder / name, MAX_BYTES).decode(errors="replace").split("\n")
    except FileNotFoundError:
        return []
    except (OSError, ContractError) as error:
        notes.append(Missing(name, f"cannot be read ({getattr(error, 'strerror', error)}), ignored"))
        return []
    parsed = [values for line in lines[:-1] if (values := _parsed(line)) is not None]
    # The text after the last line end is empty or an incomplete line: the process is still writing or was killed.
    if broken := len(lines) - 1 - len(parsed):
        notes.append(Missing(name, f"{broken} of its {len(lines) - 1} lines are not JSON objects, ignored"))
    return parsed


def _parsed(line: str) -> Line | None:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _by_step(lines: list[Line]) -> tuple[Line, ...]:
    # A resumed run repeats, and logs again, the steps after its last checkpoint.
    latest = {step: line for line in lines if (step := number(line.get("step"))) is not None}
    return tuple(latest[step] for step in sorted(latest))


def _starts(folder: Path, notes: list[Missing]) -> Iterator[Start]:
    for line_number, line in enumerate(_lines(folder, STARTS, notes), 1):
        try:
            yield Start.from_dict(line)
        except (TypeError, KeyError, ValueError, AttributeError):
            notes.append(Missing(STARTS, f"line {line_number} has an unknown form, ignored"))


def _is_locked(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def number(value: object) -> float | None:
    """Return the value if it is a finite number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def series(lines: Sequence[Line], name: str, over: str = "step") -> Series:
    """Return the values of `name` over the values of `over`, with NaN for a missing number."""
    return Series(_column(lines, over), _column(lines, name))


def _column(lines: Sequence[Line], name: str) -> Floats:
    values = [number(line.get(name)) for line in lines]
    return np.array([math.nan if value is None else value for value in values], np.float64)
