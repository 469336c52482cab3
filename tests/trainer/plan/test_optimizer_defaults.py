from dataclasses import replace

import pytest

from trainer.config import RunConfig
from trainer.decisions import StartSettings
from trainer.nn.models import MODELS
from trainer.nn.optimizer import OPTIMIZERS
from trainer.plan.optimizer_defaults import MODEL_DEFAULTS, OPTIMIZER_DEFAULTS, Updates, decide_updates


def decided(batch: int, begun: StartSettings | None = None, **asked: object) -> Updates:
    return decide_updates(replace(RunConfig("d"), **asked), batch, begun)  # type: ignore[arg-type]


def whys(updates: Updates) -> dict[str, tuple[str, str, str]]:
    return {one.setting: (one.asked, one.effect, one.why) for one in updates.decisions}


def test_each_built_in_model_and_each_optimizer_has_its_defaults() -> None:
    assert MODEL_DEFAULTS.keys() == MODELS.keys()
    assert OPTIMIZER_DEFAULTS.keys() == OPTIMIZERS.keys()
    assert all(name == one.optimizer for name, one in OPTIMIZER_DEFAULTS.items())
    assert {one.optimizer for one in MODEL_DEFAULTS.values()} <= OPTIMIZERS.keys()


@pytest.mark.parametrize(
    ("model", "batch", "optimizer", "lr", "decay"),
    [
        ("tiny", 32, "adamw", 0.003, 0.05),  # the demo
        ("resnet50", 256, "sgd", 0.1, 1e-4),
        ("resnet18", 64, "sgd", 0.025, 1e-4),
        ("resnet152", 4096, "sgd", 1.6, 1e-4),
        ("mobilenet_v3", 600, "sgd", 1.08, 2e-5),
        ("convnext_tiny", 4096, "adamw", 0.004, 0.05),
        ("convnext_tiny", 64, "adamw", 0.0005, 0.05),
        ("vit_small", 512, "adamw", 0.0005, 0.05),
        ("mine:make", 128, "adamw", 0.001, 0.05),
        ("mindcv:resnet18", 32, "adamw", 0.0005, 0.05),
    ],
)
def test_rate_is_the_published_one_scaled_to_the_batch(
    model: str, batch: int, optimizer: str, lr: float, decay: float
) -> None:
    found = decided(batch, model=model)
    assert (found.optimizer, found.lr, found.weight_decay) == (optimizer, lr, decay)


def test_table_shows_source_and_scaling() -> None:
    found = whys(decided(64, model="resnet18"))
    assert found["optimizer"] == ("default", "sgd", "for resnet18: He et al. 2016")
    why = "0.1 for sgd at batch 256 (He et al. 2016), scaled to batch 64 linearly; cosine"
    assert found["peak lr"] == ("default", "0.025", why)
    assert found["weight decay"] == ("default", "0.0001", "He et al. 2016; not on norms and biases")
    assert "by the square root" in whys(decided(64, model="vit_small"))["peak lr"][2]
    assert "scaled" not in whys(decided(256, model="resnet18"))["peak lr"][2]


def test_requested_values_are_used_unchanged() -> None:
    asked = decided(64, model="resnet18", optimizer="adamw", lr=0.07, weight_decay=0.0)
    assert (asked.optimizer, asked.lr, asked.weight_decay) == ("adamw", 0.07, 0.0)
    assert whys(asked)["peak lr"] == ("0.07", "0.07", "requested, not scaled; batch 64; cosine")


def test_optimizer_other_than_the_default_has_its_own_rate() -> None:
    found = decided(256, model="tiny", optimizer="sgd")
    assert (found.lr, found.weight_decay) == (0.1, 1e-4)


@pytest.mark.parametrize("batch", range(1, 2000, 37))
def test_printed_rate_is_exact(batch: int) -> None:
    found = decided(batch, model="vit_small")
    assert float(whys(found)["peak lr"][1]) == found.lr


def test_resume_keeps_the_optimizer_defaults() -> None:
    begun = StartSettings("", "", optimizer="adamw", lr=3e-3, weight_decay=0.05)
    found = decided(64, begun, model="resnet50")
    assert (found.optimizer, found.lr, found.weight_decay) == ("adamw", 3e-3, 0.05)
    assert {why.partition(";")[0] for _, _, why in whys(found).values()} == {"as at the start of this run"}
    given = decided(64, begun, model="resnet50", lr=0.5, weight_decay=0.1)
    assert (given.optimizer, given.lr, given.weight_decay) == ("adamw", 0.5, 0.1)
    unknown = decided(64, StartSettings("", ""), model="resnet50")
    assert (unknown.optimizer, unknown.lr) == ("sgd", 0.025)
