"""MobileNetV3-Large (Howard et al. 2019)."""

from dataclasses import dataclass

from mindspore import Tensor, nn
from mindspore.common.initializer import HeNormal, Normal

FEATURES, HIDDEN = 960, 1280  # widths before and after the first dense layer


@dataclass(frozen=True)
class Block:
    """One row of the architecture table of the paper; `swish` selects hard swish instead of ReLU."""

    kernel: int
    inner: int
    outputs: int
    squeeze: bool
    swish: bool
    stride: int


BLOCKS = (
    Block(3, 16, 16, False, False, 1),
    Block(3, 64, 24, False, False, 2),
    Block(3, 72, 24, False, False, 1),
    Block(5, 72, 40, True, False, 2),
    Block(5, 120, 40, True, False, 1),
    Block(5, 120, 40, True, False, 1),
    Block(3, 240, 80, False, True, 2),
    Block(3, 200, 80, False, True, 1),
    Block(3, 184, 80, False, True, 1),
    Block(3, 184, 80, False, True, 1),
    Block(3, 480, 112, True, True, 1),
    Block(3, 672, 112, True, True, 1),
    Block(5, 672, 160, True, True, 2),
    Block(5, 960, 160, True, True, 1),
    Block(5, 960, 160, True, True, 1),
)


def _layer(inputs: int, outputs: int, kernel: int, stride: int = 1, group: int = 1) -> list[nn.Cell]:
    init = HeNormal(mode="fan_out", nonlinearity="relu")
    conv = nn.Conv2d(
        inputs, outputs, kernel, stride, pad_mode="pad", padding=kernel // 2, group=group, weight_init=init
    )
    return [conv, nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.99)]


def _squeezed(channels: int) -> int:
    """Return a quarter of the channels, rounded to a multiple of 8 and lowered by at most 10 %."""
    nearest = max(8, (channels // 4 + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * (channels // 4) else nearest + 8


class Squeeze(nn.Cell):  # type: ignore[misc]
    """Squeeze-and-excite: (N, channels, H, W) -> same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = _squeezed(channels)
        self.weigh = nn.SequentialCell(
            [nn.Conv2d(channels, inner, 1, has_bias=True), nn.ReLU(), nn.Conv2d(inner, channels, 1, has_bias=True)]
        )
        self.gate = nn.HSigmoid()

    def construct(self, features: Tensor) -> Tensor:
        """Return the weighted features."""
        return features * self.gate(self.weigh(features.mean((2, 3), keep_dims=True)))


class Inverted(nn.Cell):  # type: ignore[misc]
    """Inverted residual: 1x1 expansion, depthwise filter, 1x1 projection; a shortcut if the shape is unchanged."""

    def __init__(self, inputs: int, block: Block) -> None:
        super().__init__()
        activation = nn.HSwish if block.swish else nn.ReLU
        cells: list[nn.Cell] = []
        if block.inner != inputs:
            cells += [*_layer(inputs, block.inner, 1), activation()]
        cells += [*_layer(block.inner, block.inner, block.kernel, block.stride, group=block.inner), activation()]
        if block.squeeze:
            cells.append(Squeeze(block.inner))
        self.layers = nn.SequentialCell([*cells, *_layer(block.inner, block.outputs, 1)])
        self.shortcut = block.stride == 1 and inputs == block.outputs

    def construct(self, features: Tensor) -> Tensor:
        """Return the block's output: (N, inputs, H, W) -> (N, outputs, H/stride, W/stride)."""
        return features + self.layers(features) if self.shortcut else self.layers(features)


class MobileNetV3(nn.Cell):  # type: ignore[misc]
    """Stem, fifteen inverted blocks, global average, two dense layers.

    The paper's dropout is left out, because a resume cannot restore its random state. The input is float32
    (N, 3, S, S), designed for S = 224. The output is float32 logits (N, num_classes).
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.SequentialCell([*_layer(3, 16, 3, 2), nn.HSwish()])
        widths = (16, *(block.outputs for block in BLOCKS[:-1]))
        self.stages = nn.SequentialCell([Inverted(width, block) for width, block in zip(widths, BLOCKS, strict=True)])
        self.features = nn.SequentialCell([*_layer(BLOCKS[-1].outputs, FEATURES, 1), nn.HSwish()])
        self.hidden = nn.SequentialCell([nn.Dense(FEATURES, HIDDEN, weight_init=Normal(0.01)), nn.HSwish()])
        self.head = nn.Dense(HIDDEN, num_classes, weight_init=Normal(0.01))

    def construct(self, images: Tensor) -> Tensor:
        """Return the logits of a batch."""
        return self.head(self.hidden(self.features(self.stages(self.stem(images))).mean((2, 3))))


def mobilenet_v3(num_classes: int) -> MobileNetV3:
    """Return a MobileNetV3-Large with 5,483,032 trainable parameters at 1000 classes."""
    return MobileNetV3(num_classes)
