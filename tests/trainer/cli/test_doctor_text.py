"""The text of the doctor, for a diagnosis that is made up."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.trainer.diagnosis import FAST, FOUND, RATES, SLOW, measured, trial
from trainer.cli.commands import cli
from trainer.cli.doctor_text import doctor_text, note_text, number, share
from trainer.config import RunConfig
from trainer.doctor import diagnose
from trainer.doctor.advice import conclude
from trainer.doctor.convolution import Convolutions
from trainer.doctor.diagnose import Diagnosis
from trainer.doctor.notes import BottleneckFound, Checking, Measuring, Note, SkippedFiles, Trying, WritingSample
from trainer.doctor.remedies import Tried
from trainer.doctor.verdict import Rates
from trainer.training.meter import BALANCED, COMPUTE

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (Checking(Path("set")), "checking set"),
        (Measuring(60.0), "measuring for about 60 s"),
        (Measuring(60.0, compiles=True), "measuring for about 60 s, starting with compilation"),
        (BottleneckFound("feed", 1234.0), "bottleneck: feed, at most 1.23e+03 images/s; trying remedies"),
        (Trying(("--workers 2", "--prefetch 4")), "trying --workers 2, --prefetch 4"),
        (Trying(("a",), 1, Path("t")), "trying a on 1 row in t"),
        (Trying(("a",), in_loop=True), "trying a in the whole loop"),
        (WritingSample(5, 9, 1 << 28), "writing 5 of 9 rows as files and as a shard (at most 256 MiB)"),
        (SkippedFiles(Path("raw"), {"unreadable": 1000, "x": 1}), "skipped in raw: 1,000 unreadable, 1 x"),
    ],
)
def test_each_progress_note_is_one_line(note: Note, text: str) -> None:
    assert note_text(note) == text


def test_convolution_is_shown_with_that_of_plain_mindspore() -> None:
    section = doctor_text(replace(FOUND, convolutions=Convolutions(FAST, SLOW))).split("\n\n")[2]
    assert section.splitlines() == [
        "A small convolution takes 2 ms with AVX2 (x64:gemm:jit). Without the limit that",
        "trainer sets, the convolution takes 45 times as long, on oneDNN's reference path",
        "(jit_uni_ncsp:conv+ref:any): set ONEDNN_MAX_CPU_ISA=AVX2 in your own programs.",
    ]
    alone = doctor_text(replace(FOUND, convolutions=Convolutions(FAST))).split("\n\n")[2]
    assert alone == "A small convolution takes 2 ms with AVX2 (x64:gemm:jit)."


def test_table_and_verdict_fit_a_terminal_and_read_from_top_to_bottom() -> None:
    assert doctor_text(FOUND).splitlines() == [
        "resnet18, 224 pixels, batch 32, recipe imagenet, on CPU with 2 cores",
        "",
        "stage                               images/s  of limit   cores      memory",
        "read records                           4,000      20 x     1.9     2.0 GiB",
        "+ decode                                 300      150%     1.9     2.0 GiB",
        "+ recipe imagenet                        250      125%     1.9     2.0 GiB",
        "+ batch and copy: the feed               200      100%     1.9     2.0 GiB",
        "step alone, O0                           640      320%     1.9     2.0 GiB",
        "whole loop, sink off                     180       90%     1.9     2.0 GiB",
        "step alone, O2                           320      160%",
        "whole loop, sink on                      n/a  MindSpore cannot sink on CPU",
        "",
        "Feed-bound: the feed delivers 200 images/s, the step processes 640, 3.2 times as",
        "many. Time of the feed: decoding 62%, batching 20%, recipe 13%, reading 5%. The",
        "whole loop reaches 180 images/s, 90% of the limit, and waits for data 70% of the",
        "time.",
        "",
        "Faster settings (measured interleaved with the current ones):",
        "- dataprep shard ... --resize 256: 181 to 398 images/s, 2.20 times as fast (2.10",
        "  to 2.30 in 3 rounds); feed alone 2.20 times (discards pixels)",
        "",
        "Tried, no consistent gain:",
        "- --prefetch 16 (feed 1.01 times), --amp-level O2 (step 0.50 times)",
        "",
        "Known problems:",
        "- large images: the median shorter side is 480 pixels, training uses 224. Fix:",
        "  --resize 256.",
        "",
        "Known problems that do not slow this run:",
        "- small batch: batches of 64 process 1.40 times as many images per second.",
        "",
        "Failed to run here:",
        "- --amp-level O1: no such kernel",
        "",
        "Not measured (--seconds 120 allows more):",
        "- --amp-level O3",
    ]


def text_of(*tried: Tried, rates: Rates = RATES, **changes: object) -> str:
    found = replace(FOUND, tried=list(tried), advice=conclude(tried, rates), left_out=[], **changes)
    return " ".join(doctor_text(found).split())


def test_gain_in_some_rounds_is_uncertain() -> None:
    text = text_of(trial("--a", "feed", 100, 1.4, 1.45, 0.9), asked_seconds=60.0)
    assert "- no setting is certain to help; see below. Uncertain (--seconds 120 gives a clearer answer):" in text
    assert (
        "- --a: faster in 2 of 3 rounds, feed alone 1.40 times as fast (0.90 to 1.45); not measured in the whole"
        in text
    )
    assert "no consistent gain" not in text


def test_loop_that_gained_in_some_rounds_is_uncertain_with_its_own_figures() -> None:
    text = text_of(
        trial("--a", "feed", 100, 1.5, 1.5, 1.5), trial("--a", "loop", 90, 1.3, 0.8, 1.2), asked_seconds=30.0
    )
    assert "Uncertain (--seconds 60 gives" in text
    assert "- --a: faster in 2 of 3 rounds, whole loop 1.20 times as fast (0.80 to 1.30) Known" in text


def test_none_is_printed_only_if_every_setting_was_tried_and_gained_less_than_five_percent() -> None:
    text = text_of(trial("--a", "feed", 100, 1.04, 1.04, 1.04))
    assert "- none. Alternatives: more cores" in text
    assert "Tried, no consistent gain: - --a (feed 1.04 times)" in text
    assert "Uncertain" not in text
    left_out = " ".join(doctor_text(replace(FOUND, tried=[], advice=[], left_out=["--amp-level O0"])).split())
    assert "- none of the tried settings; some settings were not tried, see below." in left_out
    assert "Not measured (--seconds 120 allows more): - --amp-level O0" in left_out


def test_other_work_on_the_machine_is_reported() -> None:
    assert "the load was 14.6 on 2 cores before the measurement" in text_of(load=14.6)
    assert "Other programs" not in text_of(load=0.9)


def test_level_that_was_tried_in_the_loop_too_has_one_row() -> None:
    trials = [trial("--amp-level O1", part, 640, 1.5, 1.5, 1.5) for part in ("step", "loop")]
    text = text_of(*trials)
    assert text.count("step alone, O1") == 1


def test_stage_whose_trial_decides_alone_is_recommended_by_its_own_figures() -> None:
    slow = replace(RATES, feed=5000.0, step=10.0)
    text = text_of(trial("--amp-level O0", "step", 10, 1.4, 1.45, 1.5, price="different rounding"), rates=slow)
    assert "step alone (the other stage takes almost no time) 10 to 14.5 images/s, 1.45 times as fast (1.40" in text


def test_stage_that_gained_without_effect_on_the_loop_is_listed_with_both() -> None:
    slower = text_of(trial("--a", "feed", 100, 1.5, 1.5, 1.5), trial("--a", "loop", 200, 0.5, 0.5, 0.5))
    assert "Tried, no consistent gain: - --a (feed 1.50 times, whole loop 0.50 times)" in slower
    assert "--a (step 1.90 times, not the bottleneck)" in text_of(trial("--a", "step", 100, 1.9, 1.9, 1.9))


@pytest.mark.parametrize("loop", [(1.3, 1.3, 1.3), (1.3, 0.8, 1.3), (1.0, 1.0, 1.0), ()])
@pytest.mark.parametrize("part", [(1.5, 1.5, 1.5), (1.5, 0.8, 1.5), (1.0, 1.0, 1.0)])
def test_flag_is_listed_in_one_section_only(part: tuple[float, ...], loop: tuple[float, ...]) -> None:
    trials = [trial("--flag", "feed", 100, *part), *([trial("--flag", "loop", 100, *loop)] if loop else [])]
    advice = conclude(trials, RATES)
    text = doctor_text(replace(FOUND, tried=trials, advice=advice, traps=[], left_out=[]))
    assert text.count("--flag") == 1


def test_cores_that_are_shared_are_named_as_the_limit() -> None:
    verdict = replace(FOUND.verdict, bound=BALANCED, ratio=1.02, limit=150.0, shared=True)
    text = " ".join(doctor_text(replace(FOUND, verdict=verdict)).split())
    assert "Balanced: the feed delivers 200 images/s, the step processes 640, within a tenth of each other" in text
    assert "Feed and step share 2 cores, so the loop cannot exceed 150 images/s. The whole loop reaches 180" in text


def test_loop_is_that_of_the_requested_sink() -> None:
    parts = [*FOUND.parts[:-1], measured("loop, sink on", 190), measured("loop, sink off", 150, 0.2)]
    on = " ".join(doctor_text(replace(FOUND, sink="on", parts=parts)).split())
    off = " ".join(doctor_text(replace(FOUND, sink="off", parts=parts)).split())
    assert "The whole loop reaches 190 images/s, 95% of the limit. Faster settings" in on
    assert "reaches 150 images/s, 75% of the limit, and waits for data 20% of the time." in off
    assert "n/a" not in on + off


def test_clean_run_has_no_empty_sections() -> None:
    verdict = replace(FOUND.verdict, bound=COMPUTE, ratio=3.0)
    clean = replace(FOUND, verdict=verdict, tried=[], advice=[], traps=[], failed={}, left_out=[])
    text = doctor_text(clean)
    assert "the feed is 3.0 times as fast as needed" in " ".join(text.split())
    assert text.endswith("- none. Alternatives: a smaller --model or --image-size, or a faster device.")


@pytest.mark.parametrize(("rate", "text"), [(12345.6, "12,346"), (100, "100"), (99.94, "99.9"), (1.234, "1.23")])
def test_rates_have_three_digits(rate: float, text: str) -> None:
    assert number(rate) == text


@pytest.mark.parametrize(("value", "text"), [(0.954, "95%"), (9.99, "999%"), (10, "10 x")])
def test_large_shares_are_multiples(value: float, text: str) -> None:
    assert share(value) == text


def test_command_prints_the_text_or_all_of_it_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[RunConfig, float]] = []

    def fake(config: RunConfig, seconds: float, *rest: object) -> Diagnosis:
        given.append((config, seconds))
        return FOUND

    monkeypatch.setattr(diagnose, "diagnose", fake)
    asked = ["doctor", "set", "--recipe", "imagenet", "--freeze", "stem"]
    assert CliRunner().invoke(cli, asked).stdout == doctor_text(FOUND) + "\n"
    printed = CliRunner().invoke(cli, [*asked, "--seconds", "90", "--json"]).stdout
    assert json.loads(printed) == json.loads(json.dumps(dataclasses.asdict(FOUND)))
    assert given == [(RunConfig("set", recipe="imagenet", freeze=("stem",)), seconds) for seconds in (60.0, 90.0)]
