"""The implementations that oneDNN reports, in the formats of its versions, and by a child on this machine."""

import subprocess
from typing import Any

import pytest

from trainer.device.kernels import Processor, decide_kernels, this_processor, use_kernels
from trainer.doctor import convolution
from trainer.doctor.convolution import Convolution, Convolutions, implementations, measure_convolutions, read_report

NEW = "onednn_verbose,v1,primitive,exec,cpu,{},{},{},src:f32:a:blocked:abcd::f0 wei:f32::blocked:abcd::f0,,,mb4,0.4"
OLD = "dnnl_verbose,exec,cpu,{},{},{},src_f32::blocked:abcd:f0 wei_f32::blocked:abcd:f0,,alg:convolution_direct,mb4,0.4"
WIDE = Processor("AVX512_CORE", mindspore="2.10.0")
REFERENCE = "jit_uni_ncsp:conv+ref:any"


@pytest.mark.parametrize("form", [NEW, OLD], ids=["oneDNN 3", "oneDNN 2"])
def test_implementations_are_those_of_convolutions_alone_each_once(form: str) -> None:
    lines = [
        "onednn_verbose,v1,info,cpu,isa:Intel AVX2",
        form.format("convolution", "x64:gemm:jit", "forward_training"),
        form.format("convolution", REFERENCE, "backward_data"),
        form.format("batch_normalization", "ref:any", "backward"),
        form.format("convolution", "x64:gemm:jit", "backward_weights"),
        "convolution of the user's own, exec,",
        "milliseconds 12.5",
    ]
    assert implementations("\n".join(lines)) == (REFERENCE, "x64:gemm:jit")
    report = read_report("AVX512_CORE", "\n".join(lines))
    assert report == Convolution("AVX512_CORE", (REFERENCE, "x64:gemm:jit"), 12.5)
    assert report.is_reference


@pytest.mark.parametrize(
    "printed", ["", "milliseconds 3.5\n", NEW.format("convolution", "ref:any", "forward_training")]
)
def test_child_that_did_not_finish_gives_no_report(printed: str) -> None:
    assert read_report("AVX2", printed) is None


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The variables of each child that would be started; one that may use AVX-512 takes the reference path."""
    started: list[dict[str, str]] = []

    def in_child(level: str, variables: dict[str, str]) -> Convolution:
        started.append(variables)
        name = REFERENCE if level == "AVX512_CORE" else "x64:gemm:jit"
        return Convolution(level, (name,), 1.0)

    monkeypatch.setattr(convolution, "measure_in_child", in_child)
    return started


CAPPED = dict.fromkeys(("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"), "AVX2")
OPEN = dict.fromkeys(("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "TRAINER_MAX_CPU_ISA"), "DEFAULT")


@pytest.mark.parametrize(
    ("processor", "levels", "variables"),
    [
        (WIDE, ["AVX2", "AVX512_CORE"], [{}, OPEN]),
        (Processor("AVX512_CORE", "DNNL_MAX_CPU_ISA", "DEFAULT", "2.10.0"), ["AVX512_CORE", "AVX2"], [{}, CAPPED]),
        (Processor("AVX512_CORE", "DNNL_MAX_CPU_ISA", "AVX", "2.10.0"), ["AVX"], [{}]),
        (Processor("AVX2", mindspore="2.10.0"), ["AVX2"], [{}]),
        (Processor(None, mindspore="2.10.0"), ["not x86"], [{}]),
    ],
)
def test_convolution_is_compared_if_a_limit_decides(
    processor: Processor, levels: list[str], variables: list[dict[str, str]], children: list[dict[str, str]]
) -> None:
    found = measure_convolutions(decide_kernels(processor))
    assert found is not None
    assert [one.level for one in (found.in_effect, found.other) if one is not None] == levels
    assert children == variables


@pytest.mark.parametrize("failure", [OSError("no memory"), subprocess.TimeoutExpired("python", 60)])
def test_child_that_cannot_start_does_not_fail_the_doctor(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(subprocess, "run", run)
    assert measure_convolutions(decide_kernels(WIDE)) is None


@pytest.mark.slow
def test_convolution_of_this_machine_is_measured_and_not_on_the_reference_path(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    processor = this_processor({})
    if processor.best is None:
        pytest.skip("oneDNN names these kernels on x86 only")
    kernels = decide_kernels(processor)
    use_kernels(kernels)
    found = measure_convolutions(kernels)
    assert found is not None
    assert found.in_effect.implementations
    assert not found.in_effect.is_reference
    assert isinstance(found, Convolutions)
    if processor.is_slow:
        assert found.other is not None
        assert found.other.is_reference
        assert found.other.milliseconds > 0
