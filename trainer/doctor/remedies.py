"""Remedies: the flags that are worth a trial, and the outcome of a trial. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainer.config import RunConfig, is_own
from trainer.device.precision import AMP_LEVELS
from trainer.doctor.traps import GRAPH, LOCAL_COPY, RESIZE, WORKERS
from trainer.feed.recipes import IMAGENET_CROP, RECIPES, Recipe

LEAST_GAIN = 1.05  # a smaller gain is not worth a flag
LEAST_ROUNDS = 3
MANY_ROUNDS = 6  # from here on, one round may lack a gain: as unlikely by chance as a gain in three of three rounds
HELPS, UNCERTAIN, NO_GAIN = "helps", "uncertain", "no gain"
LEAST_SHRINK = 1.25  # least ratio of stored side to resized side for a trial of --resize
MOST_PREFETCH = 128
EXTRAS = ("mixup", "cutmix", "erasing")
JIT_LEVELS = ("O0", "O1", "O2")
CHEAPER = {"randaugment": "imagenet", "autoaugment": "imagenet", "trivial": "imagenet"}


@dataclass(frozen=True)
class Remedy:
    """Flags to try: fields of RunConfig in `changes`, a side in pixels to resize to, or a `copy` of the shards.

    `price` names the disadvantage of the flags.
    """

    flags: str
    changes: Mapping[str, object] = field(default_factory=dict)
    resize: int | None = None
    price: str = ""
    copy: bool = False


@dataclass(frozen=True)
class Tried:
    """Result of a trial: images/s of `part` (feed, step or loop) before and after, in interleaved rounds.

    `gain` is the median over all rounds of after / before, with the extremes `lowest` and `highest`. `won` is the
    number of rounds with a gain. `outcome` is HELPS, UNCERTAIN or NO_GAIN. `cpu` is the ratio of CPU time per image.
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
    """Return the result of a trial. `before` and `after` have the images/s of each round."""
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
    """Return HELPS, UNCERTAIN or NO_GAIN, from the median gain and the number of rounds with a gain (`won`).

    A flag helps if all of three or more rounds show a gain. With six or more rounds, one round may show no gain.
    """
    if gain < LEAST_GAIN:
        return NO_GAIN
    needed = rounds - 1 if rounds >= MANY_ROUNDS else rounds
    return HELPS if rounds >= LEAST_ROUNDS and won >= needed else UNCERTAIN


def resize_side(image_side: int) -> int:
    """Return the shorter side, in pixels, to store for crops of `image_side`, as in the imagenet recipe."""
    return round(image_side / IMAGENET_CROP)


@dataclass(frozen=True)
class FeedConditions:
    """Resources and image sides (pixels) of a feed. `short_side` is the median shorter side of stored images.

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
        # Not if reading is the bottleneck: the sample is on another disk, and a trial would show the gain of that disk.
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
    """Return the flags that turn mixing and erasing off, or an empty string if mixing and erasing are off."""
    return " ".join(f"--{name} 0" for name in EXTRAS if getattr(recipe, name))


def step_remedies(config: RunConfig, device: str, amp_level: str, graph: bool, rows: int) -> list[Remedy]:
    """Return remedies for a step that is the bottleneck, the most promising first. Each remedy needs a compilation."""
    levels = amp_remedies(device, amp_level)
    # On CPU float16 takes about twice as long, so levels with float16 are tried last.
    first = 0 if device == "CPU" and amp_level == "O0" else 1
    modes = [] if graph else [Remedy(GRAPH, {"mode": "graph"})]
    found = levels[:first] + modes if device == "CPU" else modes + levels[:first]
    if 2 * config.batch_size <= rows:
        double = 2 * config.batch_size
        price = "needs another --lr" if config.lr else "changes the default --lr"
        found.append(Remedy(f"--batch-size {double}", {"batch_size": double}, price=price))
    return found + levels[first:]


def jit_remedies(config: RunConfig, device: str, graph: bool) -> list[Remedy]:
    """Return remedies with the other graph optimization levels: none on CPU, in pynative mode or with --graph-kernel.

    These remedies are tried last, because MindSpore keeps a level until another level is set.
    """
    levels = JIT_LEVELS if device == "Ascend" and graph and not config.graph_kernel else ()
    return [Remedy(f"--jit-level {level}", {"jit_level": level}) for level in levels if level != config.jit_level]


def amp_remedies(device: str, amp_level: str) -> list[Remedy]:
    """Return remedies with the other levels of mixed precision, the fastest level on the device first."""
    best = ("O0", "auto", "O2", "O1", "O3") if device == "CPU" else ("O2", "auto", "O3", "O1", "O0")
    others = [level for level in best if level != amp_level and level in AMP_LEVELS]
    return [Remedy(f"--amp-level {level}", {"amp_level": level}, price="different rounding") for level in others]
