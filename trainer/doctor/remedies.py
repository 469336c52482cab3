"""What might make a run faster: which flags are worth a trial, and what a trial must show to be recommended. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.config import RunConfig, is_own
from trainer.device.precision import AMP_LEVELS
from trainer.doctor.traps import GRAPH, LOCAL_COPY, RESIZE, WORKERS
from trainer.feed.recipes import IMAGENET_CROP, RECIPES, Recipe

LEAST_GAIN = 1.05  # below that a gain is not worth a flag
LEAST_ROUNDS = 3
MANY_ROUNDS = 6  # from here on one may be lost: as rare by chance as three of three
HELPS, UNCERTAIN, NO_GAIN = "helps", "uncertain", "no gain"
ROOM = 1.25  # times the side that shards would be resized to: what images must have for it to be worth a trial
MOST_PREFETCH = 128
EXTRAS = ("mixup", "cutmix", "erasing")
JIT_LEVELS = ("O0", "O1", "O2")
CHEAPER = {"randaugment": "imagenet", "autoaugment": "imagenet", "trivial": "imagenet"}


@dataclass(frozen=True)
class Remedy:
    """Flags to try: fields of RunConfig in `changes`, a side to shard with, or a `copy` of the shards elsewhere.

    `price` is what else they change.
    """

    flags: str
    changes: dict[str, Any] = field(default_factory=dict)
    resize: int | None = None
    price: str = ""
    copy: bool = False


@dataclass(frozen=True)
class Tried:
    """A trial: images/s of `part` (feed, step or loop) before and after, in rounds that alternated.

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
    """Judge a trial by images/s round by round."""
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
    """Return what a trial shows: a median gain that is too small is none, whatever single rounds show.

    A gain helps when three rounds or more all show it; of six or more one may be lost to other work on the machine.
    """
    if gain < LEAST_GAIN:
        return NO_GAIN
    needed = rounds - 1 if rounds >= MANY_ROUNDS else rounds
    return HELPS if rounds >= LEAST_ROUNDS and won >= needed else UNCERTAIN


def resize_side(image_side: int) -> int:
    """The shorter side, in pixels, that leaves crops of `image_side` the room that ImageNet's recipe gives them."""
    return round(image_side / IMAGENET_CROP)


@dataclass(frozen=True)
class Place:
    """What a feed has at its disposal, and what it makes of what: sides in pixels, `short_side` of stored images.

    `reading` says that it waits for the storage.
    """

    workers: int
    prefetch: int
    cores: int
    image_side: int
    short_side: int
    reading: bool = False


def feed_remedies(config: RunConfig, recipe: Recipe, place: Place) -> list[Remedy]:
    """For a feed that limits, those that may gain most first."""
    found = []
    side = resize_side(place.image_side)
    if place.reading:
        found.append(Remedy(LOCAL_COPY, price="room for a copy", copy=True))
    elif place.short_side >= ROOM * side:
        # Not where reading limits: the sample lies on another disk, so that it would show the gain of that disk.
        found.append(Remedy(RESIZE.format(side), resize=side, price="the pixels are gone for good"))
    if is_own(config.recipe) or config.recipe in CHEAPER:
        cheaper = CHEAPER.get(config.recipe, "imagenet")
        changes: dict[str, Any] = {"recipe": cheaper}
        flags = f"--recipe {cheaper}"
        if config.image_size is None and RECIPES[cheaper].image_size != place.image_side:
            changes["image_size"] = place.image_side
            flags += f" --image-size {place.image_side}"
        found.append(Remedy(flags, changes, price="other augmentation"))
    extras = {name: 0.0 for name in EXTRAS if getattr(recipe, name)}
    if extras:
        found.append(Remedy(without_extras(recipe), extras, price="less augmentation"))
    other = place.cores if place.workers != place.cores else max(1, place.cores // 2)
    if other != place.workers:
        found.append(Remedy(WORKERS.format(other), {"workers": other}))
    if place.prefetch < MOST_PREFETCH:
        more = min(2 * place.prefetch, MOST_PREFETCH)
        found.append(Remedy(f"--prefetch {more}", {"prefetch": more}, price="more memory"))
    return found


def without_extras(recipe: Recipe) -> str:
    """Return the flags that turn mixing and erasing off; empty where there are none."""
    return " ".join(f"--{name} 0" for name in EXTRAS if getattr(recipe, name))


def step_remedies(config: RunConfig, device: str, amp_level: str, graph: bool, rows: int) -> list[Remedy]:
    """For a step that limits, those that gain most often first: each of them is compiled again, and time is short."""
    levels = amp_remedies(device, amp_level)
    # On CPU float16 costs about twice, so the levels that have it are the last to try.
    first = 0 if device == "CPU" and amp_level == "O0" else 1
    modes = [] if graph else [Remedy(GRAPH, {"mode": "graph"})]
    found = levels[:first] + modes if device == "CPU" else modes + levels[:first]
    if 2 * config.batch_size <= rows:
        double = 2 * config.batch_size
        price = "needs another --lr" if config.lr else "the default --lr follows"
        found.append(Remedy(f"--batch-size {double}", {"batch_size": double}, price=price))
    return found + levels[first:]


def jit_remedies(config: RunConfig, device: str, graph: bool) -> list[Remedy]:
    """The other levels of graph compilation, where MindSpore has several: on Ascend, unless --graph-kernel sets it.

    To be tried last: MindSpore keeps a level until another one is set.
    """
    levels = JIT_LEVELS if device == "Ascend" and graph and not config.graph_kernel else ()
    return [Remedy(f"--jit-level {level}", {"jit_level": level}) for level in levels if level != config.jit_level]


def amp_remedies(device: str, amp_level: str) -> list[Remedy]:
    """The other levels of mixed precision, the one that should be fastest on the device first."""
    best = ("O0", "auto", "O2", "O1", "O3") if device == "CPU" else ("O2", "auto", "O3", "O1", "O0")
    others = [level for level in best if level != amp_level and level in AMP_LEVELS]
    return [Remedy(f"--amp-level {level}", {"amp_level": level}, price="other rounding") for level in others]
