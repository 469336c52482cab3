"""What might make a run faster: which flags are worth a trial, and what a trial must show to be recommended. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.config import RunConfig
from trainer.lookup import is_own
from trainer.precision import AMP_LEVELS
from trainer.recipes import IMAGENET_CROP, RECIPES, Recipe
from trainer.traps import GRAPH, RESIZE, WORKERS

LEAST_GAIN = 1.05  # below that a gain is not worth a flag
LEAST_ROUNDS = 3
ROOM = 1.25  # times the side that shards would be resized to: what images must have for it to be worth a trial
MOST_PREFETCH = 128
JIT_LEVELS = ("O0", "O1", "O2")
CHEAPER = {"randaugment": "imagenet", "autoaugment": "imagenet", "trivial": "imagenet"}


@dataclass(frozen=True)
class Remedy:
    """Flags to try: fields of RunConfig in `changes`, or a side to shard with. `price` is what else they change."""

    flags: str
    changes: dict[str, Any] = field(default_factory=dict)
    resize: int | None = None
    price: str = ""


@dataclass(frozen=True)
class Tried:
    """A trial: images/s of `part` (feed, step or loop) before and after, in turns that alternated.

    `gain` is the median of after / before round by round. `helps` is what makes it a recommendation.
    """

    flags: str
    part: str
    before: float
    after: float
    gain: float
    helps: bool
    price: str = ""


def weigh(remedy: Remedy, part: str, before: Sequence[float], after: Sequence[float]) -> Tried:
    """Judge a trial by images/s round by round: the median gain must be worth it, and each round must show one.

    Fewer than three rounds recommend nothing, whatever they show.
    """
    gains = [late / early for early, late in zip(before, after, strict=True)]
    gain = statistics.median(gains)
    return Tried(
        flags=remedy.flags,
        part=part,
        before=statistics.median(before),
        after=statistics.median(after),
        gain=gain,
        helps=len(gains) >= LEAST_ROUNDS and gain >= LEAST_GAIN and min(gains) > 1,
        price=remedy.price,
    )


def resize_side(image_side: int) -> int:
    """The shorter side, in pixels, that leaves crops of `image_side` the room that ImageNet's recipe gives them."""
    return round(image_side / IMAGENET_CROP)


@dataclass(frozen=True)
class Place:
    """What a feed has at its disposal, and what it makes of what: sides in pixels, `short_side` of stored images."""

    workers: int
    prefetch: int
    cores: int
    image_side: int
    short_side: int


def feed_remedies(config: RunConfig, recipe: Recipe, place: Place) -> list[Remedy]:
    """For a feed that limits, those that may gain most first."""
    found = []
    side = resize_side(place.image_side)
    if place.short_side >= ROOM * side:
        found.append(Remedy(RESIZE.format(side), resize=side, price="the pixels are gone for good"))
    if is_own(config.recipe) or config.recipe in CHEAPER:
        cheaper = CHEAPER.get(config.recipe, "imagenet")
        changes: dict[str, Any] = {"recipe": cheaper}
        if config.image_size is None and RECIPES[cheaper].image_size != place.image_side:
            changes["image_size"] = place.image_side
        found.append(Remedy(f"--recipe {cheaper}", changes, price="other augmentation"))
    extras = {name: 0.0 for name in ("mixup", "cutmix", "erasing") if getattr(recipe, name)}
    if extras:
        flags = " ".join(f"--{name} 0" for name in extras)
        found.append(Remedy(flags, extras, price="less augmentation"))
    other = place.cores if place.workers < place.cores else max(1, place.cores // 2)
    if other != place.workers:
        found.append(Remedy(WORKERS.format(other), {"workers": other}))
    if place.prefetch < MOST_PREFETCH:
        more = min(2 * place.prefetch, MOST_PREFETCH)
        found.append(Remedy(f"--prefetch {more}", {"prefetch": more}, price="more memory"))
    return found


def step_remedies(config: RunConfig, amp_level: str, graph: bool, rows: int) -> list[Remedy]:
    """For a step that limits, those that gain most often first: each of them is compiled anew, and time is short."""
    first, *others = amp_remedies(amp_level)
    found = [first] if graph else [Remedy(GRAPH, {"mode": "graph"}), first]
    if 2 * config.batch_size <= rows:
        double = 2 * config.batch_size
        price = "needs another --lr" if config.lr else "the default --lr follows"
        found.append(Remedy(f"--batch-size {double}", {"batch_size": double}, price=price))
    return found + others


def jit_remedies(config: RunConfig, device: str, graph: bool) -> list[Remedy]:
    """The other levels of graph compilation, where MindSpore has several: on Ascend, unless --graph-kernel sets it.

    To be tried last: MindSpore keeps a level until another one is set.
    """
    levels = JIT_LEVELS if device == "Ascend" and graph and not config.graph_kernel else ()
    return [Remedy(f"--jit-level {level}", {"jit_level": level}) for level in levels if level != config.jit_level]


def amp_remedies(amp_level: str) -> list[Remedy]:
    """The other levels of mixed precision, which `trainer doctor` measures in any case."""
    order = sorted(AMP_LEVELS, key=lambda level: ("O2", "auto", "O3", "O1", "O0").index(level))
    others = [level for level in order if level != amp_level]
    return [Remedy(f"--amp-level {level}", {"amp_level": level}, price="other rounding") for level in others]
