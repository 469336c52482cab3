"""The cap of CPU instructions: on every kind of machine by saying so, and on this one by what oneDNN reports."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.examples import ROOT
from trainer.config import RunConfig
from trainer.decisions import Decision, StartSettings
from trainer.device.context import InEffect, Machine, decide
from trainer.device.kernels import Processor, decide_kernels, this_processor, use_kernels

WIDE = Processor("AVX512_CORE", mindspore="2.10.0")
NARROW, OLD = replace(WIDE, best="AVX2"), replace(WIDE, mindspore="2.8.0")
OURS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "TRAINER_MAX_CPU_ISA")


def by_user(value: str, processor: Processor = WIDE, variable: str = "ONEDNN_MAX_CPU_ISA") -> Processor:
    return replace(processor, variable=variable, value=value)


def line(effect: InEffect) -> Decision:
    return next(one for one in effect.decisions if one.setting == "CPU kernels")


@pytest.mark.parametrize(
    ("processor", "cap", "level"),
    [
        (WIDE, "AVX2", "AVX2"),
        (replace(WIDE, mindspore="2.9.0rc1"), "AVX2", "AVX2"),
        (replace(WIDE, mindspore="3.0.0"), "AVX2", "AVX2"),
        (replace(WIDE, mindspore=""), "AVX2", "AVX2"),  # installed under another name
        (OLD, None, "AVX512_CORE"),  # not affected: there the wider kernels are the faster ones
        (NARROW, None, "AVX2"),
        (replace(WIDE, best="SSE41"), None, "SSE41"),
        (replace(WIDE, best=None), None, "not x86"),
        (by_user("AVX512_CORE"), None, "AVX512_CORE"),
        (by_user("avx2"), None, "AVX2"),
        (by_user("AVX2_VNNI_2"), None, "AVX2"),
        (by_user("DEFAULT"), None, "AVX512_CORE"),
        (by_user("no such set"), None, "AVX512_CORE"),
        (by_user("AVX512_CORE", NARROW), None, "AVX2"),  # a cap gives a CPU nothing that it lacks
        (by_user("SSE41", variable="DNNL_MAX_CPU_ISA"), None, "SSE41"),
        (by_user("ASIMD", replace(WIDE, best=None)), None, "not x86"),
    ],
)
def test_cap_is_set_only_where_convolutions_are_slow_without_it(
    processor: Processor, cap: str | None, level: str
) -> None:
    kernels = decide_kernels(processor)
    assert (kernels.cap, kernels.level, kernels.warning) == (cap, level, "")
    assert kernels.decision.effect == level


def test_decision_has_request_effect_and_reason() -> None:
    capped = line(decide(RunConfig("d"), Machine(ascend=False, cores=2, processor=WIDE)))
    assert (capped.asked, capped.effect) == ("default", "AVX2")
    assert "MindSpore 2.10.0 use oneDNN's reference path" in capped.why
    wish = by_user("AVX512_CORE", variable="DNNL_MAX_CPU_ISA")
    kept = line(decide(RunConfig("d"), Machine(ascend=False, cores=2, processor=wish)))
    assert (kept.asked, kept.effect) == ("AVX512_CORE", "AVX512_CORE")
    assert kept.why.startswith("DNNL_MAX_CPU_ISA is set; convolutions use oneDNN's reference path")


def test_ascend_has_no_cpu_kernels() -> None:
    effect = decide(RunConfig("d"), Machine(ascend=True, cores=2, processor=WIDE))
    assert effect.kernels is None
    assert "CPU kernels" not in [one.setting for one in effect.decisions]


@pytest.mark.parametrize(
    ("environment", "variable", "value"),
    [
        ({}, "", ""),
        ({"ONEDNN_MAX_CPU_ISA": "AVX"}, "ONEDNN_MAX_CPU_ISA", "AVX"),
        ({"DNNL_MAX_CPU_ISA": "AVX"}, "DNNL_MAX_CPU_ISA", "AVX"),
        ({"ONEDNN_MAX_CPU_ISA": "SSE41", "DNNL_MAX_CPU_ISA": "AVX"}, "ONEDNN_MAX_CPU_ISA", "SSE41"),
        ({"ONEDNN_MAX_CPU_ISA": "", "DNNL_MAX_CPU_ISA": "AVX"}, "DNNL_MAX_CPU_ISA", "AVX"),
        (dict.fromkeys(OURS, "AVX2"), "", ""),
        ({**dict.fromkeys(OURS, "AVX2"), "ONEDNN_MAX_CPU_ISA": "AVX"}, "ONEDNN_MAX_CPU_ISA", "AVX"),
    ],
)
def test_cap_of_the_user_is_read_as_in_onednn(environment: dict[str, str], variable: str, value: str) -> None:
    found = this_processor(environment)
    assert (found.variable, found.value) == (variable, value)


def test_older_mindspore_reads_the_older_spelling_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.8.0")
    assert this_processor({"ONEDNN_MAX_CPU_ISA": "AVX"}).variable == ""
    assert this_processor({"DNNL_MAX_CPU_ISA": "AVX"}).variable == "DNNL_MAX_CPU_ISA"


def test_cap_is_set_for_the_process_and_its_children_in_both_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    environment: dict[str, str] = {}
    monkeypatch.setattr("trainer.device.kernels.os.environ", environment)
    use_kernels(decide_kernels(NARROW))
    use_kernels(decide_kernels(by_user("AVX")))
    assert environment == {}
    use_kernels(decide_kernels(WIDE))
    assert environment == dict.fromkeys(OURS, "AVX2")
    assert decide_kernels(replace(this_processor(environment), best="AVX512_CORE", mindspore="2.10.0")) == (
        decide_kernels(WIDE)
    )


@pytest.mark.parametrize(
    ("processor", "begun", "cap", "level"),
    [
        (WIDE, "AVX2", "AVX2", "AVX2"),
        (WIDE, "AVX512_CORE", "AVX512_CORE", "AVX512_CORE"),  # set by hand then, and left out now
        (WIDE, "SSE41", "SSE41", "SSE41"),
        (NARROW, "AVX", "AVX", "AVX"),
        (NARROW, "AVX2", None, "AVX2"),
        (by_user("AVX2"), "AVX2", None, "AVX2"),
    ],
)
def test_resume_keeps_the_kernels(processor: Processor, begun: str, cap: str | None, level: str) -> None:
    kernels = decide_kernels(processor, StartSettings(begun, "2.10.0"))
    assert (kernels.cap, kernels.level, kernels.warning) == (cap, level, "")


@pytest.mark.parametrize(
    ("processor", "begun", "level", "why"),
    [
        (NARROW, StartSettings("AVX512_CORE", "2.10.0"), "AVX2", "'AVX512_CORE', which this CPU lacks; with 'AVX2'"),
        (
            replace(NARROW, best="AVX"),
            StartSettings("AVX2", "2.10.0"),
            "AVX",
            "'AVX2', which this CPU lacks; with 'AVX'",
        ),
        (replace(NARROW, best=None), StartSettings("AVX2", "2.10.0"), "not x86", "'AVX2', which this CPU lacks"),
        (WIDE, StartSettings("not x86", "2.10.0"), "AVX2", "'not x86', which this CPU lacks"),
        (by_user("AVX"), StartSettings("AVX2", "2.10.0"), "AVX", "but ONEDNN_MAX_CPU_ISA=AVX selects 'AVX'"),
        (WIDE, StartSettings("AVX512_CORE", "2.8.0"), "AVX2", "was started on MindSpore 2.8.0, now it is 2.10.0"),
        (WIDE, StartSettings("", "2.10.0"), "AVX2", "did not record its CPU kernels; unless the kernels were AVX2"),
    ],
)
def test_inexact_resume_gives_the_reason(processor: Processor, begun: StartSettings, level: str, why: str) -> None:
    kernels = decide_kernels(processor, begun)
    assert kernels.level == level
    assert why in kernels.warning
    assert "will differ in the last bits" in kernels.warning


@pytest.mark.parametrize("processor", [NARROW, by_user("AVX512_CORE"), OLD])
def test_older_run_on_an_unaffected_cpu_gives_no_warning(processor: Processor) -> None:
    assert decide_kernels(processor, StartSettings("", processor.mindspore)).warning == ""


# One of each family of layers; the kernels of both modes are the same, and compiling takes most of a minute.
STEPS = """
import sys
from pathlib import Path
from trainer.config import RunConfig
from trainer.device.context import apply, this_machine
from trainer.plan.run_plan import plan_run
from trainer.doctor.stages import CompiledStep

for model, side in (("tiny", 16), ("resnet18", 32), ("resnet50", 32), ("mobilenet_v3", 32), ("convnext_tiny", 32),
                    ("vit_small", 32)):
    config = RunConfig(sys.argv[1], model=model, image_size=side, batch_size=2, workers=1, prefetch=2, device="CPU",
                       mode="graph" if model == "tiny" else "pynative")
    plan = plan_run(config, this_machine("CPU"))
    apply(plan.effect)
    CompiledStep(plan).compile()
    print("STEP", model, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(this_processor({}).best is None, reason="oneDNN names these kernels on x86 only")
def test_no_convolution_of_a_built_in_model_takes_the_reference_path(stripes: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    environment |= {"PYTHONPATH": str(ROOT), "ONEDNN_VERBOSE": "1", "DNNL_VERBOSE": "1"}
    command = [sys.executable, "-c", STEPS, str(stripes)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    seen: set[str] = set()
    for line in done.stdout.splitlines():
        fields = line.split(",")
        if "exec" in fields and fields[fields.index("exec") + 2] == "convolution":
            seen.add(fields[fields.index("exec") + 3])
        elif line.startswith("STEP "):
            assert seen, f"{line} made no convolution"
            assert [name for name in seen if "ref" in name] == [], line
            seen.clear()
    assert done.stdout.count("STEP ") == 6
