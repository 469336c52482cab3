import inspect
from dataclasses import replace

import mindspore
import pytest

from trainer.cli.run_text import table
from trainer.config import RunConfig
from trainer.decisions import Call, Decision
from trainer.device.context import GRAPH_MODE, PYNATIVE_MODE, InEffect, Machine, apply, decide
from trainer.errors import TrainerError, WrongUsage

pytestmark = pytest.mark.slow

ASCEND, PLAIN = Machine(ascend=True, cores=8), Machine(ascend=False, cores=2)


def line(effect: InEffect, setting: str) -> Decision:
    return next(one for one in effect.decisions if one.setting == setting)


def test_default_device_is_ascend_if_available_else_cpu() -> None:
    assert decide(RunConfig("d"), ASCEND).device == "Ascend"
    assert decide(RunConfig("d", device="auto"), PLAIN).device == "CPU"
    assert decide(RunConfig("d", device="CPU"), ASCEND).device == "CPU"


def test_missing_ascend_is_rejected_with_advice() -> None:
    with pytest.raises(TrainerError, match=r"npu-smi info.*--device CPU"):
        decide(RunConfig("d", device="Ascend"), PLAIN)


def test_defaults_on_ascend_are_graph_o2_dynamic_scale_and_sink() -> None:
    effect = decide(RunConfig("d"), ASCEND)
    assert (effect.graph, effect.precision.amp_level, effect.sink, effect.workers) == (True, "O2", True, 8)
    assert [str(call) for call in effect.calls] == [
        "mindspore.set_device(device_target='Ascend')",
        "mindspore.set_context(mode=0)",
        "mindspore.set_seed(seed=0)",
        "mindspore.dataset.config.set_seed(seed=0)",
        "mindspore.dataset.config.set_fast_recovery(fast_recovery=True)",
        "mindspore.dataset.config.set_num_parallel_workers(num=8)",
        "mindspore.dataset.config.set_prefetch_size(size=8)",
        "mindspore.amp.auto_mixed_precision(amp_level='O2')",
        "mindspore.amp.DynamicLossScaler(scale_value=65536, scale_factor=2, scale_window=2000)",
        "mindspore.train.Model.train(dataset_sink_mode=True, sink_size=-1)",
    ]


def test_defaults_on_cpu_are_o0_without_scale_or_sink() -> None:
    effect = decide(RunConfig("d"), PLAIN)
    assert (effect.precision.amp_level, effect.precision.scaler, effect.sink) == ("O0", None, False)
    assert effect.train.arguments == {"dataset_sink_mode": False, "sink_size": -1}


def test_requested_level_is_used_on_cpu() -> None:
    effect = decide(RunConfig("d", amp_level="O2"), PLAIN)
    assert effect.precision.amp_level == "O2"
    assert effect.precision.scaler is not None
    assert line(effect, "amp level") == Decision(
        "amp level", "O2", "O2", "requested, though float16 takes about twice the time on CPU"
    )


def test_sink_requested_on_cpu_is_off_and_the_table_shows_it() -> None:
    effect = decide(RunConfig("d", sink=True), PLAIN)
    assert not effect.sink
    assert (line(effect, "sink").asked, line(effect, "sink").effect) == ("on", "off")
    assert "cannot sink on CPU" in line(effect, "sink").why


def test_profiling_turns_the_sink_off_with_a_reason() -> None:
    effect = decide(RunConfig("d", profile="2..4"), ASCEND)
    assert not effect.sink
    assert "--profile" in line(effect, "sink").why


def test_more_workers_than_cores_are_lowered_and_the_table_shows_it() -> None:
    effect = decide(RunConfig("d", workers=99), PLAIN)
    assert effect.workers == 2
    assert (line(effect, "workers").asked, line(effect, "workers").effect) == ("99", "2")
    assert Call("mindspore.dataset.config.set_num_parallel_workers", {"num": 2}) in effect.setup


@pytest.mark.parametrize(
    ("machine", "mode", "fused"), [(ASCEND, None, True), (ASCEND, "pynative", False), (PLAIN, None, False)]
)
def test_graph_kernel_is_fused_in_graph_mode_on_ascend_only(machine: Machine, mode: str | None, fused: bool) -> None:
    effect = decide(RunConfig("d", graph_kernel=True, mode=mode), machine)
    context = next(call for call in effect.setup if call.name == "mindspore.set_context")
    assert ("jit_config" in context.arguments) is fused
    assert line(effect, "graph kernel").effect == ("on" if fused else "off")


def test_cpu_uses_one_thread_per_operator() -> None:
    call = Call("mindspore.device_context.cpu.op_tuning.threads_num", {"num": 1})
    assert call in decide(RunConfig("d", mode="pynative"), PLAIN).setup
    assert call in decide(RunConfig("d"), PLAIN).setup
    assert call not in decide(RunConfig("d"), ASCEND).setup


@pytest.mark.parametrize(
    ("machine", "mode", "effect"), [(ASCEND, None, "O2"), (ASCEND, "pynative", "default"), (PLAIN, None, "default")]
)
def test_jit_level_has_its_effect_in_graph_mode_on_ascend_only(machine: Machine, mode: str | None, effect: str) -> None:
    decided = decide(RunConfig("d", jit_level="O2", mode=mode), machine)
    assert line(decided, "jit level").effect == effect
    context = next(call for call in decided.setup if call.name == "mindspore.set_context")
    assert context.arguments.get("jit_config") == ({"jit_level": "O2"} if effect == "O2" else None)


def test_sink_size_reaches_the_training_call_and_is_explained() -> None:
    decided = decide(RunConfig("d", sink_size=100), ASCEND, steps=1000)
    assert str(decided.train) == "mindspore.train.Model.train(dataset_sink_mode=True, sink_size=100)"
    assert (decided.callback_steps, line(decided, "callbacks").effect) == (100, "every 100 steps")


def test_bfloat16_is_a_type_of_the_precision_call_on_ascend_and_lowered_on_cpu() -> None:
    asked = RunConfig("d", amp_dtype="bfloat16", amp_level="O2")
    on_ascend, on_cpu = decide(asked, ASCEND).precision, decide(asked, PLAIN).precision
    assert str(on_ascend.amp).endswith("auto_mixed_precision(amp_level='O2', dtype=mindspore.bfloat16)")
    assert on_ascend.scaler is None
    assert (on_cpu.amp_dtype, on_cpu.scaler is None) == ("float16", False)
    assert "no bfloat16 kernels for CPU" in next(d.why for d in on_cpu.decisions if d.setting == "amp dtype")
    network = mindspore.nn.Dense(2, 2)
    assert on_ascend.amp.make(network) is not network


def test_numpy_2_is_rejected_with_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numpy.__version__", "2.1.0")
    with pytest.raises(TrainerError, match=r"NumPy 2\.1\.0 is installed.*pip install 'numpy<2'"):
        apply(decide(RunConfig("d"), PLAIN))


def test_pynative_mode_on_ascend_does_not_sink_unless_asked() -> None:
    assert not decide(RunConfig("d", mode="pynative"), ASCEND).sink
    assert decide(RunConfig("d", mode="pynative", sink=True), ASCEND).sink


@pytest.mark.parametrize("machine", [ASCEND, PLAIN])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"ranks": 2},
        {"amp_level": "O2", "loss_scale": "8", "graph_kernel": True},
        {"mode": "pynative"},
        {"amp_dtype": "bfloat16"},
    ],
)
def test_every_call_fits_the_signature_of_the_installed_mindspore(machine: Machine, asked: dict[str, object]) -> None:
    leading = {"mindspore.amp.auto_mixed_precision": ("net",), "mindspore.train.Model.train": ("model", 1, "set", [])}
    for call in decide(RunConfig("d", **asked), machine).calls:  # type: ignore[arg-type]
        inspect.signature(call.resolve()).bind(*leading.get(call.name, ()), **call.arguments)


def test_mode_numbers_are_those_of_mindspore() -> None:
    assert (GRAPH_MODE, PYNATIVE_MODE) == (mindspore.GRAPH_MODE, mindspore.PYNATIVE_MODE)


def test_ranks_set_up_communication_after_the_device_and_before_the_seeds() -> None:
    effect = decide(RunConfig("d", ranks=4), PLAIN)
    assert [call.name for call in effect.setup][:6] == [
        "mindspore.set_device",
        "mindspore.set_context",
        "mindspore.device_context.cpu.op_tuning.threads_num",
        "mindspore.communication.init",
        "mindspore.set_auto_parallel_context",
        "mindspore.set_seed",
    ]
    assert (effect.num_shards, effect.shard_id, effect.workers) == (4, 0, 1)


def test_ranks_of_the_users_own_msrun_are_used_and_another_number_is_rejected() -> None:
    third = Machine(ascend=False, cores=8, rank=2, ranks=4)
    effect = decide(RunConfig("d"), third)
    assert (effect.num_shards, effect.shard_id, effect.workers) == (4, 2, 2)
    with pytest.raises(TrainerError, match="--ranks 2 was requested, but msrun has started 4"):
        decide(RunConfig("d", ranks=2), third)


def test_rank_is_always_given() -> None:
    effect = decide(RunConfig("d"), PLAIN)
    assert (effect.num_shards, effect.shard_id) == (1, 0)


def test_table_is_aligned() -> None:
    assert table([Decision("sink", "on", "off", "CPU"), Decision("amp level", "default", "O0", "dear")]) == (
        "setting    requested  in effect  why\n"
        "sink       on         off        CPU\n"
        "amp level  default    O0         dear"
    )


def test_table_for_ascend_lists_the_settings_left_to_mindspore() -> None:
    effect = decide(RunConfig("d"), ASCEND)
    assert line(effect, "jit level").effect == "default"
    assert line(effect, "precision mode").effect == "must_keep_origin_dtype"
    assert (line(effect, "compile cache").asked, line(effect, "compile cache").effect) == ("default", "off")
    cached = line(decide(RunConfig("d"), replace(ASCEND, compile_cache=True)), "compile cache")
    assert (cached.asked, cached.effect) == ("on", "on")
    assert not {"precision mode", "compile cache"} & {one.setting for one in decide(RunConfig("d"), PLAIN).decisions}


def test_binding_needs_processes_that_the_program_starts() -> None:
    assert line(decide(RunConfig("d", ranks=2, bind="core"), ASCEND), "bind").why == "msrun --bind_core=True"
    with pytest.raises(WrongUsage, match="--bind numa binds the processes of --ranks; give --ranks"):
        decide(RunConfig("d", bind="numa"), ASCEND)
    with pytest.raises(WrongUsage, match="or let msrun bind them"):
        decide(RunConfig("d", bind="core"), replace(ASCEND, ranks=4))


def test_plain_defaults_are_those_that_no_machine_has_changed() -> None:
    shown = [one.setting for one in decide(RunConfig("d", amp_level="O1"), PLAIN).decisions if not one.plain]
    assert shown == ["device", "amp level"]


def test_call_of_a_missing_function_fails() -> None:
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        Call("mindspore.no_such_thing").resolve()
