"""Default optimizer, learning rate and weight decay of each model, by published recipes and the batch size. Pure."""

from dataclasses import dataclass

from trainer.config import RunConfig
from trainer.decisions import Begun, Decision, asked
from trainer.errors import WrongUsage, nearest
from trainer.nn.optimizer import OPTIMIZERS


@dataclass(frozen=True)
class Published:
    """A published choice: the peak rate `lr` for updates of `batch` images, and where it was published."""

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
# For every other model, and for a built-in model with an optimizer that is not its own.
OPTIMIZER_DEFAULTS = {
    "sgd": RESNET,
    "adamw": Published("adamw", 1e-3, 128, 0.05, "Kingma and Ba 2015"),
}
USUAL = "adamw"  # of a model that is not in the table
DIGITS = 3  # significant digits of a scaled rate, so that the printed and recorded rate is the exact one


@dataclass(frozen=True)
class Updates:
    """The optimizer by name, its peak rate and weight decay, and the lines of the table that explain them."""

    optimizer: str
    lr: float
    weight_decay: float
    decisions: tuple[Decision, ...]


def decide_updates(config: RunConfig, batch: int, begun: Begun | None = None) -> Updates:
    """Decide the optimizer and its rates for updates of `batch` images over all ranks; what was asked for is obeyed.

    A run that goes on keeps the defaults that it `begun` with. Raises WrongUsage for an unknown optimizer.
    """
    if config.optimizer is not None and config.optimizer not in OPTIMIZERS:
        raise WrongUsage(f"unknown optimizer '{config.optimizer}'; {nearest(config.optimizer, OPTIMIZERS)}")
    name, name_why = _optimizer(config, begun)
    published = _published(config.model, name)
    lr, lr_why = _rate(config, published, batch, begun)
    decay, decay_why = _decay(config, published, begun)
    return Updates(
        name,
        lr,
        decay,
        (
            Decision("optimizer", asked(config.optimizer), name, name_why),
            Decision("peak lr", asked(config.lr), f"{lr:g}", f"{lr_why}; cosine"),
            Decision("weight decay", asked(config.weight_decay), f"{decay:g}", f"{decay_why}; not on norms and biases"),
        ),
    )


AS_BEGUN = "as this run began"


def _optimizer(config: RunConfig, begun: Begun | None) -> tuple[str, str]:
    if config.optimizer is not None:
        return config.optimizer, "asked for"
    if begun is not None and begun.optimizer in OPTIMIZERS:
        return begun.optimizer, AS_BEGUN
    if config.model in MODEL_DEFAULTS:
        own = MODEL_DEFAULTS[config.model]
        return own.optimizer, f"for {config.model}: {own.source}"
    return USUAL, "for a model that is not built in"


def _published(model: str, optimizer: str) -> Published:
    own = MODEL_DEFAULTS.get(model)
    return own if own is not None and own.optimizer == optimizer else OPTIMIZER_DEFAULTS[optimizer]


def _rate(config: RunConfig, published: Published, batch: int, begun: Begun | None) -> tuple[float, str]:
    if config.lr is not None:
        return config.lr, f"asked for, not scaled; batch {batch}"
    if begun is not None and begun.lr is not None:
        return begun.lr, f"{AS_BEGUN}; batch {batch}"
    why = f"{published.lr:g} for {published.optimizer} at batch {published.batch} ({published.source})"
    if batch == published.batch:
        return published.lr, why
    scaling = OPTIMIZERS[published.optimizer].scaling
    rate = float(f"{published.lr * (batch / published.batch) ** scaling.exponent:.{DIGITS}g}")
    return rate, f"{why}, scaled to batch {batch} {scaling.how}"


def _decay(config: RunConfig, published: Published, begun: Begun | None) -> tuple[float, str]:
    if config.weight_decay is not None:
        return config.weight_decay, "asked for"
    if begun is not None and begun.weight_decay is not None:
        return begun.weight_decay, AS_BEGUN
    return published.weight_decay, published.source
