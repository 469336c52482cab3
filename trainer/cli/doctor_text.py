"""What `trainer doctor`, `bench` and `eval` say to people, for a terminal of 80 columns. Pure."""

import textwrap
from collections.abc import Iterable, Sequence

from schemas.counting import many
from trainer.cli.progress import decimals
from trainer.device.kernels import ONEDNN
from trainer.doctor.advice import Advice, recommended
from trainer.doctor.bench import FILES, PYTHON, Comparison
from trainer.doctor.convolution import is_reference
from trainer.doctor.diagnose import Diagnosis
from trainer.doctor.remedies import NO_GAIN, UNCERTAIN, Tried
from trainer.doctor.stages import Measured
from trainer.evaluation.details import summary
from trainer.evaluation.evaluate import Evaluation
from trainer.training.meter import BALANCED, COMPUTE, FEED, MARGIN

WIDTH = 80
SHORT = 0.9  # of the limit: below that a loop that hardly waits for data lacks something else
EVEN = 1.1  # times the speed of files: below that the reader may ask what shards are for
BUSY = 0.5  # of the cores: a load from which on other work is worth a word
MANY = 10  # from here on a share reads better as a multiple
LEAST_SHARE = 0.01  # of the feed's time, to be named
AMP = "--amp-level "
NAMES = {"read": "read records", "decode": "+ decode", "feed": "+ batch and copy: the feed"}
PARTS = {"read": "reading", "decode": "decoding", "augment": "the recipe", "batch": "batching"}


def doctor_text(found: Diagnosis) -> str:
    """The table, the verdict, and what follows from it."""
    head = (
        f"{found.model}, {found.image_size} pixels, batch {found.batch_size}, recipe {found.recipe}, "
        f"on {found.device} with {many(found.cores, 'core')}"
    )
    limiting, idle = [[one for one in found.traps if one.limits is limits] for limits in (True, False)]
    sections = [
        "\n".join(_wrapped(head)),
        "\n".join(_table(found)),
        *_convolutions(found),
        "\n".join(_wrapped(f"{_name_of(found.verdict.bound)}: {_verdict(found)}")),
        *_other_work(found),
        *_section("Faster settings (whole loop, measured interleaved with the current ones):", _helped(found)),
        *_section(f"Uncertain ({_longer(found)} gives a clearer answer):", _uncertain(found)),
        *_section("Tried without gain:", _without_gain(found)),
        *_section("Traps that apply:", (f"{one.name}: {one.seen}. Remedy: {one.remedy}." for one in limiting)),
        *_section("True, but not what limits now:", (f"{one.name}: {one.seen}." for one in idle)),
        *_section("Does not run here:", (f"{flags}: {why}" for flags, why in found.failed.items())),
        *_section(f"Not measured ({_longer(found)} measures more):", found.left_out),
    ]
    return "\n\n".join(sections)


def _convolutions(found: Diagnosis) -> list[str]:
    """How oneDNN runs a convolution; where the trainer has capped it, what other programs miss."""
    seen = found.convolutions
    if seen is None:
        return []
    now, other = seen.in_effect, seen.other
    text = f"A small convolution takes {now.milliseconds:.3g} ms with {now.level} ({', '.join(now.implementations)})."
    if other is not None and other.is_reference and not now.is_reference:
        names = ", ".join(name for name in other.implementations if is_reference(name))
        longer = other.milliseconds / now.milliseconds
        text += (
            f" Without the cap that trainer sets it takes {longer:.3g} times as long, on oneDNN's reference path "
            f"({names}): set {ONEDNN}={now.level} in programs of your own."
        )
    return ["\n".join(_wrapped(text))]


def bench_text(found: Comparison) -> str:
    """The table, and in one sentence what sharding buys."""
    whence = "a sample of the set, written as files" if found.images is None else found.images
    if found.skipped:
        whence += f" (skipped: {', '.join(f'{count:,} {reason}' for reason, count in found.skipped.items())})"
    head = (
        f"{found.image_size} pixels, batch {found.batch_size}, recipe {found.recipe}, "
        f"{many(found.workers, 'thread')} decode; "
        f"{many(found.rows, 'row')} of shards against {many(found.files, 'file')}: {whence}; from a warm cache, "
        f"{many(found.rounds, 'round')} by turns"
    )
    python = "Pillow decodes" if found.python_decodes else "bytes from Python"
    names = {PYTHON: f"{PYTHON}, {python}"}
    table = [f"{'source':<38}{'images/s':>10}{'ratio':>8}{'cores':>8}{'memory':>12}"]
    for one in found.sources:
        ratio = 1 / found.gains.get(one.part, 1.0)
        figures = f"{number(one.images_per_s):>10}{ratio:>8.2f}{one.cores:>8.1f}{one.memory_bytes / 2**30:>8.1f} GiB"
        table.append(f"{names.get(one.part, one.part):<38}{figures}")
    shards = many(found.shards, "shard")
    buys = (
        f"The shards give {found.gains[FILES]:.2f} times the images/s of {FILES} and {found.gains[PYTHON]:.2f} times "
        f"those of {PYTHON} in Python threads: {shards} in place of {many(found.files, 'file')}."
    )
    if found.gains[FILES] < EVEN:
        buys += " Both decode in C++; what opening many files costs shows on storage that is cold or far."
    return "\n\n".join(["\n".join(_wrapped(head)), "\n".join(table), "\n".join(_wrapped(buys))])


def _table(found: Diagnosis) -> Iterable[str]:
    limit = found.verdict.limit
    yield f"{'part':<34}{'images/s':>10}{'of limit':>10}{'cores':>8}{'memory':>12}"
    for part in found.parts:
        name = _shown(part, found)
        rates = f"{number(part.images_per_s):>10}{share(part.images_per_s / limit):>10}"
        yield f"{name:<34}{rates}{part.cores:>8.1f}{part.memory_bytes / 2**30:>8.1f} GiB"
    step = next(part.images_per_s for part in found.parts if part.part.startswith("step"))
    for one in found.tried:
        if one.flags.startswith(AMP) and one.part == "step":
            name = f"step alone, {one.flags.removeprefix(AMP)}"
            rate = step * one.gain  # as if it had been measured in the same moments
            yield f"{name:<34}{number(rate):>10}{share(rate / limit):>10}"
    if found.sink not in ("on", "off"):
        yield f"{'whole loop, sink on':<34}{'not here':>10}  {found.sink}"


def _shown(part: Measured, found: Diagnosis) -> str:
    if part.part == "augment":
        return f"+ recipe {found.recipe}"[:33]
    if part.part.startswith("step"):
        return f"step alone, {found.amp_level}"
    return NAMES.get(part.part, f"whole {part.part}")


def _name_of(bound: str) -> str:
    return {FEED: "Feed-bound", COMPUTE: "Compute-bound", BALANCED: "Balanced"}[bound]


def _verdict(found: Diagnosis) -> str:
    verdict, rates = found.verdict, {part.part: part.images_per_s for part in found.parts}
    feed, step = rates["feed"], rates[f"step {found.amp_level}"]
    name = "loop, sink on" if found.sink == "on" else "loop, sink off"
    loop = next(part for part in found.parts if part.part == name)
    wait = "" if loop.data_wait is None else f" and waits for data {loop.data_wait:.0%} of the time"
    pace = f"the feed gives {number(feed)} images/s, the step takes {number(step)}"
    by = {
        FEED: f"{pace}, {verdict.ratio:.1f} times as many. {_of_the_feed(found)}",
        COMPUTE: f"{pace}, and the feed has {verdict.ratio:.1f} times what it needs.",
        BALANCED: f"{pace}, within a tenth of each other: only both at once can be made faster. {_of_the_feed(found)}",
    }[verdict.bound]
    shared = ""
    if verdict.shared:
        shared = f" Both share {many(found.cores, 'core')}, so together they cannot pass {number(verdict.limit)}."
    reached = f"{number(loop.images_per_s)}, {share(loop.images_per_s / verdict.limit)} of the limit"
    short = ""
    if loop.data_wait is not None and loop.data_wait < MARGIN and loop.images_per_s < SHORT * verdict.limit:
        short = " What it lacks are cores, not data: other work has them, or feed and step want the same."
    return f"{by}{shared} The loop reaches {reached}{wait}.{short}"


def _of_the_feed(found: Diagnosis) -> str:
    parts = sorted(found.verdict.parts.items(), key=lambda part: -part[1])
    shares = ", ".join(f"{PARTS[name]} takes {part:.0%}" for name, part in parts if part >= LEAST_SHARE)
    return f"Of the feed's time {shares}."


def _other_work(found: Diagnosis) -> list[str]:
    """What else the machine did when the measuring began, where that was much."""
    if found.load < BUSY * found.cores:
        return []
    text = (
        f"Other programs were at work: the load was {found.load:.1f} on {found.cores} cores before anything was "
        "measured. Rates are lower than on a quiet machine; gains are compared within rounds."
    )
    return ["\n".join(_wrapped(text))]


def _helped(found: Diagnosis) -> list[str]:
    helped = [_recommendation(one) for one in recommended(found.advice)]
    if helped:
        return helped
    if any(one.outcome == UNCERTAIN for one in found.advice):
        return ["nothing for certain; see below."]
    if found.left_out:
        return ["nothing of what was tried, and not all was; see below."]
    return [f"nothing. {WHAT_IS_LEFT[found.verdict.bound]}"]


def _recommendation(advice: Advice) -> str:
    one, alone = advice.evidence, advice.alone
    part = "" if alone is None or alone is one else f"; {alone.part} alone {alone.gain:.2f} times"
    rise = f"{number(one.before)} to {number(one.after)} images/s"
    if one.part != "loop":
        rise = f"{one.part} alone, which decides here, {rise}"
    return f"{one.flags}: {rise}, {one.gain:.2f} times {_spread(one)}{part}{_price(alone or one)}"


def _uncertain(found: Diagnosis) -> list[str]:
    return [_doubt(one) for one in found.advice if one.outcome == UNCERTAIN]


def _doubt(advice: Advice) -> str:
    one = advice.evidence
    what = "whole loop" if one.part == "loop" else f"{one.part} alone"
    why = "" if one.part == "loop" else "; not measured in the whole loop"
    spread = f"{one.lowest:.2f} to {one.highest:.2f}"
    return f"{one.flags}: faster in {one.won} of {one.rounds} rounds, {what} {one.gain:.2f} times ({spread}){why}"


def _spread(one: Tried) -> str:
    return f"({one.lowest:.2f} to {one.highest:.2f} in {one.rounds} rounds)"


def _longer(found: Diagnosis) -> str:
    """The flag that gives more time."""
    return f"--seconds {2 * found.asked_seconds:.0f}"


WHAT_IS_LEFT = {
    FEED: "What is left: more cores, or smaller images (--image-size).",
    COMPUTE: "What is left: a smaller --model or --image-size, or a faster device.",
    BALANCED: "What is left: a smaller --image-size, which both gain from.",
}


def _without_gain(found: Diagnosis) -> list[str]:
    shown = [f"{one.flags} ({_no_gain(one)})" for one in found.advice if one.outcome == NO_GAIN]
    return [", ".join(shown)] if shown else []


def _no_gain(advice: Advice) -> str:
    alone, loop = advice.alone, advice.loop
    said = [f"{alone.part} {alone.gain:.2f} times"] if alone else []
    if loop:
        said.append(f"whole loop {loop.gain:.2f} times")
    elif advice.is_idle:
        said.append("which is not what limits")
    return ", ".join(said)


def _price(one: Tried) -> str:
    return f" ({one.price})" if one.price else ""


def _section(title: str, lines: Iterable[str]) -> list[str]:
    shown = [line for text in lines for line in _wrapped(text, "- ", "  ")]
    return ["\n".join([title, *shown])] if shown else []


def _wrapped(text: str, first: str = "", rest: str = "") -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def number(rate: float) -> str:
    """Images/s as people read them."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def share(value: float) -> str:
    """A share of the limit, or how many times it."""
    return f"{value:.0%}" if value < MANY else f"{value:,.0f} x"


def eval_text(found: Evaluation) -> str:
    """Return what `trainer eval` prints of a score."""
    other = "" if found.same_data else "; not the dataset it was trained on"
    top5 = "" if found.top5 is None else f", top-5 {found.top5:.2%}"
    hits = f"{found.correct} of {found.rows}"
    first = f"{found.split} accuracy {found.accuracy:.2%} ({hits}){top5}, loss {decimals(found.loss)}{other}"
    return "\n".join(filter(None, [first, summary(found)]))
