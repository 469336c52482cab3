"""What a run folder tells of its run: what was asked, what was in effect, how it went, and what is missing and why.

Whatever lies there is read as it is: a run may be unfinished, of another version, or copied in part.
"""

import fcntl
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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

Line = dict[str, Any]
MAX_BYTES = 4 << 30  # of a file of a run


@dataclass(frozen=True)
class Missing:
    """Something that the run folder does not hold, or not whole, and what that means."""

    file: str
    why: str


@dataclass(frozen=True)
class Run:
    """All that is known of one run. `name` tells it apart from the others it is shown with.

    `options` is config.json; `epochs` and `steps` are the lines of metrics.jsonl and steps.jsonl in the order of the
    steps, each once; `result` is result.json, None while the run is not complete; `lost` is nonfinite.json.
    """

    folder: Path
    name: str
    options: Line
    starts: tuple[Start, ...]
    epochs: tuple[Line, ...]
    steps: tuple[Line, ...]
    result: Line | None
    lost: Line | None
    evaluations: tuple[Evaluation, ...]
    in_work: bool
    missing: tuple[Missing, ...]

    @property
    def decisions(self) -> dict[str, tuple[str, str, str]]:
        """Of each setting what was asked, what was in effect, and why, as the latest process had it."""
        latest = self.starts[-1].decisions if self.starts else ()
        return {one.setting: (one.asked, one.effect, one.why) for one in latest}

    @property
    def dataset_digest(self) -> str | None:
        """The identity of the data, None when the run folder does not tell."""
        if self.starts:
            return self.starts[-1].dataset_digest
        digest = (self.result or {}).get("dataset_digest")
        return digest if isinstance(digest, str) else None

    @property
    def steps_an_epoch(self) -> float | None:
        """Batches in an epoch, None before the first epoch is over."""
        step, epoch = (number(self.epochs[0].get(key)) if self.epochs else None for key in ("step", "epoch"))
        return step / epoch if step and epoch else None

    @property
    def state(self) -> str:
        """How the run stands, in a few words."""
        asked = number(self.options.get("epochs"))
        done = f"{len(self.epochs)} of {many(int(asked), 'epoch')}" if asked else many(len(self.epochs), "epoch")
        if self.result is not None:
            early = asked is not None and len(self.epochs) < asked and self.options.get("patience") is not None
            skipped = ", with many updates skipped" if self.result.get("warning") else ""
            return f"complete, ended early after {done}{skipped}" if early else f"complete{skipped}"
        if self.in_work:
            return f"in training, {done} done"
        return f"{'stopped: loss became NaN or infinite' if self.lost is not None else 'unfinished'}, {done} done"


def read_runs(folders: Sequence[Path]) -> tuple[Run, ...]:
    """Read run folders, each named by as much of its path as tells it apart. TrainerError for one that is none."""
    resolved = [folder.resolve() for folder in folders]
    twice = [folder for place, folder in enumerate(resolved) if folder in resolved[:place]]
    if twice:
        raise TrainerError(f"{twice[0]} is given twice; name each run once")
    return tuple(replace(read_run(one), name=name) for one, name in zip(resolved, short_names(resolved), strict=True))


def short_names(folders: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as it takes for all to differ."""
    for parts in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def read_run(folder: Path) -> Run:
    """Read one run folder; raises TrainerError when nothing of a run is in it."""
    if not any((folder / name).is_file() for name in (CONFIG, METRICS, STEPS, RESULT)):
        what = "holds no run" if folder.is_dir() else "is not a folder"
        raise (TrainerError if folder.exists() else WrongUsage)(f"{folder} {what}; give the --out of a 'trainer run'")
    notes: list[Missing] = []
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
        lost=_object(folder, NONFINITE, notes),
        evaluations=evaluations,
        in_work=_is_locked(folder),
        missing=(*_absent(folder), *notes),
    )


ABSENT = {
    CONFIG: "it was removed, so what was asked for is not known",
    STARTS: "the run was begun by a version that did not keep it, so what was in effect is not known",
    METRICS: "no epoch has come to its end yet, or it was removed: there are no curves by epoch",
    STEPS: "no step has been logged yet (--log-every), or it was removed: there are no curves by step",
}


def _absent(folder: Path) -> list[Missing]:
    return [Missing(name, why) for name, why in ABSENT.items() if not (folder / name).is_file()]


def _object(folder: Path, name: str, notes: list[Missing]) -> Line | None:
    try:
        found = json.loads(read_regular(folder / name, MAX_BYTES).decode(errors="replace"))
    except FileNotFoundError:
        return None
    except (OSError, ContractError, ValueError, RecursionError) as error:
        notes.append(Missing(name, f"it cannot be read ({error}), and counts as not there"))
        return None
    if isinstance(found, dict):
        return found
    notes.append(Missing(name, "it holds something else than a JSON object, and counts as not there"))
    return None


def _lines(folder: Path, name: str, notes: list[Missing]) -> list[Line]:
    try:
        lines = read_regular(folder / name, MAX_BYTES).decode(errors="replace").split("\n")
    except FileNotFoundError:
        return []
    except (OSError, ContractError) as error:
        notes.append(Missing(name, f"it cannot be read ({getattr(error, 'strerror', error)}), and counts as not there"))
        return []
    whole = [found for line in lines[:-1] if (found := _parsed(line)) is not None]
    # Behind the last line end is nothing, or the line that is being written, or was when the process was killed.
    if broken := len(lines) - 1 - len(whole):
        notes.append(Missing(name, f"{broken} of its {len(lines) - 1} lines are no JSON objects, and are left out"))
    return whole


def _parsed(line: str) -> Line | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _by_step(lines: list[Line]) -> tuple[Line, ...]:
    # A run that goes on does again, and writes again, what came after its last checkpoint.
    latest = {step: line for line in lines if (step := number(line.get("step"))) is not None}
    return tuple(latest[step] for step in sorted(latest))


def _starts(folder: Path, notes: list[Missing]) -> Iterator[Start]:
    for place, line in enumerate(_lines(folder, STARTS, notes), 1):
        try:
            yield Start.from_dict(line)
        except (TypeError, KeyError, ValueError, AttributeError):
            notes.append(Missing(STARTS, f"its line {place} has another form, and is left out"))


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
    """The value as a finite number, None when it is anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def series(lines: Sequence[Line], name: str, over: str = "step") -> Series:
    """The values under `name` over those under `over`; NaN where a line has no number there."""
    return Series(_column(lines, over), _column(lines, name))


def _column(lines: Sequence[Line], name: str) -> Floats:
    values = [number(line.get(name)) for line in lines]
    return np.array([math.nan if value is None else value for value in values], np.float64)
