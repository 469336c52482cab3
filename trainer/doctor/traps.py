"""The usual traps of feed, precision and sink, as pure functions of what was observed: which apply, with figures."""

from collections.abc import Callable
from dataclasses import dataclass, replace

LOCAL_COPY = "copy the shards to a local disk"
GRAPH, O2, WORKERS, RESIZE = "--mode graph", "--amp-level O2", "--workers {}", "dataprep shard ... --resize {}"
LARGE = 1.6  # times the side that training looks at: from there on most decoded pixels are thrown away
IDLE = 0.75  # of the cores that are busy: below that a feed with fewer threads than cores leaves speed lying
COLD = 0.5  # of the cached rate
KERNELS_GAIN = 1.15  # what another cap of CPU instructions must gain
BATCH_GAIN = 1.15  # what twice the batch must gain, for the batch to count as small


@dataclass(frozen=True)
class Observation:
    """What was asked, what is in effect, and what was measured; None: not asked, or not measured.

    Sides in pixels: `short_side` is the median shorter side of stored images, `image_side` that of what training sees,
    `resize_side` what to shard with. `python_ops` are the names of transforms that run in Python. Rates in images/s:
    `limit_per_s` is the slower of feed and step, `cold_per_s` and `cached_per_s` what the storage gives. `feed_limits`,
    `step_limits` and `reading_limits` (the storage) say what slows this run. `vain` are the flags that gained nothing
    when they were tried: a trap that only they would fix is none here. `idle` are those that made a part faster which
    does not limit. `mixing_flags` turn mixing off. `reference` are the implementations of convolutions on oneDNN's
    reference path, `kernels_gain` is how many times as fast one is with the cap that the trainer would choose,
    `kernels_asked` is the cap that the user has set.
    """

    device: str
    graph: bool
    amp_level: str
    sink: bool
    sink_asked: bool | None
    sink_why: str
    workers: int
    workers_asked: int | None
    cores: int
    cores_busy: float
    feed_bound: bool
    readers: int
    readers_wanted: int
    files: int
    open_files_wanted: int
    open_files_limit: int
    batch_size: int
    image_side: int
    short_side: int
    resize_side: int
    python_ops: tuple[str, ...]
    mixing: bool
    limit_per_s: float
    storage: str
    network: bool
    cold_per_s: float | None
    cached_per_s: float | None
    batch_gain: float | None = None
    graph_gain: float | None = None
    o2_gain: float | None = None
    feed_limits: bool = True
    step_limits: bool = True
    reading_limits: bool = False
    fits_in_memory: bool = False
    mixing_flags: str | None = None
    vain: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    kernels_asked: str = "default"
    reference: tuple[str, ...] = ()
    kernels_gain: float | None = None


@dataclass(frozen=True)
class Trap:
    """One that applies: a short name, what was seen with its figures, and what to do.

    `limits` is False for what is true but does not slow this run now. `flags` are those of the remedy as they are
    tried: the trap is not told where they were tried without a gain.
    """

    name: str
    seen: str
    remedy: str
    limits: bool = True
    flags: str | None = None


def find_traps(seen: Observation) -> list[Trap]:
    """Those that apply, what limits now first, the costliest kinds first."""
    found = [one for trap in TRAPS if (one := trap(seen)) is not None and one.flags not in seen.vain]
    judged = [replace(one, limits=one.limits and one.flags not in seen.idle) for one in found]
    return sorted(judged, key=lambda one: not one.limits)


def pynative(seen: Observation) -> Trap | None:
    """Operators one by one."""
    if seen.graph:
        return None
    text = f"operators run one by one{_gain(seen.graph_gain, 'graph mode')}"
    return Trap("pynative mode", text, GRAPH, seen.step_limits, GRAPH)


def reference_convolutions(seen: Observation) -> Trap | None:
    """A cap of the user's that leads convolutions to plain loops."""
    if not seen.reference or seen.kernels_gain is None or seen.kernels_gain < KERNELS_GAIN:
        return None
    text = (
        f"{seen.kernels_asked} was asked for, and with it oneDNN runs convolutions on its reference path "
        f"({', '.join(seen.reference)}); with AVX2 one was {seen.kernels_gain:.3g} times as fast"
    )
    return Trap("reference convolutions", text, "leave ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA out", seen.step_limits)


def float32_on_ascend(seen: Observation) -> Trap | None:
    """Matrix units that are left idle."""
    if seen.device != "Ascend" or seen.amp_level != "O0":
        return None
    text = f"float32 leaves the matrix units idle{_gain(seen.o2_gain, 'O2')}"
    return Trap("O0 on Ascend", text, f"{O2}, or leave it out", seen.step_limits, O2)


def sink_without_effect(seen: Observation) -> Trap | None:
    """A wish that is not granted."""
    if not seen.sink_asked or seen.sink:
        return None
    return Trap("sink not in effect", f"--sink was asked for, but is off: {seen.sink_why}", "leave --sink out")


def sink_off_on_ascend(seen: Observation) -> Trap | None:
    """Each step waits for the host."""
    if seen.device != "Ascend" or seen.sink or not seen.graph:
        return None
    return Trap("no sink on Ascend", "the host hands over each batch and waits for each step", "leave --no-sink out")


def python_transforms(seen: Observation) -> Trap | None:
    """One interpreter for all threads."""
    if not seen.python_ops:
        return None
    names = ", ".join(seen.python_ops)
    text = f"of the recipe's, in Python: {names}; all threads share one interpreter"
    remedy = "use mindspore.dataset.vision operators on uint8, which are C++"
    return Trap("Python transforms", text, remedy, seen.feed_limits)


def python_mixing(seen: Observation) -> Trap | None:
    """The price of mixup and cutmix, told only where the feed limits."""
    if not seen.mixing or not seen.feed_bound:
        return None
    text = "mixup and cutmix are NumPy on each batch"
    return Trap("mixing in Python", text, "leave them out if they gain too little", flags=seen.mixing_flags)


def large_images(seen: Observation) -> Trap | None:
    """Pixels that are decoded to be thrown away."""
    if seen.short_side < LARGE * seen.image_side or seen.resize_side >= seen.short_side:
        return None
    text = f"the shorter side is {seen.short_side} pixels (median), training looks at {seen.image_side}"
    flags = RESIZE.format(seen.resize_side)
    return Trap("large images", text, flags, seen.feed_limits and not seen.reading_limits, flags)


def few_workers(seen: Observation) -> Trap | None:
    """Cores that nobody uses."""
    idle = seen.cores_busy < IDLE * seen.cores
    if not seen.feed_bound or seen.workers >= seen.cores or not idle:
        return None
    text = f"{seen.workers} decode while {seen.cores_busy:.1f} of {seen.cores} cores are busy"
    flags = WORKERS.format(seen.cores)
    remedy = flags if seen.workers_asked is not None else "free memory, or --prefetch 2"
    return Trap("few workers", text, remedy, flags=flags)


def many_workers(seen: Observation) -> Trap | None:
    """More threads than cores."""
    if seen.workers_asked is None or seen.workers_asked <= seen.cores:
        return None
    lowered = f"; it was lowered to {seen.workers}" if seen.workers < seen.workers_asked else ""
    text = f"{seen.workers_asked} were asked for, this process may use {seen.cores} cores{lowered}"
    flags = WORKERS.format(seen.cores)
    return Trap("many workers", text, f"{flags}, or a larger share of the machine", seen.feed_limits, flags)


def small_batch(seen: Observation) -> Trap | None:
    """Fixed costs a step."""
    if seen.batch_gain is None or seen.batch_gain < BATCH_GAIN:
        return None
    text = f"a step on {2 * seen.batch_size} images handles {seen.batch_gain:.2f} times as many a second"
    flags = f"--batch-size {2 * seen.batch_size}"
    return Trap("small batch", text, f"{flags}, with a new --lr", seen.step_limits, flags)


def slow_storage(seen: Observation) -> Trap | None:
    """Rows that come from far."""
    if seen.cold_per_s is not None and seen.cached_per_s is not None:
        slow = seen.cold_per_s < COLD * seen.cached_per_s and seen.cold_per_s < seen.limit_per_s
    else:
        slow = False
    if slow:
        text = (
            f"{seen.storage} gives {seen.cold_per_s:,.0f} rows/s at first and {seen.cached_per_s:,.0f} from the cache; "
            f"training takes {seen.limit_per_s:,.0f}"
        )
        if seen.fits_in_memory:
            text += "; the set fits in memory, so that this is the pace of a first epoch at most"
        remedy = f"{LOCAL_COPY}, or have memory for all of them"
        return Trap("slow storage", text, remedy, seen.reading_limits, LOCAL_COPY)
    if seen.network:
        text = f"the shards lie on {seen.storage}, across a network that others use too"
        return Trap("network storage", text, f"{LOCAL_COPY} when runs differ in speed", seen.reading_limits, LOCAL_COPY)
    return None


def many_files(seen: Observation) -> Trap | None:
    """Descriptors that cannot be had."""
    if seen.open_files_wanted <= seen.open_files_limit:
        return None
    text = (
        f"{seen.files} files with {seen.readers_wanted} readers take {seen.open_files_wanted:,} open files, the hard "
        f"limit is {seen.open_files_limit:,}"
    )
    readers = f"; {seen.readers} read instead" if seen.readers < seen.readers_wanted else ""
    return Trap("open files", text + readers, "raise 'ulimit -Hn', or shard with a larger --shard-size")


def _gain(gain: float | None, what: str) -> str:
    return "" if gain is None else f"; {what} was {gain:.2f} times as fast"


TRAPS: tuple[Callable[[Observation], Trap | None], ...] = (
    reference_convolutions,
    pynative,
    float32_on_ascend,
    sink_without_effect,
    sink_off_on_ascend,
    python_transforms,
    large_images,
    few_workers,
    many_workers,
    slow_storage,
    small_batch,
    python_mixing,
    many_files,
)
