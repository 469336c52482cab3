"""Remedies: the flags that are worth a trial, and when a trial leads to a recommendation. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainer.config import RunConfig, is_own
from trainer.device.precision import AMP_LEVELS
from trainer.doctor.traps import GRAPH, LOCAL_COPY, RESIZE, WORKERS
from trainer.feed.recipes import IMAGENET_CROP, RECIPES, Recipe

LEAST_GAIN = 1.05  # a smaller gain is not worth a flag
LEAST_ROUNDS = 3
MANY_ROUNDS = 6  # from here on one round may show no gain: as unlikely by chance as three of three
HELPS, UNCERTAIN, NO_GAIN = "helps", "uncertain", "no gain"
LEAST_SHRINK = 1.25  # times the resized side: smaller images are not worth a trial of --resize
MOST_PREFETCH = 128
EXTRAS = ("mixup", "cutmix", "erasing")
JIT_LEVELS = ("O0", "O1", "O2")
CHEAPER = {"randaugment": "imagenet", "autoaugment": "imagenet", "trivial": "imagenet"}


@dataclass(frozen=True)
class Remedy:
    """Flags to try: fields of RunConfig in `changes`, a side in pixels to resize to, or a `copy` of the shards.

    `price` is the cost in other respects.
    """

    flags: str
    changes: Mapping[str, object] = field(default_factory=dict)
    resize: int | None = None
    price: str = ""
    copy: bool = False


@dataclass(frozen=True)
class Tried:
    """Result of a trial: images/s of `part` (feed, step or loop) before and after, in interleaved rounds.

    `gain` is the median of after / before round by round, `lowest` and `highest` its spread, `won` the rounds with a
    gain. `outcome` is helps, uncertain or no gain. `cpu` is the CPU time per image, as a share of that before.
    """

    flags: str
    part: str
    before: float
    after: float
    gain: float
    lowest: float
    highest: float
    rounds: int
    won: int
    outcome: str
    price: str = ""
    cpu: float = 1.0


def weigh(remedy: Remedy, part: str, before: Sequence[float], after: Sequence[float], cpu: float = 1.0) -> Tried:
    """Return the result of a trial from images/s, round by round."""
    ratios = [late / early for early, late in zip(before, after, strict=True)]
    won = sum(ratio > 1 for ratio in ratios)
    gain = statistics.median(ratios)
    return Tried(
        flags=remedy.flags,
        part=part,
        before=statistics.median(before),
        after=statistics.median(after),
        gain=gain,
        lowest=min(ratios),
        highest=max(ratios),
        rounds=len(ratios),
        won=won,
        outcome=outcome_of(gain, won, len(ratios)),
        price=remedy.price,
        cpu=cpu,
    )


def outcome_of(gain: float, won: int, rounds: int) -> str:
    """Return helps, uncertain or no gain from the median gain and the number of rounds won.

    A gain helps if three rounds or more all show it; of six or more, one may miss it because of other work.
    """
    if gain < LEAST_GAIN:
        return NO_GAIN
    needed = rounds - 1 if rounds >= MANY_ROUNDS else rounds
    return HELPS if rounds >= LEAST_ROUNDS and won >= needed else UNCERTAIN


def resize_side(image_side: int) -> int:
    """Return the shorter side, in pixels, for crops of `image_side`, in the ratio of the imagenet recipe."""
    return round(image_side / IMAGENET_CROP)


@dataclass(frozen=True)
class FeedConditions:
    """Resources and image sizes of a feed. Sides in pixels; `short_side` is that of stored images.

    `reading` is True if the feed waits for the storage.
    """

    workers: int
    prefetch: int
    cores: int
    image_side: int
    short_side: int
    reading: bool = False


def feed_remedies(config: RunConfig, recipe: Recipe, conditions: FeedConditions) -> list[Remedy]:
    """Return remedies for a feed that is the bottleneck, the largest expected gain first."""
    found = []
    side = resize_side(conditions.image_side)
    if conditions.reading:
        found.append(Remedy(LOCAL_COPY, price="disk space for a copy", copy=True))
    elif conditions.short_side >= LEAST_SHRINK * side:
        # Not if reading is the bottleneck: the sample is on another disk, whose gain it would show.
        found.append(Remedy(RESIZE.format(side), resize=side, price="discards pixels"))
    if is_own(config.recipe) or config.recipe in CHEAPER:
        cheaper = CHEAPER.get(config.recipe, "imagenet")
        changes: dict[str, object] = {"recipe": cheaper}
        flags = f"--recipe {cheaper}"
        if config.image_size is None and RECIPES[cheaper].image_size != conditions.image_side:
            changes["image_size"] = conditions.image_side
            flags += f" --image-size {conditions.image_side}"
        found.append(Remedy(flags, changes, price="different augmentation"))
    extras = {name: 0.0 for name in EXTRAS if getattr(recipe, name)}
    if extras:
        found.append(Remedy(without_extras(recipe), extras, price="less augmentation"))
    other = conditions.cores if conditions.workers != conditions.cores else max(1, conditions.cores // 2)
    if other != conditions.workers:
        found.append(Remedy(WORKERS.format(other), {"workers": other}))
    if conditions.prefetch < MOST_PREFETCH:
        more = min(2 * conditions.prefetch, MOST_PREFETCH)
        found.append(Remedy(f"--prefetch {more}", {"prefetch": more}, price="more memory"))
    return found


def without_extras(recipe: Recipe) -> str:
    """Return the flags that turn mixing and erasing off; empty if both are off."""
    return " ".join(f"--{name} 0" for name in EXTRAS if getattr(recipe, name))


def step_remedies(config: RunConfig, device: str, amp_level: str, graph: bool, rows: int) -> list[Remedy]:
    """Return remedies for a step that is the bottleneck, the most often useful first: each needs a compilation."""
    levels = amp_remedies(device, amp_level)
    # On CPU float16 costs about twice as much, so levels with float16 are tried last.
    first = 0 if device == "CPU" and amp_level == "O0" else 1
    modes = [] if graph else [Remedy(GRAPH, {"mode": "graph"})]
    found = levels[:first] + modes if device == "CPU" else modes + levels[:first]
    if 2 * config.batch_size <= rows:
        double = 2 * config.batch_size
        price = "needs another --lr" if config.lr else "changes the default --lr"
        found.append(Remedy(f"--batch-size {double}", {"batch_size": double}, price=price))
    return found + levels[first:]


def jit_remedies(config: RunConfig, device: str, graph: bool) -> list[Remedy]:
    """Return the other levels of graph compilation. Only Ascend has several; --graph-kernel sets the level itself.

    They are tried last: MindSpore keeps a level until another one is set.
    """
    levels = JIT_LEVELS if device == "Ascend" and graph and not config.graph_kernel else ()
    return [Remedy(f"--jit-level {level}", {"jit_level": level}) for level in levels if level != config.jit_level]


def amp_remedies(device: str, amp_level: str) -> list[Remedy]:
    """Return the other levels of mixed precision, the fastest on the device first."""
    best = ("O0", "auto", "O2", "O1", "O3") if device == "CPU" else ("O2", "auto", "O3", "O1", "O0")
    others = [level for level in best if level != amp_level and level in AMP_LEVELS]
    return [Remedy(f"--amp-level {level}", {"amp_level": level}, price="different rounding") for level in others]
