"""`trainer run --dry-run`: what a run would do, on any machine and for any device, without MindSpore."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.counting import many
from trainer.config import RunConfig
from trainer.device.context import Machine, this_machine
from trainer.plan.preflight import check_beginning, unchecked
from trainer.plan.run_plan import RunPlan, plan_run
from trainer.runs.folder import holds_run, next_run_folder
from trainer.runs.history import begun_with
from trainer.runs.resume import finished


@dataclass(frozen=True)
class DryRun:
    """The plan of a run, the folder it would go to, whether that is complete, and what was not looked at.

    `note` says for which cores and memory was planned, empty when they are those of this machine and so is the device.
    """

    plan: RunPlan
    out: Path
    complete: bool
    unchecked: tuple[str, ...]
    machine: Machine
    note: str

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "config": dataclasses.asdict(self.plan.config),
            "decisions": [dataclasses.asdict(decision) for decision in self.plan.decisions],
            "calls": [str(call) for call in self.plan.effect.calls],
            "run": str(self.out),
            "warnings": list(self.plan.warnings),
            "unchecked": list(self.unchecked),
            "planned_for": {"cores": self.machine.cores, "memory_bytes": self.machine.memory, "note": self.note},
        }

    @property
    def resumes(self) -> bool:
        """Return True if the folder holds an unfinished run."""
        return not self.complete and holds_run(self.out)


def foresee(config: RunConfig, home: Path, cores: int | None = None, memory: int | None = None) -> DryRun:
    """What the run would do in the working directory `home`, on a machine of so many cores and bytes of free memory
    (None: those of this one). Raises TrainerError and ContractError for one that cannot
    begin, as far as this can be told without MindSpore and the user's own model.
    """
    complete = finished(config) is not None
    # Another device is planned for on trust; only 'auto' must look.
    machine = this_machine("CPU" if config.device in ("Ascend", "CPU") else None)
    machine = dataclasses.replace(
        machine,
        ascend=machine.ascend or config.device == "Ascend",
        cores=cores or machine.cores,
        host_cores=cores or machine.host_cores,
        memory=memory or machine.memory,
    )
    plan = plan_run(config, machine, begun_with(config.out))
    if not complete:
        check_beginning(plan, home)
    left = () if complete else tuple(unchecked(plan))
    note = _note(machine, cores, memory) if cores or memory or config.device == "Ascend" else ""
    return DryRun(plan, next_run_folder(config.out, plan.folder), complete, left, machine, note)


def _note(machine: Machine, cores: int | None, memory: int | None) -> str:
    free = "unknown" if machine.memory is None else f"{machine.memory / 2**30:.1f} GiB"
    parts = [many(machine.cores, "core") + ("" if cores else " (this machine's)")]
    parts.append(f"{free} of free memory" + ("" if memory else " (this machine's)"))
    advice = "" if cores and memory else "; --plan-cores and --plan-memory take those of another"
    return f"planned for {' and '.join(parts)}{advice}"
