"""Known performance problems of feed, precision and data sinking, as pure functions of an Observation."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from schemas.counting import many

LOCAL_COPY = "copy the shards to a local disk"
GRAPH, O2, WORKERS, RESIZE = "--mode graph", "--amp-level O2", "--workers {}", "dataprep shard ... --resize {}"
LARGE = 1.6  # ratio of stored side to training side, above which most decoded pixels are discarded
IDLE = 0.75  # share of busy cores, below which a feed with few threads wastes cores
COLD = 0.5  # share of the cached rate, below which storage is slow
KERNELS_GAIN = 1.15  # least gain of another limit on CPU instructions
BATCH_GAIN = 1.15  # least gain of twice the batch size


@dataclass(frozen=True)
class Observation:
    """Requested settings, settings in effect, and measurements. None means not requested or not measured.

    Sides are in pixels: `short_side` is the median shorter side of stored images, `image_side` the side of images in
    training, `resize_side` the side to shard with. `python_ops` are the transforms that run in Python. Rates are in
    images/s: `limit_per_s` is the rate of the slower of feed and step, `cold_per_s` and `cached_per_s` are the rates of
    the storage. `feed_limits`, `step_limits` and `reading_limits` are True if feed, step or storage slows this run.
    `useless_flags` were tried without gain: a trap that only these flags would fix is not reported. `idle_flags` sped
    up a stage that is not the bottleneck. `mixing_flags` disable mixing. `reference` are the convolutions on oneDNN's
    reference path, `kernels_gain` is the speedup with the trainer's limit, `kernels_asked` is the user's limit.
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
    useless_flags: tuple[str, ...] = ()
    idle_flags: tuple[str, ...] = ()
    kernels_asked: str = "default"
    reference: tuple[str, ...] = ()
    kernels_gain: float | None = None


@dataclass(frozen=True)
class Trap:
    """A problem that applies: a short name, the finding (`seen`) with its figures, and the remedy.

    `limits` is False if the problem does not slow this run. `flags` are the flags of the remedy: the trap is not
    reported if these flags were tried without gain.
    """

    name: str
    seen: str
    remedy: str
    limits: bool = True
    flags: str | None = None


def find_traps(run: Observation) -> list[Trap]:
    """Return the traps that apply. Traps that slow this run come first; both groups are in the order of TRAPS."""
    found = [one for trap in TRAPS if (one := trap(run)) is not None and one.flags not in run.useless_flags]
    judged = [replace(one, limits=one.limits and one.flags not in run.idle_flags) for one in found]
    return sorted(judged, key=lambda one: not one.limits)


def pynative(run: Observation) -> Trap | None:
    """Report pynative mode."""
    if run.graph:
        return None
    text = f"operators run one at a time{_gain(run.graph_gain, 'graph mode')}"
    return Trap("pynative mode", text, GRAPH, run.step_limits, GRAPH)


def reference_convolutions(run: Observation) -> Trap | None:
    """Report a limit set by the user that leads to oneDNN's reference convolutions."""
    if not run.reference or run.kernels_gain is None or run.kernels_gain < KERNELS_GAIN:
        return None
    text = (
        f"with {run.kernels_asked}, as requested, oneDNN runs convolutions on its slow reference path "
        f"({', '.join(run.reference)}); with AVX2, a convolution was {run.kernels_gain:.3g} times as fast"
    )
    return Trap("reference convolutions", text, "unset ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA", run.step_limits)


def float32_on_ascend(run: Observation) -> Trap | None:
    """Report float32 on Ascend."""
    if run.device != "Ascend" or run.amp_level != "O0":
        return None
    text = f"float32 does not use the matrix units{_gain(run.o2_gain, 'O2')}"
    return Trap("O0 on Ascend", text, f"{O2}, or omit --amp-level", run.step_limits, O2)


def sink_without_effect(run: Observation) -> Trap | None:
    """Report --sink where it has no effect."""
    if not run.sink_asked or run.sink:
        return None
    return Trap("sink not in effect", f"--sink was requested, but is off: {run.sink_why}", "omit --sink")


def sink_off_on_ascend(run: Observation) -> Trap | None:
    """Report --no-sink on Ascend."""
    if run.device != "Ascend" or run.sink or not run.graph:
        return None
    return Trap("no sink on Ascend", "the host passes every batch and waits for every step", "omit --no-sink")


def python_transforms(run: Observation) -> Trap | None:
    """Report transforms that run in Python."""
    if not run.python_ops:
        return None
    names = ", ".join(run.python_ops)
    text = f"these transforms of the recipe run in Python: {names}; all threads share one interpreter"
    remedy = "use operators of mindspore.dataset.vision on uint8 images: these operators run in C++"
    return Trap("Python transforms", text, remedy, run.feed_limits)


def python_mixing(run: Observation) -> Trap | None:
    """Report mixup and cutmix if the feed is the bottleneck."""
    if not run.mixing or not run.feed_bound:
        return None
    text, remedy = "mixup and cutmix run in NumPy, once per batch", "omit mixup and cutmix if accuracy allows"
    return Trap("mixing in Python", text, remedy, flags=run.mixing_flags)


def large_images(run: Observation) -> Trap | None:
    """Report stored images that are much larger than training needs."""
    if run.short_side < LARGE * run.image_side or run.resize_side >= run.short_side:
        return None
    text = f"the median shorter side is {run.short_side} pixels, training uses {run.image_side}"
    flags = RESIZE.format(run.resize_side)
    return Trap("large images", text, flags, run.feed_limits and not run.reading_limits, flags)


def few_workers(run: Observation) -> Trap | None:
    """Report fewer threads than cores while cores are idle."""
    idle = run.cores_busy < IDLE * run.cores
    if not run.feed_bound or run.workers >= run.cores or not idle:
        return None
    text = f"with {many(run.workers, 'decoding thread')}, only {run.cores_busy:.1f} of {run.cores} cores are busy"
    flags = WORKERS.format(run.cores)
    remedy = flags if run.workers_asked is not None else "free some memory, or use --prefetch 2"
    return Trap("few workers", text, remedy, flags=flags)


def many_workers(run: Observation) -> Trap | None:
    """Report more threads than cores."""
    if run.workers_asked is None or run.workers_asked <= run.cores:
        return None
    lowered = f"; reduced to {many(run.workers, 'thread')}" if run.workers < run.workers_asked else ""
    text = f"{run.workers_asked} threads were requested, this process may use {many(run.cores, 'core')}{lowered}"
    flags = WORKERS.format(run.cores)
    return Trap("many workers", text, f"{flags}, or a larger share of the machine", run.feed_limits, flags)


def small_batch(run: Observation) -> Trap | None:
    """Report a batch size that is too small for the fixed cost per step."""
    if run.batch_gain is None or run.batch_gain < BATCH_GAIN:
        return None
    text = f"batches of {2 * run.batch_size} process {run.batch_gain:.2f} times as many images per second"
    flags = f"--batch-size {2 * run.batch_size}"
    return Trap("small batch", text, f"{flags}, with a new --lr", run.step_limits, flags)


def slow_storage(run: Observation) -> Trap | None:
    """Report storage that is slower than training, or on a network."""
    if run.cold_per_s is not None and run.cached_per_s is not None:
        slow = run.cold_per_s < COLD * run.cached_per_s and run.cold_per_s < run.limit_per_s
    else:
        slow = False
    if slow:
        text = (
            f"{run.storage} reads {run.cold_per_s:,.0f} rows/s, {run.cached_per_s:,.0f} from the cache; "
            f"training needs {run.limit_per_s:,.0f}"
        )
        if run.fits_in_memory:
            text += "; the dataset fits in memory, so only the first epoch is slow"
        remedy = f"{LOCAL_COPY}, or add memory to cache the shards"
        return Trap("slow storage", text, remedy, run.reading_limits, LOCAL_COPY)
    if run.network:
        text = f"the shards are on {run.storage}, a network file system"
        return Trap("network storage", text, f"{LOCAL_COPY} if the speed varies", run.reading_limits, LOCAL_COPY)
    return None


def many_files(run: Observation) -> Trap | None:
    """Report a limit on open files that is too low."""
    if run.open_files_wanted <= run.open_files_limit:
        return None
    text = (
        f"{run.files} files with {run.readers_wanted} readers need {run.open_files_wanted:,} open files, but the hard "
        f"limit is {run.open_files_limit:,}"
    )
    readers = f"; reduced to {many(run.readers, 'reader')}" if run.readers < run.readers_wanted else ""
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
