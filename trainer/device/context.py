"""The only place that knows devices: what is in effect on each, why, and the MindSpore calls that make it so.

`decide` is pure, so what happens on Ascend is tested on any machine. `apply` is thin: it makes the calls.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.counting import many
from schemas.process.host import allow_open_files, host_cores, max_open_files, usable_cores, usable_memory
from trainer.config import RunConfig
from trainer.decisions import Call, Decision, StartSettings, requested
from trainer.device.kernels import INEXACT, Kernels, Processor, decide_kernels, this_processor, use_kernels
from trainer.device.precision import Precision, decide_precision
from trainer.device.rank import WORKER, launched, role
from trainer.device.sink import decide_pipeline, decide_sink
from trainer.errors import TrainerError, WrongUsage
from trainer.feed.threads import Demand, Feed, decide_feed

GRAPH_MODE, PYNATIVE_MODE = 0, 1  # mindspore.GRAPH_MODE and PYNATIVE_MODE, here without the import
AUTOTUNE = "./autotune"  # where MindSpore writes its finding: it takes no bare name (measured on 2.10)
OP_THREADS = "mindspore.device_context.cpu.op_tuning.threads_num"
THREADS, PREFETCH = "mindspore.dataset.config.set_num_parallel_workers", "mindspore.dataset.config.set_prefetch_size"
CACHE = "MS_COMPILER_CACHE_ENABLE"  # set_context(enable_compile_cache=) is deprecated for it (read in 2.10)
AGAIN = ("mindspore.set_context", THREADS, PREFETCH)  # calls that MindSpore takes at any time


@dataclass(frozen=True)
class Machine:
    """The facts of a machine that decisions rest on. `cores` are those this process may run on; `memory` the bytes it
    may still take, None when nobody looked; `open_files` how many it may hold at most.
    `host_cores` are those of the whole host, None for as many as `cores`.

    `rank` and `ranks` are those that msrun has given this process; `ranks` is None when msrun did not start it.
    `compile_cache` is whether the environment asks MindSpore to keep compiled graphs. `affinity` counts the cores that
    the process is allowed to run on, whatever its share of them; None when nobody looked.
    """

    ascend: bool
    cores: int
    memory: int | None = None
    open_files: int = 1 << 20
    host_cores: int | None = None
    rank: int = 0
    ranks: int | None = None
    processor: Processor = field(default_factory=Processor)
    compile_cache: bool = False
    affinity: int | None = None


@dataclass(frozen=True)
class InEffect:
    """All that a device decides about a run: values, the table that explains them, and the calls to make.

    `seen` is after how many steps the program sees loss and signals; `kernels` is None where the CPU does not compute.
    `warnings` say why a resume cannot be exact.
    """

    device: str
    graph: bool
    sink: bool
    callback_steps: int
    workers: int
    prefetch: int
    precision: Precision
    decisions: tuple[Decision, ...]
    setup: tuple[Call, ...]
    train: Call
    num_shards: int = 1
    shard_id: int = 0
    readers: int = 1
    batchers: int = 1
    open_files: int = 0
    kernels: Kernels | None = None
    pipeline_per_epoch: bool = True
    warnings: tuple[str, ...] = ()
    affinity: int | None = None

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call whose arguments the device decides, in the order in which they are made."""
        scaler = () if self.precision.scaler is None else (self.precision.scaler,)
        return (*self.setup, self.precision.amp, *scaler, self.train)


def this_machine(device: str | None) -> Machine:
    """Look at the machine; imports MindSpore, unless CPU was requested and nothing hangs on an Ascend."""
    ascend = device != "CPU" and _ascend_available()
    rank, ranks = _started_as()
    cores, memory, files = usable_cores(), usable_memory(), max_open_files()
    cache = os.environ.get(CACHE) == "1"
    allowed = len(os.sched_getaffinity(0))
    return Machine(ascend, cores, memory, files, host_cores(), rank, ranks, this_processor(), cache, allowed)


def _started_as() -> tuple[int, int | None]:
    if role() != WORKER:
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


def decide(
    config: RunConfig, machine: Machine, steps: int = 0, demand: Demand | None = None, start: StartSettings | None = None
) -> InEffect:
    """Everything that the device decides for this run; raises TrainerError when it cannot be served on `machine`.

    `steps` are the batches of an epoch, 0 when nothing is trained. Without `demand` the pipeline is laid out for the
    cores alone. `start` is what a run that goes on used before.
    """
    device, device_why = _device(config.device, machine)
    graph = config.mode != "pynative"
    sink = decide_sink(config, device, graph, steps)
    per_epoch, fast_recovery, pipeline = decide_pipeline(config, sink.on)
    kernel, kernel_why = _graph_kernel(config.graph_kernel, device, graph)
    level, level_why = _jit_level(config, kernel, device, graph)
    ranks, ranks_why = _ranks(config.ranks, machine)
    # A resume that draws augmentation again need not keep its number of workers.
    feed = _feed(config, machine, ranks, demand, None if fast_recovery else start)
    precision = decide_precision(config, device)
    kernels = decide_kernels(machine.processor, start) if device == "CPU" else None
    mode_why = "whole steps compiled" if graph else "one operator at a time, for debugging"
    return InEffect(
        device=device,
        graph=graph,
        sink=sink.on,
        callback_steps=sink.callback_steps,
        workers=feed.workers,
        readers=feed.readers,
        batchers=feed.batchers,
        prefetch=feed.prefetch,
        open_files=feed.open_files,
        precision=precision,
        decisions=(
            Decision("device", requested(config.device), device, device_why, notable=True),
            Decision("mode", requested(config.mode), "graph" if graph else "pynative", mode_why),
            *(() if kernels is None else (kernels.decision,)),
            *_threads(device),
            *precision.decisions,
            *sink.decisions,
            *pipeline,
            Decision("graph kernel", requested(config.graph_kernel or None), requested(kernel), kernel_why),
            Decision("jit level", requested(config.jit_level), level or "default", level_why),
            *_of_ascend(device, graph, machine),
            Decision("ranks", requested(config.ranks), str(ranks), ranks_why),
            *_binding(config, ranks, machine),
            *feed.decisions,
            *_autotune(config.autotune),
        ),
        setup=_setup(device, graph, level, config, feed, ranks, fast_recovery),
        train=sink.call,
        num_shards=ranks,
        shard_id=machine.rank,
        kernels=kernels,
        pipeline_per_epoch=per_epoch,
        warnings=tuple(filter(None, (*_inexact(kernels, machine, start), feed.warning))),
        affinity=machine.affinity,
    )


def _feed(config: RunConfig, machine: Machine, ranks: int, demand: Demand | None, start: StartSettings | None) -> Feed:
    cores = max(1, machine.cores // ranks)  # the ranks of a host share it
    memory = None if machine.memory is None else machine.memory // ranks
    files, host = machine.open_files, machine.host_cores
    return decide_feed(config.workers, config.prefetch, cores, memory, files, demand, host, start)


def _inexact(kernels: Kernels | None, machine: Machine, start: StartSettings | None) -> tuple[str, ...]:
    """Return why the CPU's operators compute other bits than in the run that has start; nothing on another device."""
    if kernels is None:
        return ()
    before, now = None if start is None else start.affinity, machine.affinity
    if before is None or now is None or before == now:
        return (kernels.warning,)
    cores = f"this run began on {many(before, 'core')}, this process may run on {now}"
    return kernels.warning, f"{cores}; {INEXACT}, so use 'taskset' or a machine with as many where that matters"


def _device(device: str | None, machine: Machine) -> tuple[str, str]:
    if device == "Ascend" and not machine.ascend:
        raise TrainerError(
            "Ascend was requested, but MindSpore finds none here: check 'npu-smi info' and that CANN's set_env.sh "
            "is sourced, or use --device CPU"
        )
    if device in ("Ascend", "CPU"):
        return device, "requested"
    return ("Ascend", "found") if machine.ascend else ("CPU", "MindSpore finds no Ascend here")


def _threads(device: str) -> list[Decision]:
    why = "so that a run can be repeated and resumed to the last bit"
    return [Decision("operator threads", "default", "1", why)] if device == "CPU" else []


def _graph_kernel(wanted: bool, device: str, graph: bool) -> tuple[bool, str]:
    if not wanted:
        return False, "not requested"
    if device == "CPU":
        return False, "needs Ascend; MindSpore's graph kernel fusion fails on CPU"
    return graph, "jit level O1" if graph else "needs graph mode"


def _ranks(ranks: int | None, machine: Machine) -> tuple[int, str]:
    if machine.ranks is None:
        return ranks or 1, "one process" if (ranks or 1) == 1 else "processes started by msrun, each with its slice"
    if ranks not in (None, machine.ranks):
        raise TrainerError(f"--ranks {ranks} was requested, but msrun has started {machine.ranks}: leave --ranks out")
    return machine.ranks, "started by msrun"


def _jit_level(config: RunConfig, kernel: bool, device: str, graph: bool) -> tuple[str | None, str]:
    level = config.jit_level
    if config.graph_kernel and level not in (None, "O1"):
        raise TrainerError(f"--graph-kernel is jit level O1, but --jit-level {level} was given too; leave one out")
    if kernel:
        return "O1", "what fuses kernels"
    if device == "CPU":
        return None, "MindSpore's CPU back end compiles at one level only"
    if level is None:
        return None, "MindSpore's own choice by product; O0 and O1 launch kernel by kernel, O2 the whole graph"
    return (level, "requested") if graph else (None, "needs graph mode")


def _of_ascend(device: str, graph: bool, machine: Machine) -> list[Decision]:
    """What the program leaves to MindSpore on Ascend; read in the sources of 2.10."""
    if device != "Ascend":
        return []
    cache = "on" if machine.compile_cache and graph else "off"
    where = f"experimental; {CACHE}=1 and MS_COMPILER_CACHE_PATH=FOLDER in the environment keep compiled graphs"
    origin = "MindSpore's own: only the amp level lowers types"
    return [
        Decision("precision mode", "default", "must_keep_origin_dtype", origin),
        Decision("compile cache", requested(machine.compile_cache or None), cache, where),
    ]


def _binding(config: RunConfig, ranks: int, machine: Machine) -> list[Decision]:
    """Raise WrongUsage for --bind without processes that this program starts."""
    if config.bind is None:
        return []
    if ranks == 1 or (machine.ranks is not None and not launched()):
        raise WrongUsage(f"--bind {config.bind} binds the processes of --ranks; give --ranks, or bind with your msrun")
    return [Decision("bind", config.bind, config.bind, f"msrun --bind_{config.bind}=True")]


def _autotune(wanted: bool) -> tuple[Decision, ...]:
    why = "MindSpore tries other numbers while the run goes on; what it finds is for the next run"
    return (Decision("autotune", "on", "on", why),) if wanted else ()


def _setup(
    device: str, graph: bool, level: str | None, config: RunConfig, feed: Feed, ranks: int, fast_recovery: bool
) -> tuple[Call, ...]:
    context: dict[str, object] = {"mode": GRAPH_MODE if graph else PYNATIVE_MODE}
    if level is not None:
        context["jit_config"] = {"jit_level": level}
    tune = {"enable": True, "filepath_prefix": AUTOTUNE}
    # Left to itself MindSpore picks their number by timing, and with it the order of sums: the last bit varies.
    threads = [Call(OP_THREADS, {"num": 1})]
    return (
        Call("mindspore.set_device", {"device_target": device}),
        Call("mindspore.set_context", context),
        *(threads if device == "CPU" else ()),
        *(_together() if ranks > 1 else ()),
        Call("mindspore.set_seed", {"seed": config.seed}),
        Call("mindspore.dataset.config.set_seed", {"seed": config.seed}),
        # Off, a resumed pipeline replays its random state from its start; on, it skips to the step.
        Call("mindspore.dataset.config.set_fast_recovery", {"fast_recovery": fast_recovery}),
        Call(THREADS, {"num": feed.workers}),
        Call(PREFETCH, {"size": feed.prefetch}),
        *((Call("mindspore.dataset.config.set_enable_autotune", tune),) if config.autotune else ()),
    )


def _together() -> tuple[Call, ...]:
    parallel = {"parallel_mode": "data_parallel", "gradients_mean": True}
    return Call("mindspore.communication.init"), Call("mindspore.set_auto_parallel_context", parallel)


def apply(effect: InEffect) -> None:
    """Set the cap of CPU kernels, allow the open files and make the set-up calls, before any operator runs: set_device
    raises once one has.

    Raises TrainerError.
    """
    _check_numpy()
    if effect.kernels is not None:
        use_kernels(effect.kernels)
    allow_open_files(effect.open_files)
    for call in effect.setup:
        try:
            call.make()
        except RuntimeError as error:
            if call.name != OP_THREADS or "repeatedly" not in str(error):
                raise  # MindSpore takes that one once a process; a second run in it finds the number set


def switch(effect: InEffect) -> None:
    """Take up another setting of the same device between two measurements: the calls that may be made again."""
    for call in effect.setup:
        if call.name in AGAIN:
            call.make()


def _check_numpy() -> None:
    import numpy

    if int(numpy.__version__.split(".")[0]) > 1:
        raise TrainerError(
            f"NumPy {numpy.__version__} is installed, but MindSpore's binaries are built for NumPy 1 and some "
            "operators fail under 2: pip install 'numpy<2'"
        )


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
