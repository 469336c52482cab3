"""The text of `trainer doctor` and `trainer bench`, for a terminal of 80 columns. Pure."""

import textwrap
from collections.abc import Iterable, Sequence

from schemas.counting import many
from trainer.device.kernels import ONEDNN
from trainer.doctor.advice import Advice, recommended
from trainer.doctor.bench import FILES, PYTHON, Comparison
from trainer.doctor.convolution import is_reference
from trainer.doctor.diagnose import Diagnosis
from trainer.doctor.notes import BottleneckFound, Checking, Measuring, Note, SkippedFiles, Trying, WritingSample
from trainer.doctor.remedies import NO_GAIN, UNCERTAIN
from trainer.doctor.stages import Measured
from trainer.training.meter import BALANCED, COMPUTE, FEED, MARGIN

WIDTH = 80
SHORT = 0.9  # share of the limit; a slower loop that hardly waits for data is short of cores
EVEN = 1.1  # speedup over files; below it, the text says when shards are faster
BUSY = 0.5  # load per core, above which the text mentions other programs
MANY = 10  # larger shares are shown as multiples
LEAST_SHARE = 0.01  # smaller shares of the time of the feed are left out
AMP = "--amp-level "
NAMES = {"read": "read records", "decode": "+ decode", "feed": "+ batch and copy: the feed"}
BOUNDS = {FEED: "Feed-bound", COMPUTE: "Compute-bound", BALANCED: "Balanced"}
PARTS = {"read": "reading", "decode": "decoding", "augment": "recipe", "batch": "batching"}


def note_text(note: Note) -> str:
    """Return a progress note as one line."""
    match note:
        case Checking():
            return f"checking {note.folder}"
        case Measuring():
            return f"measuring for about {note.seconds:.0f} s{', starting with compilation' if note.compiles else ''}"
        case BottleneckFound():
            return f"bottleneck: {note.bound}, at most {note.images_per_s:.3g} images/s; trying remedies"
        case Trying():
            rows = "" if note.rows is None else f" on {many(note.rows, 'row')}"
            folder = "" if note.folder is None else f" in {note.folder}"
            return f"trying {', '.join(note.flags)}{rows}{folder}{' in the whole loop' if note.in_loop else ''}"
        case WritingSample():
            sample = f"{note.rows} of {many(note.all_rows, 'row')} as files and as a shard"
            return f"writing {sample} (at most {note.most_bytes >> 20} MiB)"
        case SkippedFiles():
            return f"skipped in {note.folder}: {', '.join(f'{n:,} {reason}' for reason, n in note.counts.items())}"


def doctor_text(diagnosis: Diagnosis) -> str:
    """Return the table, the bottleneck, the results of the trials, and the known problems."""
    head = (
        f"{diagnosis.model}, {diagnosis.image_size} pixels, batch {diagnosis.batch_size}, recipe {diagnosis.recipe}, "
        f"on {diagnosis.device} with {many(diagnosis.cores, 'core')}"
    )
    slowing, others = [[one for one in diagnosis.traps if one.limits is limits] for limits in (True, False)]
    uncertain = [one for one in diagnosis.advice if one.outcome == UNCERTAIN]
    sections = [
        "\n".join(_wrapped(head)),
        "\n".join(_table(diagnosis)),
        *_convolutions(diagnosis),
        "\n".join(_wrapped(f"{BOUNDS[diagnosis.verdict.bound]}: {_verdict(diagnosis)}")),
        *_other_work(diagnosis),
        *_section("Faster settings (measured interleaved with the current ones):", _helped(diagnosis)),
        *_section(f"Uncertain ({_longer(diagnosis)} gives a clearer answer):", map(_uncertain, uncertain)),
        *_section("Tried, no consistent gain:", _without_gain(diagnosis)),
        *_section("Known problems:", (f"{one.name}: {one.seen}. Fix: {one.remedy}." for one in slowing)),
        *_section("Known problems that do not slow this run:", (f"{one.name}: {one.seen}." for one in others)),
        *_section("Failed to run here:", (f"{flags}: {why}" for flags, why in diagnosis.failed.items())),
        *_section(f"Not measured ({_longer(diagnosis)} allows more):", diagnosis.left_out),
    ]
    return "\n\n".join(sections)


def _convolutions(diagnosis: Diagnosis) -> list[str]:
    """Return a paragraph on the convolution in effect, compared with the convolution without the trainer's limit."""
    if diagnosis.convolutions is None:
        return []
    now, other = diagnosis.convolutions.in_effect, diagnosis.convolutions.other
    text = f"A small convolution takes {now.milliseconds:.3g} ms with {now.level} ({', '.join(now.implementations)})."
    if other is not None and other.is_reference and not now.is_reference:
        names = ", ".join(name for name in other.implementations if is_reference(name))
        longer = other.milliseconds / now.milliseconds
        text += (
            f" Without the limit that trainer sets, the convolution takes {longer:.3g} times as long, on oneDNN's "
            f"reference path ({names}): set {ONEDNN}={now.level} in your own programs."
        )
    return ["\n".join(_wrapped(text))]


def bench_text(comparison: Comparison) -> str:
    """Return the table of sources and a sentence with the speedup of shards."""
    source = "written from a sample of the rows" if comparison.images is None else f"in {comparison.images}"
    if comparison.skipped:
        source += f" (skipped: {', '.join(f'{count:,} {reason}' for reason, count in comparison.skipped.items())})"
    head = (
        f"{comparison.image_size} pixels, batch {comparison.batch_size}, recipe {comparison.recipe}, "
        f"{many(comparison.workers, 'decoding thread')}; "
        f"{many(comparison.rows, 'row')} in shards, {many(comparison.files, 'file')} {source}; warm cache, "
        f"{many(comparison.rounds, 'interleaved round')}"
    )
    python = "Pillow decodes" if comparison.python_decodes else "bytes from Python"
    names = {PYTHON: f"{PYTHON}, {python}"}
    table = [f"{'source':<38}{'images/s':>10}{'ratio':>8}{'cores':>8}{'memory':>12}"]
    for one in comparison.sources:
        ratio = 1 / comparison.gains.get(one.part, 1.0)
        figures = f"{number(one.images_per_s):>10}{ratio:>8.2f}{one.cores:>8.1f}{one.memory_bytes / 2**30:>8.1f} GiB"
        table.append(f"{names.get(one.part, one.part):<38}{figures}")
    shards, gains = many(comparison.shards, "shard"), comparison.gains
    gain = (
        f"Shards are {gains[FILES]:.2f} times as fast as {FILES} and {gains[PYTHON]:.2f} times as fast as {PYTHON}"
        f" in Python threads: {shards} instead of {many(comparison.files, 'file')}."
    )
    if gains[FILES] < EVEN:
        gain += " Both sources decode in C++; opening many files takes longer on cold or remote storage."
    return "\n\n".join(["\n".join(_wrapped(head)), "\n".join(table), "\n".join(_wrapped(gain))])


def _table(diagnosis: Diagnosis) -> Iterable[str]:
    limit = diagnosis.verdict.limit
    yield f"{'stage':<34}{'images/s':>10}{'of limit':>10}{'cores':>8}{'memory':>12}"
    for part in diagnosis.parts:
        name = _shown(part, diagnosis)
        rates = f"{number(part.images_per_s):>10}{share(part.images_per_s / limit):>10}"
        yield f"{name:<34}{rates}{part.cores:>8.1f}{part.memory_bytes / 2**30:>8.1f} GiB"
    step = next(part.images_per_s for part in diagnosis.parts if part.part.startswith("step"))
    for one in diagnosis.tried:
        if one.flags.startswith(AMP) and one.part == "step":
            name = f"step alone, {one.flags.removeprefix(AMP)}"
            rate = step * one.gain  # as if both levels were measured at the same time
            yield f"{name:<34}{number(rate):>10}{share(rate / limit):>10}"
    if diagnosis.sink not in ("on", "off"):
        yield f"{'whole loop, sink on':<34}{'n/a':>10}  {diagnosis.sink}"


def _shown(part: Measured, diagnosis: Diagnosis) -> str:
    if part.part == "augment":
        return f"+ recipe {diagnosis.recipe}"[:33]
    if part.part.startswith("step"):
        return f"step alone, {diagnosis.amp_level}"
    return NAMES.get(part.part, f"whole {part.part}")


def _verdict(diagnosis: Diagnosis) -> str:
    verdict, rates = diagnosis.verdict, {part.part: part.images_per_s for part in diagnosis.parts}
    feed, step = rates["feed"], rates[f"step {diagnosis.amp_level}"]
    name = "loop, sink on" if diagnosis.sink == "on" else "loop, sink off"
    loop = next(part for part in diagnosis.parts if part.part == name)
    wait = "" if loop.data_wait is None else f", and waits for data {loop.data_wait:.0%} of the time"
    pace = f"the feed delivers {number(feed)} images/s, the step processes {number(step)}"
    by = {
        FEED: f"{pace}, {verdict.ratio:.1f} times as many. {_of_the_feed(diagnosis)}",
        COMPUTE: f"{pace}; the feed is {verdict.ratio:.1f} times as fast as needed.",
        BALANCED: f"{pace}, within a tenth of each other: only changes to both help. {_of_the_feed(diagnosis)}",
    }[verdict.bound]
    shared = ""
    if verdict.shared:
        cores = many(diagnosis.cores, "core")
        shared = f" Feed and step share {cores}, so the loop cannot exceed {number(verdict.limit)} images/s."
    reached = f"{number(loop.images_per_s)} images/s, {share(loop.images_per_s / verdict.limit)} of the limit"
    short = ""
    if loop.data_wait is not None and loop.data_wait < MARGIN and loop.images_per_s < SHORT * verdict.limit:
        short = " The loop is short of cores, not of data: other programs use cores, or feed and step compete."
    return f"{by}{shared} The whole loop reaches {reached}{wait}.{short}"


def _of_the_feed(diagnosis: Diagnosis) -> str:
    parts = sorted(diagnosis.verdict.parts.items(), key=lambda part: -part[1])
    shares = ", ".join(f"{PARTS[name]} {part:.0%}" for name, part in parts if part >= LEAST_SHARE)
    return f"Time of the feed: {shares}."


def _other_work(diagnosis: Diagnosis) -> list[str]:
    """Return a paragraph if other programs were busy before the measurement."""
    if diagnosis.load < BUSY * diagnosis.cores:
        return []
    text = (
        f"Other programs were running: the load was {diagnosis.load:.1f} on {diagnosis.cores} cores before the "
        "measurement. Rates are lower than on an idle machine; gains are compared within rounds."
    )
    return ["\n".join(_wrapped(text))]


def _helped(diagnosis: Diagnosis) -> list[str]:
    helped = [_recommendation(one) for one in recommended(diagnosis.advice)]
    if helped:
        return helped
    if any(one.outcome == UNCERTAIN for one in diagnosis.advice):
        return ["no setting is certain to help; see below."]
    if diagnosis.left_out:
        return ["none of the tried settings; some settings were not tried, see below."]
    return [f"none. {ALTERNATIVES[diagnosis.verdict.bound]}"]


def _recommendation(advice: Advice) -> str:
    one, alone = advice.evidence, advice.alone
    part = "" if alone is None or alone is one else f"; {alone.part} alone {alone.gain:.2f} times"
    rise = f"{number(one.before)} to {number(one.after)} images/s"
    if one.part != "loop":
        rise = f"{one.part} alone (the other stage takes almost no time) {rise}"
    spread = f"({one.lowest:.2f} to {one.highest:.2f} in {one.rounds} rounds)"
    price = f" ({(alone or one).price})" if (alone or one).price else ""
    limit = f"; at most {advice.gain:.2f} times in a long run" if advice.is_capped else ""
    return f"{one.flags}: {rise}, {one.gain:.2f} times as fast {spread}{limit}{part}{price}"


def _uncertain(advice: Advice) -> str:
    one = advice.evidence
    what = "whole loop" if one.part == "loop" else f"{one.part} alone"
    why = "" if one.part == "loop" else "; not measured in the whole loop"
    spread = f"{one.lowest:.2f} to {one.highest:.2f}"
    gain = f"{what} {one.gain:.2f} times as fast ({spread}){why}"
    return f"{one.flags}: faster in {one.won} of {one.rounds} rounds, {gain}"


def _longer(diagnosis: Diagnosis) -> str:
    """Return the option for twice the time."""
    return f"--seconds {2 * diagnosis.asked_seconds:.0f}"


ALTERNATIVES = {
    FEED: "Alternatives: more cores, or smaller images (--image-size).",
    COMPUTE: "Alternatives: a smaller --model or --image-size, or a faster device.",
    BALANCED: "Alternatives: a smaller --image-size, which speeds up feed and step.",
}


def _without_gain(diagnosis: Diagnosis) -> list[str]:
    shown = [f"{one.flags} ({_no_gain(one)})" for one in diagnosis.advice if one.outcome == NO_GAIN]
    return [", ".join(shown)] if shown else []


def _no_gain(advice: Advice) -> str:
    alone, loop = advice.alone, advice.loop
    gains = [f"{alone.part} {alone.gain:.2f} times"] if alone else []
    if loop:
        gains.append(f"whole loop {loop.gain:.2f} times")
    elif advice.is_idle:
        gains.append("not the bottleneck")
    return ", ".join(gains)


def _section(title: str, lines: Iterable[str]) -> list[str]:
    shown = [line for text in lines for line in _wrapped(text, "- ", "  ")]
    return ["\n".join([title, *shown])] if shown else []


def _wrapped(text: str, first: str = "", rest: str = "") -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def number(rate: float) -> str:
    """Return images/s with three digits or more."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def share(value: float) -> str:
    """Return a share of the limit as per cent, or as a multiple if the share is large."""
    return f"{value:.0%}" if value < MANY else f"{value:,.0f} x"
