"""The only place that knows devices: what is in effect on each, why, and the MindSpore calls that make it so.

`decide` is pure, so what happens on Ascend is tested on any machine. `apply` is thin: it makes the calls.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from trainer.config import RunConfig
from trainer.decision import Call, Decision, asked
from trainer.errors import TrainerError
from trainer.precision import Precision, decide_precision

GRAPH_MODE, PYNATIVE_MODE = 0, 1  # mindspore.GRAPH_MODE and PYNATIVE_MODE, here without the import
PREFETCH = 8  # rows or batches held ready by each operator: half of MindSpore's own, since batches are large


@dataclass(frozen=True)
class Machine:
    """The facts of a machine that decisions rest on. `cores` are those this process may run on.

    `rank` and `ranks` are those that msrun has given this process; `ranks` is None when msrun did not start it.
    """

    ascend: bool
    cores: int
    rank: int = 0
    ranks: int | None = None


@dataclass(frozen=True)
class InEffect:
    """All that a device decides about a run: values, the table that explains them, and the calls to make."""

    device: str
    graph: bool
    sink: bool
    workers: int
    precision: Precision
    decisions: tuple[Decision, ...]
    setup: tuple[Call, ...]
    train: Call
    num_shards: int = 1
    shard_id: int = 0

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call whose arguments the device decides, in the order in which they are made."""
        scaler = () if self.precision.scaler is None else (self.precision.scaler,)
        return (*self.setup, self.precision.amp, *scaler, self.train)


def this_machine(device: str | None) -> Machine:
    """Look at the machine; imports MindSpore, unless CPU was asked for and nothing hangs on an Ascend."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rank, ranks = _started_as()
    return Machine(ascend=device != "CPU" and _ascend_available(), cores=cores, rank=rank, ranks=ranks)


def _started_as() -> tuple[int, int | None]:
    if os.environ.get("MS_ROLE") != "MS_WORKER":
        return 0, None
    # Not RANK_ID: where msrun leaves the numbers to the cluster, that is 0 in each process (read in 2.10).
    if "MS_NODE_ID" not in os.environ:
        raise TrainerError("msrun has given this process no number; on several hosts give each msrun its --node_rank")
    return int(os.environ["MS_NODE_ID"]), int(os.environ["MS_WORKER_NUM"])


def serve_ranks() -> None:
    """Be msrun's scheduler, through which the ranks find each other, until they are done."""
    import mindspore

    mindspore.set_device("CPU")
    mindspore.communication.init()


def _ascend_available() -> bool:
    import mindspore

    return bool(mindspore.device_context.ascend.is_available())


def decide(config: RunConfig, machine: Machine) -> InEffect:
    """Everything that the device decides for this run; raises TrainerError when it cannot be served on `machine`."""
    device, device_why = _device(config.device, machine)
    graph = config.mode != "pynative"
    sink, sink_why = _sink(config.sink, device, graph)
    if config.profile_steps and sink:
        sink, sink_why = False, "--profile begins and ends at a step, and a sink hides the steps"
    kernel, kernel_why = _graph_kernel(config.graph_kernel, device, graph)
    ranks, ranks_why = _ranks(config.ranks, machine)
    workers, workers_why = _workers(config.workers, machine.cores, ranks)
    prefetch = PREFETCH if config.prefetch is None else config.prefetch
    precision = decide_precision(config, device)
    mode_why = "whole steps compiled" if graph else "one operator at a time, for debugging"
    return InEffect(
        device=device,
        graph=graph,
        sink=sink,
        workers=workers,
        precision=precision,
        decisions=(
            Decision("device", asked(config.device), device, device_why),
            Decision("mode", asked(config.mode), "graph" if graph else "pynative", mode_why),
            *precision.decisions,
            Decision("sink", asked(config.sink), asked(sink), sink_why),
            Decision("graph kernel", asked(config.graph_kernel or None), asked(kernel), kernel_why),
            Decision("ranks", asked(config.ranks), str(ranks), ranks_why),
            Decision("workers", asked(config.workers), str(workers), workers_why),
            Decision("prefetch", asked(config.prefetch), str(prefetch), "rows and batches held ready by each operator"),
        ),
        setup=_setup(device, graph, kernel, config.seed, workers, prefetch, ranks),
        train=Call("mindspore.train.Model.train", {"dataset_sink_mode": sink, "sink_size": -1}),
        num_shards=ranks,
        shard_id=machine.rank,
    )


def _device(device: str | None, machine: Machine) -> tuple[str, str]:
    if device == "Ascend" and not machine.ascend:
        raise TrainerError(
            "Ascend was asked for, but MindSpore finds none here: check 'npu-smi info' and that CANN's set_env.sh "
            "is sourced, or use --device CPU"
        )
    if device in ("Ascend", "CPU"):
        return device, "asked for"
    return ("Ascend", "found") if machine.ascend else ("CPU", "MindSpore finds no Ascend here")


def _sink(sink: bool | None, device: str, graph: bool) -> tuple[bool, str]:
    if device == "CPU":
        return False, "MindSpore cannot sink on CPU" + (" and would ignore the request silently" if sink else "")
    if sink is not None:
        return sink, "asked for"
    if not graph:
        return False, "in pynative mode each step is to be seen"
    return True, "the device fetches its own batches; loss and signals are seen once an epoch"


def _graph_kernel(wanted: bool, device: str, graph: bool) -> tuple[bool, str]:
    if not wanted:
        return False, "not asked for"
    if device == "CPU":
        return False, "needs Ascend; MindSpore's graph kernel fusion fails on CPU"
    return graph, "jit level O1" if graph else "needs graph mode"


def _ranks(ranks: int | None, machine: Machine) -> tuple[int, str]:
    if machine.ranks is None:
        return ranks or 1, "one process" if (ranks or 1) == 1 else "processes started by msrun, each with its slice"
    if ranks not in (None, machine.ranks):
        raise TrainerError(f"--ranks {ranks} was asked for, but msrun has started {machine.ranks}: leave --ranks out")
    return machine.ranks, "started by msrun"


def _workers(workers: int | None, cores: int, ranks: int) -> tuple[int, str]:
    if workers is None and ranks > 1:
        return max(1, cores // ranks), f"the {cores} cores shared by {ranks} ranks"
    if workers is None:
        return cores, "one a core"
    if workers > cores:
        return cores, f"more than the {cores} cores is an error in MindSpore, so it was lowered"
    return workers, "asked for"


def _setup(
    device: str, graph: bool, kernel: bool, seed: int, workers: int, prefetch: int, ranks: int
) -> tuple[Call, ...]:
    context: dict[str, object] = {"mode": GRAPH_MODE if graph else PYNATIVE_MODE}
    if kernel:
        context["jit_config"] = {"jit_level": "O1"}
    return (
        Call("mindspore.set_device", {"device_target": device}),
        Call("mindspore.set_context", context),
        *(_together() if ranks > 1 else ()),
        Call("mindspore.set_seed", {"seed": seed}),
        Call("mindspore.dataset.config.set_seed", {"seed": seed}),
        # Off, as an exact resume needs it: the pipeline then replays its random state from the start.
        Call("mindspore.dataset.config.set_fast_recovery", {"fast_recovery": False}),
        Call("mindspore.dataset.config.set_num_parallel_workers", {"num": workers}),
        Call("mindspore.dataset.config.set_prefetch_size", {"size": prefetch}),
    )


def _together() -> tuple[Call, ...]:
    parallel = {"parallel_mode": "data_parallel", "gradients_mean": True}
    return Call("mindspore.communication.init"), Call("mindspore.set_auto_parallel_context", parallel)


def apply(effect: InEffect) -> None:
    """Make the set-up calls, before any operator runs: set_device raises once one has."""
    for call in effect.setup:
        call.make()


@contextlib.contextmanager
def one_by_one(effect: InEffect) -> Iterator[None]:
    """Run operators one by one inside, whatever mode the run is in: nothing is compiled as a graph."""
    import mindspore

    mindspore.set_context(mode=PYNATIVE_MODE)
    try:
        yield
    finally:
        mindspore.set_context(mode=GRAPH_MODE if effect.graph else PYNATIVE_MODE)


def check_export(model_format: str, device: str) -> None:
    """Raise TrainerError when MindSpore does not write `model_format` on `device`."""
    if model_format == "air" and device != "Ascend":
        raise TrainerError(f"MindSpore writes AIR on Ascend only, and this is {device}: use --format mindir here")
