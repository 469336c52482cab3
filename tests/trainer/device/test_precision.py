import pytest

from trainer.config import RunConfig
from trainer.device.precision import decide_precision
from trainer.errors import TrainerError


@pytest.mark.parametrize(
    ("device", "level", "scale", "scaler"),
    [
        ("CPU", None, None, None),
        ("Ascend", None, None, "DynamicLossScaler"),
        ("CPU", "O3", None, "DynamicLossScaler"),
        ("Ascend", "O0", None, None),
        ("Ascend", "O2", "none", None),
        ("CPU", "O2", "1024", "StaticLossScaler"),
        ("CPU", None, "dynamic", "DynamicLossScaler"),
        ("Ascend", "auto", None, "DynamicLossScaler"),
    ],
)
def test_loss_scale_follows_the_level_unless_given(
    device: str, level: str | None, scale: str | None, scaler: str | None
) -> None:
    call = decide_precision(RunConfig("d", amp_level=level, loss_scale=scale), device).scaler
    assert (call.name.rsplit(".", 1)[-1] if call else None) == scaler


@pytest.mark.parametrize("scale", ["0.5", "nan", "inf", "-1", "3.5e38", "dynamics"])
def test_loss_scale_of_another_kind_is_rejected(scale: str) -> None:
    with pytest.raises(TrainerError, match="neither 'none', 'dynamic' nor a number"):
        decide_precision(RunConfig("d", loss_scale=scale), "CPU")
