"""Choose default optimizer, learning rate and weight decay from the model's published recipe and the batch size."""

from dataclasses import dataclass

from trainer.config import RunConfig
from trainer.decisions import AS_STARTED, Decision, StartSettings, requested
from trainer.errors import WrongUsage, nearest
from trainer.nn.optimizer import OPTIMIZERS


@dataclass(frozen=True)
class Published:
    """Published settings: optimizer, peak learning rate for `batch` images per update, weight decay, and source."""

    optimizer: str
    lr: float
    batch: int
    weight_decay: float
    source: str


RESNET = Published("sgd", 0.1, 256, 1e-4, "He et al. 2016")
MODEL_DEFAULTS = {
    "tiny": Published("adamw", 3e-3, 32, 0.05, "measured on small images"),
    **dict.fromkeys(("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"), RESNET),
    "mobilenet_v3": Published("sgd", 1.08, 600, 2e-5, "MindCV's recipe"),
    "convnext_tiny": Published("adamw", 4e-3, 4096, 0.05, "Liu et al. 2022"),
    "vit_small": Published("adamw", 5e-4, 512, 0.05, "Touvron et al. 2021"),
}
# For all other models, and for a built-in model with another optimizer.
OPTIMIZER_DEFAULTS = {
    "sgd": RESNET,
    "adamw": Published("adamw", 1e-3, 128, 0.05, "Kingma and Ba 2015"),
}
USUAL = "adamw"  # for models that are not in the table
DIGITS = 3  # significant digits of a scaled rate, so that the printed rate is exact


@dataclass(frozen=True)
class Updates:
    """Name of the optimizer, peak learning rate, weight decay, and the decisions that explain these values."""

    optimizer: str
    lr: float
    weight_decay: float
    decisions: tuple[Decision, ...]


def decide_updates(config: RunConfig, batch: int, start: StartSettings | None = None) -> Updates:
    """Return the optimizer, peak rate and weight decay for updates of `batch` images over all ranks.

    A resumed run keeps the settings in `start`. Raises WrongUsage if the optimizer is unknown.
    """
    if config.optimizer is not None and config.optimizer not in OPTIMIZERS:
        raise WrongUsage(f"unknown optimizer '{config.optimizer}'; {nearest(config.optimizer, OPTIMIZERS)}")
    name, name_why = _optimizer(config, start)
    published = _published(config.model, name)
    lr, lr_why = _rate(config, published, batch, start)
    decay, decay_why = _decay(config, published, start)
    return Updates(
        name,
        lr,
        decay,
        (
            Decision("optimizer", requested(config.optimizer), name, name_why),
            Decision("peak lr", requested(config.lr), f"{lr:g}", f"{lr_why}; cosine"),
            Decision(
                "weight decay", requested(config.weight_decay), f"{decay:g}", f"{decay_why}; not on norms and biases"
            ),
        ),
    )


def _optimizer(config: RunConfig, start: StartSettings | None) -> tuple[str, str]:
    if config.optimizer is not None:
        return config.optimizer, "requested"
    if start is not None and start.optimizer in OPTIMIZERS:
        return start.optimizer, AS_STARTED
    if config.model in MODEL_DEFAULTS:
        own = MODEL_DEFAULTS[config.model]
        return own.optimizer, f"for {config.model}: {own.source}"
    return USUAL, "default for models that are not built in"


def _published(model: str, optimizer: str) -> Published:
    own = MODEL_DEFAULTS.get(model)
    return own if own is not None and own.optimizer == optimizer else OPTIMIZER_DEFAULTS[optimizer]


def _rate(config: RunConfig, published: Published, batch: int, start: StartSettings | None) -> tuple[float, str]:
    if config.lr is not None:
        return config.lr, f"requested, not scaled; batch {batch}"
    if start is not None and start.lr is not None:
        return start.lr, f"{AS_STARTED}; batch {batch}"
    why = f"{published.lr:g} for {published.optimizer} at batch {published.batch} ({published.source})"
    if batch == published.batch:
        return published.lr, why
    scaling = OPTIMIZERS[published.optimizer].scaling
    rate = float(f"{published.lr * (batch / published.batch) ** scaling.exponent:.{DIGITS}g}")
    return rate, f"{why}, scaled to batch {batch} {scaling.how}"


def _decay(config: RunConfig, published: Published, start: StartSettings | None) -> tuple[float, str]:
    if config.weight_decay is not None:
        return config.weight_decay, "requested"
    if start is not None and start.weight_decay is not None:
        return start.weight_decay, AS_STARTED
    return published.weight_decay, published.source
