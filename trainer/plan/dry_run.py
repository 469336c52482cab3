"""`trainer run --dry-run`: plan a run for any machine and device, without MindSpore."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from schemas.counting import many
from trainer.config import RunConfig
from trainer.device.context import Machine, this_machine
from trainer.plan.preflight import check_start, unchecked
from trainer.plan.run_plan import RunPlan, plan_run
from trainer.runs.folder import contains_run, next_run_folder
from trainer.runs.history import start_settings
from trainer.runs.resume import finished


@dataclass(frozen=True)
class DryRun:
    """Result of a dry run: the plan, and the run folder `out`.

    `complete` is True if the run folder contains a complete run. `unchecked` lists the checks that were left out.
    `machine` is the planned machine. `note` names the cores and memory of the plan, and is empty if the plan is for
    this machine and its device.
    """

    plan: RunPlan
    out: Path
    complete: bool
    unchecked: tuple[str, ...]
    machine: Machine
    note: str

    def to_dict(self) -> dict[str, object]:
        """Return the dry run as JSON-compatible values."""
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
        """True if the run folder contains an unfinished run."""
        return not self.complete and contains_run(self.out)


def plan_dry_run(config: RunConfig, home: Path, cores: int | None = None, memory: int | None = None) -> DryRun:
    """Plan the run `config` for a machine with `cores` cores and `memory` bytes of free memory.

    None selects the value of this machine. User modules are looked up in `home`. Raises TrainerError or ContractError
    if a check that needs neither MindSpore nor user code fails.
    """
    complete = finished(config) is not None
    # A named device is assumed to be present; only "auto" looks for a device.
    machine = this_machine("CPU" if config.device in ("Ascend", "CPU") else None)
    machine = dataclasses.replace(
        machine,
        ascend=machine.ascend or config.device == "Ascend",
        cores=cores or machine.cores,
        host_cores=cores or machine.host_cores,
        memory=memory or machine.memory,
    )
    plan = plan_run(config, machine, start_settings(config.out), home)
    if not complete:
        check_start(plan)
    skipped = () if complete else tuple(unchecked(plan))
    note = _note(machine, cores, memory) if cores or memory or config.device == "Ascend" else ""
    return DryRun(plan, next_run_folder(config.out, plan.folder), complete, skipped, machine, note)


def _note(machine: Machine, cores: int | None, memory: int | None) -> str:
    free = "unknown" if machine.memory is None else f"{machine.memory / 2**30:.1f} GiB"
    parts = [many(machine.cores, "core") + ("" if cores else " (this machine's)")]
    parts.append(f"{free} of free memory" + ("" if memory else " (this machine's)"))
    advice = "" if cores and memory else "; set --plan-cores and --plan-memory for another machine"
    return f"planned for {' and '.join(parts)}{advice}"
