"""Table of training tasks by record kind."""

import importlib

from schemas.errors import ContractError
from trainer.nn.tasks.task import Task

# record kind -> module:object of the Task. The modules are imported at first use.
TASKS = {
    "classification": "trainer.nn.tasks.classification:TASK",
    "multilabel": "trainer.nn.tasks.multilabel:TASK",
}


def find_task(kind: str) -> Task:
    """Return the task of a record kind, without importing MindSpore. Raises ContractError if the kind has no task."""
    if kind not in TASKS:
        raise ContractError(f"records of kind '{kind}' cannot be trained on; supported kinds: {', '.join(TASKS)}")
    module, _, name = TASKS[kind].partition(":")
    task: Task = getattr(importlib.import_module(module), name)
    return task
