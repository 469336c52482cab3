"""Each trap where it just applies, with its figures, and where it just does not."""

from dataclasses import replace
from typing import Any

import pytest

from trainer.doctor.traps import Observation, find_traps

CLEAN = Observation(
    device="CPU",
    graph=True,
    amp_level="O0",
    sink=False,
    sink_asked=None,
    sink_why="MindSpore cannot sink on CPU",
    workers=8,
    workers_asked=None,
    cores=8,
    cores_busy=7.9,
    feed_bound=True,
    readers=1,
    readers_wanted=1,
    files=16,
    open_files_wanted=288,
    open_files_limit=4096,
    batch_size=32,
    image_side=224,
    short_side=256,
    resize_side=256,
    python_ops=(),
    mixing=False,
    limit_per_s=900.0,
    storage="ext4",
    network=False,
    cold_per_s=4000.0,
    cached_per_s=30000.0,
)
ASCEND = replace(CLEAN, device="Ascend", amp_level="O2", sink=True, sink_why="the device fetches its own batches")


@pytest.mark.parametrize("seen", [CLEAN, ASCEND], ids=["CPU", "Ascend"])
def test_a_run_without_traps_has_none(seen: Observation) -> None:
    assert find_traps(seen) == []


@pytest.mark.parametrize(
    ("base", "changes", "name", "figure", "remedy"),
    [
        (
            CLEAN,
            {"kernels_asked": "AVX512_CORE", "reference": ("jit_uni_ncsp:conv+ref:any",), "kernels_gain": 45.2},
            "reference convolutions",
            "(jit_uni_ncsp:conv+ref:any); with AVX2, a convolution was 45.2 times as fast",
            "unset ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA",
        ),
        (ASCEND, {"graph": False, "sink": False}, "pynative mode", "one at a time", "--mode graph"),
        (CLEAN, {"graph": False, "graph_gain": 2.5}, "pynative mode", "2.50 times as fast", "--mode graph"),
        (ASCEND, {"amp_level": "O0", "o2_gain": 1.8}, "O0 on Ascend", "O2 was 1.80 times", "--amp-level O2"),
        (CLEAN, {"sink_asked": True}, "sink not in effect", "off: MindSpore cannot sink on CPU", "omit --sink"),
        (ASCEND, {"sink": False, "sink_asked": False}, "no sink on Ascend", "waits for every step", "--no-sink"),
        (
            CLEAN,
            {"python_ops": ("RandomErasing", "mine")},
            "Python transforms",
            "in Python: RandomErasing, mine;",
            "C++",
        ),
        (CLEAN, {"short_side": 480}, "large images", "480 pixels, training uses 224", "--resize 256"),
        (CLEAN, {"workers": 2, "workers_asked": 2, "cores_busy": 2.1}, "few workers", "2.1 of 8", "--workers 8"),
        (CLEAN, {"workers": 2, "cores_busy": 2.1}, "few workers", "with 2 decoding", "free some memory"),
        (CLEAN, {"workers_asked": 64}, "many workers", "64 threads were requested", "--workers 8"),
        (CLEAN, {"cold_per_s": 300.0}, "slow storage", "300 rows/s, 30,000", "local disk"),
        (CLEAN, {"network": True, "storage": "nfs4"}, "network storage", "on nfs4", "local disk"),
        (CLEAN, {"batch_gain": 1.4}, "small batch", "64 process 1.40 times", "--batch-size 64"),
        (CLEAN, {"mixing": True}, "mixing in Python", "NumPy", "omit mixup"),
        (
            CLEAN,
            {"files": 3000, "readers_wanted": 2, "open_files_wanted": 9256},
            "open files",
            "9,256 open files, but the hard limit is 4,096; reduced to 1 reader",
            "--shard-size",
        ),
    ],
)
def test_trap_is_named_with_its_figures_and_a_remedy(
    base: Observation, changes: dict[str, Any], name: str, figure: str, remedy: str
) -> None:
    [trap] = find_traps(replace(base, **changes))
    assert trap.name == name
    assert figure in trap.seen
    assert remedy in trap.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {"short_side": 350},  # a little larger than the crop
        {"short_side": 400, "resize_side": 400},  # no smaller shards would do
        {"workers": 2, "cores_busy": 7.0},  # all cores are busy anyway
        {"workers": 2, "cores_busy": 2.1, "feed_bound": False},
        {"mixing": True, "feed_bound": False},
        {"batch_gain": 1.1},
        {"cold_per_s": 1000.0},  # slower than the cache, faster than training
        {"cold_per_s": 800.0, "cached_per_s": 1000.0},  # the storage is as fast as its cache
        {"cold_per_s": None, "cached_per_s": None},
        {"sink_asked": False},
        {"reference": ("ref:any",)},  # nothing to compare it with
        {"reference": ("ref:any",), "kernels_gain": 1.1},
        {"kernels_asked": "AVX2"},
        {"open_files_wanted": 4096},
        # Tried without gain, so not recommended.
        {"short_side": 480, "useless_flags": ("dataprep shard ... --resize 256",)},
        {"workers": 2, "workers_asked": 2, "cores_busy": 2.1, "useless_flags": ("--workers 8",)},
        {"graph": False, "useless_flags": ("--mode graph",)},
        {"device": "Ascend", "sink": True, "useless_flags": ("--amp-level O2",)},
    ],
)
def test_trap_just_below_its_threshold_is_not_reported(changes: dict[str, Any]) -> None:
    assert find_traps(replace(CLEAN, **changes)) == []


NOT_NOW = {"feed_bound": False, "feed_limits": False, "step_limits": False}


@pytest.mark.parametrize(
    ("base", "changes", "limiting"),
    [
        (CLEAN, {"short_side": 480}, "feed"),
        (CLEAN, {"python_ops": ("mine",)}, "feed"),
        (CLEAN, {"workers_asked": 64}, "feed"),
        (CLEAN, {"graph": False}, "step"),
        (CLEAN, {"batch_gain": 1.4}, "step"),
        (CLEAN, {"reference": ("ref:any",), "kernels_gain": 45.2}, "step"),
        (ASCEND, {"amp_level": "O0"}, "step"),
        (CLEAN, {"network": True}, "reading"),
        (CLEAN, {"cold_per_s": 300.0}, "reading"),
    ],
)
def test_trap_says_whether_it_is_the_bottleneck(base: Observation, changes: dict[str, Any], limiting: str) -> None:
    idle = replace(base, **{**NOT_NOW, **changes})
    [trap] = find_traps(idle)
    assert not trap.limits
    [trap] = find_traps(replace(idle, **{f"{limiting}_limits": True}))
    assert trap.limits


def test_large_images_are_not_the_bottleneck_if_the_feed_waits_for_storage() -> None:
    [trap] = find_traps(replace(CLEAN, short_side=480, reading_limits=True))
    assert not trap.limits


def test_traps_that_slow_the_run_come_first() -> None:
    seen = replace(CLEAN, graph=False, short_side=480, step_limits=False)
    assert [(one.name, one.limits) for one in find_traps(seen)] == [("large images", True), ("pynative mode", False)]


def test_dataset_that_fits_in_memory_is_slow_in_the_first_epoch_only() -> None:
    [trap] = find_traps(replace(CLEAN, cold_per_s=300.0, fits_in_memory=True))
    assert "fits in memory" in trap.seen


def test_many_workers_are_reported_as_reduced_only_if_they_were() -> None:
    [kept] = find_traps(replace(CLEAN, workers_asked=64, workers=64))
    [lowered] = find_traps(replace(CLEAN, workers_asked=64, workers=8))
    assert kept.seen.endswith("may use 8 cores")
    assert lowered.seen.endswith("may use 8 cores; reduced to 8 threads")


FLAGS = [
    ({"graph": False}, "--mode graph"),
    ({"device": "Ascend", "sink": True}, "--amp-level O2"),
    ({"short_side": 480}, "dataprep shard ... --resize 256"),
    ({"workers": 2, "workers_asked": 2, "cores_busy": 2.1}, "--workers 8"),
    ({"workers_asked": 64}, "--workers 8"),
    ({"batch_gain": 1.4}, "--batch-size 64"),
    ({"mixing": True, "mixing_flags": "--mixup 0"}, "--mixup 0"),
    ({"cold_per_s": 300.0}, "copy the shards to a local disk"),
    ({"network": True}, "copy the shards to a local disk"),
]


@pytest.mark.parametrize(("changes", "flags"), FLAGS)
def test_flag_that_was_tried_without_gain_is_never_a_remedy(changes: dict[str, Any], flags: str) -> None:
    seen = replace(CLEAN, **changes)
    assert [trap.flags for trap in find_traps(seen)] == [flags]
    assert find_traps(replace(seen, useless_flags=(flags,))) == []
    assert [trap.limits for trap in find_traps(replace(seen, idle_flags=(flags,), reading_limits=True))] == [False]


def test_several_traps_are_all_reported() -> None:
    seen = replace(ASCEND, graph=False, sink=False, sink_asked=True, amp_level="O0", short_side=1000)
    names = [trap.name for trap in find_traps(seen)]
    assert names == ["pynative mode", "O0 on Ascend", "sink not in effect", "large images"]
