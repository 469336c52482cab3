"""`trainer run --dry-run`: what a run would do, on any machine and for any device, without MindSpore."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.beginning import check_beginning, unchecked
from trainer.config import RunConfig
from trainer.decision import table
from trainer.device import this_machine
from trainer.plan import RunPlan, plan_run
from trainer.resume import finished
from trainer.runfolder import holds_run, next_run_folder


@dataclass(frozen=True)
class Foreseen:
    """The plan of a run, the folder it would go to, whether that is complete, and what was not looked at."""

    plan: RunPlan
    out: Path
    complete: bool
    unchecked: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "config": dataclasses.asdict(self.plan.config),
            "decisions": [dataclasses.asdict(decision) for decision in self.plan.decisions],
            "calls": [str(call) for call in self.plan.effect.calls],
            "run": str(self.out),
            "unchecked": list(self.unchecked),
        }

    def text(self, width: int | None) -> str:
        """All of it, for a person; `width` is that of the terminal in columns, None for a file."""
        calls = "\n  ".join(str(call) for call in self.plan.effect.calls)
        return f"{table(self.plan.decisions, width)}\n\nMindSpore calls:\n  {calls}\n\n{self._outlook()}"

    def _outlook(self) -> str:
        if self.complete:
            return f"{self.out} is complete; nothing would be done"
        config, what = self.plan.config, "go on with" if holds_run(self.out) else "begin"
        would = f"would {what} {config.model} for {config.epochs} epochs on {self.plan.folder} in {self.out}"
        return f"{would}\nnot checked: {'; '.join(self.unchecked)}"


def foresee(config: RunConfig, home: Path) -> Foreseen:
    """What the run would do in the working directory `home`. Raises TrainerError and ContractError for one that cannot
    begin, as far as this can be told without MindSpore and the user's own model.
    """
    complete = finished(config) is not None
    # Another device is planned for on trust; only 'auto' must look.
    machine = this_machine("CPU" if config.device in ("Ascend", "CPU") else None)
    plan = plan_run(config, dataclasses.replace(machine, ascend=machine.ascend or config.device == "Ascend"))
    if not complete:
        check_beginning(plan, home)
    left = () if complete else tuple(unchecked(plan))
    return Foreseen(plan, next_run_folder(config.out, plan.folder), complete, left)
