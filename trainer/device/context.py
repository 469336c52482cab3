"""Device settings: the values in effect, the reason for each value, and the MindSpore calls that set the values.

`decide` has no side effects, so decisions for Ascend can be tested on any machine. `apply` makes the MindSpore calls.
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
from trainer.device.rank import WORKER, count, launched, local_count, number, role
from trainer.device.sink import decide_pipeline, decide_sink
from trainer.errors import TrainerError, WrongUsage
from trainer.feed.threads import Demand, Feed, decide_feed

GRAPH_MODE, PYNATIVE_MODE = 0, 1  # equal to mindspore.GRAPH_MODE and PYNATIVE_MODE, without the import
AUTOTUNE = "./autotune"  # path prefix of AutoTune's result; a name without ./ fails (2.10)
OP_THREADS = "mindspore.device_context.cpu.op_tuning.threads_num"
THREADS, PREFETCH = "mindspore.dataset.config.set_num_parallel_workers", "mindspore.dataset.config.set_prefetch_size"
CACHE = "MS_COMPILER_CACHE_ENABLE"  # environment variable, replaces set_context(enable_compile_cache=) (2.10)
REPEATABLE = ("mindspore.set_context", THREADS, PREFETCH)  # calls that MindSpore allows repeatedly


@dataclass(frozen=True)
class Machine:
    """Properties of a machine that affect decisions.

    `cores` is the number of cores that this process may use, `host_cores` the number of cores of the host (None if
    equal). `affinity` is the number of cores in the affinity mask, regardless of a CPU quota. `memory` is the free
    memory in bytes, `open_files` the limit of open files. msrun sets `rank` and `ranks`; `ranks` is None without msrun.
    `local_ranks` is the number of ranks on this host, None if the launcher has not set it. `compile_cache` is True if
    the environment enables MindSpore's compile cache. In other fields, None means unknown.
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
    local_ranks: int | None = None


@dataclass(frozen=True)
class InEffect:
    """Device settings of a run: values, the decisions that explain the values, and the MindSpore calls.

    Loss and signals are checked every `callback_steps` steps. `kernels` is None unless the device is the CPU.
    `warnings` lists the reasons why a resume cannot be exact.
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
        """All MindSpore calls that depend on the device, in order."""
        scaler = () if self.precision.scaler is None else (self.precision.scaler,)
        return (*self.setup, self.precision.amp, *scaler, self.train)


def this_machine(device: str | None) -> Machine:
    """Return the properties of this machine. MindSpore is imported to look for Ascend, unless `device` is CPU."""
    ascend = device != "CPU" and _ascend_available()
    rank, ranks = _rank_of_msrun()
    cores, memory, files = usable_cores(), usable_memory(), max_open_files()
    cache = os.environ.get(CACHE) == "1"
    allowed = len(os.sched_getaffinity(0))
    local = local_count()
    return Machine(ascend, cores, memory, files, host_cores(), rank, ranks, this_processor(), cache, allowed, local)


def _rank_of_msrun() -> tuple[int, int | None]:
    if role() != WORKER:
        return 0, None
    # RANK_ID is not used, because RANK_ID is 0 in every process if the cluster assigns the ranks (2.10).
    if "MS_NODE_ID" not in os.environ:
        raise TrainerError("msrun has not set MS_NODE_ID; on several hosts, give each msrun its --node_rank")
    return number(), count()


def serve_ranks() -> None:
    """Run msrun's scheduler, which connects the ranks, until all ranks have finished."""
    import mindspore

    mindspore.set_device("CPU")
    mindspore.communication.init()


def _ascend_available() -> bool:
    import mindspore

    return bool(mindspore.device_context.ascend.is_available())


def decide(
    config: RunConfig,
    machine: Machine,
    steps: int = 0,
    demand: Demand | None = None,
    start: StartSettings | None = None,
) -> InEffect:
    """Return the device settings of the run `config` on `machine`.

    `steps` is the number of batches per epoch, 0 if nothing is trained. Without `demand`, thread counts depend only on
    the cores. `start` has the settings of a run to resume. Raises TrainerError if `machine` cannot run `config`.
    """
    device, device_why = _device(config.device, machine)
    graph = config.mode != "pynative"
    sink = decide_sink(config, device, graph, steps)
    per_epoch, fast_recovery, pipeline = decide_pipeline(config, sink.on)
    kernel, kernel_why = _graph_kernel(config.graph_kernel, device, graph)
    level, level_why = _jit_level(config, kernel, device, graph)
    ranks, ranks_why = _ranks(config.ranks, machine)
    # A resume that redraws augmentation may change the number of workers.
    feed = _feed(config, machine, ranks, demand, None if fast_recovery else start)
    precision = decide_precision(config, device)
    kernels = decide_kernels(machine.processor, start) if device == "CPU" else None
    mode_why = "compiles whole steps" if graph else "runs one operator at a time, for debugging"
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
    local = machine.local_ranks or ranks  # ranks of a host share its cores
    cores = max(1, machine.cores // local)
    memory = None if machine.memory is None else machine.memory // local
    files, host = machine.open_files, machine.host_cores
    if start is not None and start.ranks not in (None, ranks):
        start = None  # another number of ranks redraws augmentation, so the number of workers may change
    return decide_feed(config.workers, config.prefetch, cores, memory, files, demand, host, start)


def _inexact(kernels: Kernels | None, machine: Machine, start: StartSettings | None) -> tuple[str, ...]:
    """Return warnings if CPU results may differ in the last bits from those of an uninterrupted run."""
    if kernels is None:
        return ()
    before, now = None if start is None else start.affinity, machine.affinity
    if before is None or now is None or before == now:
        return (kernels.warning,)
    cores = f"this run was started on {many(before, 'core')}, this process may use {now}"
    return kernels.warning, f"{cores}; {INEXACT}; use 'taskset' or a machine with as many cores if that matters"


def _device(device: str | None, machine: Machine) -> tuple[str, str]:
    if device == "Ascend" and not machine.ascend:
        raise TrainerError(
            "Ascend was requested, but MindSpore finds no Ascend: check 'npu-smi info' and that CANN's set_env.sh "
            "is sourced, or use --device CPU"
        )
    if device in ("Ascend", "CPU"):
        return device, "requested"
    return ("Ascend", "found") if machine.ascend else ("CPU", "MindSpore finds no Ascend")


def _threads(device: str) -> list[Decision]:
    why = "makes runs repeatable and resumable bit by bit"
    return [Decision("operator threads", "default", "1", why)] if device == "CPU" else []


def _graph_kernel(enabled: bool, device: str, graph: bool) -> tuple[bool, str]:
    if not enabled:
        return False, "not requested"
    if device == "CPU":
        return False, "needs Ascend; MindSpore's graph kernel fusion fails on CPU"
    return graph, "jit level O1" if graph else "needs graph mode"


def _ranks(ranks: int | None, machine: Machine) -> tuple[int, str]:
    if machine.ranks is None:
        return ranks or 1, "one process" if (ranks or 1) == 1 else "started by msrun; each rank reads its own rows"
    if ranks not in (None, machine.ranks):
        raise TrainerError(f"--ranks {ranks} was requested, but msrun has started {machine.ranks} ranks; omit --ranks")
    return machine.ranks, "started by msrun"


def _jit_level(config: RunConfig, kernel: bool, device: str, graph: bool) -> tuple[str | None, str]:
    level = config.jit_level
    if config.graph_kernel and level not in (None, "O1"):
        raise TrainerError(f"--graph-kernel is jit level O1, but --jit-level {level} was given too; omit one option")
    if kernel:
        return "O1", "needed for graph kernel fusion"
    if device == "CPU":
        return None, "MindSpore's CPU back end has one level only"
    if level is None:
        return None, "chosen by MindSpore per product; O0 and O1 launch single kernels, O2 launches the whole graph"
    return (level, "requested") if graph else (None, "needs graph mode")


def _of_ascend(device: str, graph: bool, machine: Machine) -> list[Decision]:
    """Return the Ascend settings that keep MindSpore's defaults (read in the sources of 2.10)."""
    if device != "Ascend":
        return []
    cache = "on" if machine.compile_cache and graph else "off"
    how = f"experimental; {CACHE}=1 and MS_COMPILER_CACHE_PATH=FOLDER in the environment store compiled graphs"
    origin = "MindSpore's default; only the amp level lowers the precision"
    return [
        Decision("precision mode", "default", "must_keep_origin_dtype", origin),
        Decision("compile cache", requested(machine.compile_cache or None), cache, how),
    ]


def _binding(config: RunConfig, ranks: int, machine: Machine) -> list[Decision]:
    """Return the decision on --bind. Raises WrongUsage if another program starts the processes of the ranks."""
    if config.bind is None:
        return []
    if ranks == 1 or (machine.ranks is not None and not launched()):
        raise WrongUsage(f"--bind {config.bind} binds the processes of --ranks; give --ranks, or let msrun bind them")
    return [Decision("bind", config.bind, config.bind, f"msrun --bind_{config.bind}=True")]


def _autotune(enabled: bool) -> tuple[Decision, ...]:
    why = "MindSpore tries other numbers during the run; the result is for the next run"
    return (Decision("autotune", "on", "on", why),) if enabled else ()


def _setup(
    device: str, graph: bool, level: str | None, config: RunConfig, feed: Feed, ranks: int, fast_recovery: bool
) -> tuple[Call, ...]:
    context: dict[str, object] = {"mode": GRAPH_MODE if graph else PYNATIVE_MODE}
    if level is not None:
        context["jit_config"] = {"jit_level": level}
    tune = {"enable": True, "filepath_prefix": AUTOTUNE}
    # MindSpore's default number of threads depends on timing. The number changes the order of sums and the last bits.
    threads = [Call(OP_THREADS, {"num": 1})]
    return (
        Call("mindspore.set_device", {"device_target": device}),
        Call("mindspore.set_context", context),
        *(threads if device == "CPU" else ()),
        *(_communication() if ranks > 1 else ()),
        Call("mindspore.set_seed", {"seed": config.seed}),
        Call("mindspore.dataset.config.set_seed", {"seed": config.seed}),
        # If False, a resumed pipeline replays its random state from the start. If True, the pipeline skips to the step.
        Call("mindspore.dataset.config.set_fast_recovery", {"fast_recovery": fast_recovery}),
        Call(THREADS, {"num": feed.workers}),
        Call(PREFETCH, {"size": feed.prefetch}),
        *((Call("mindspore.dataset.config.set_enable_autotune", tune),) if config.autotune else ()),
    )


def _communication() -> tuple[Call, ...]:
    parallel = {"parallel_mode": "data_parallel", "gradients_mean": True}
    return Call("mindspore.communication.init"), Call("mindspore.set_auto_parallel_context", parallel)


def apply(effect: InEffect) -> None:
    """Set the CPU kernels and the limit of open files, and make the set-up calls.

    Call this function before any operator runs, because set_device fails after that. Raises TrainerError if the NumPy
    version is not supported.
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
                raise  # MindSpore allows this call once; a second run in the process keeps the number of threads


def switch(effect: InEffect) -> None:
    """Apply other settings on the same device between two measurements; only repeatable calls are made."""
    for call in effect.setup:
        if call.name in REPEATABLE:
            call.make()


def _check_numpy() -> None:
    import numpy

    if int(numpy.__version__.split(".")[0]) > 1:
        raise TrainerError(
            f"NumPy {numpy.__version__} is installed, but MindSpore's binaries are built for NumPy 1 and some "
            "operators fail under 2: pip install 'numpy<2'"
        )


@contextlib.contextmanager
def pynative(effect: InEffect) -> Iterator[None]:
    """Run the `with` block in pynative mode, and restore the mode of the run at the end."""
    import mindspore

    mindspore.set_context(mode=PYNATIVE_MODE)
    try:
        yield
    finally:
        mindspore.set_context(mode=GRAPH_MODE if effect.graph else PYNATIVE_MODE)


def check_export(model_format: str, device: str) -> None:
    """Raise TrainerError if MindSpore cannot write `model_format` on `device`."""
    if model_format == "air" and device != "Ascend":
        raise TrainerError(f"MindSpore writes AIR on Ascend only, and the device is {device}; use --format mindir")
