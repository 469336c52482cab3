"""ResNet-18 to ResNet-152 (He et al. 2015), with the stride in the 3x3 convolution of a bottleneck ("v1.5")."""

from mindspore import Tensor, nn
from mindspore.common.initializer import HeNormal

STAGE_WIDTHS = (64, 128, 256, 512)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    init = HeNormal(mode="fan_out", nonlinearity="relu")
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, pad_mode="pad", padding=kernel // 2, weight_init=init)


class Residual(nn.Cell):  # type: ignore[misc]
    """Convolutions plus a shortcut, then ReLU: (N, inputs, H, W) -> (N, outputs, H/stride, W/stride)."""

    def __init__(self, convolutions: nn.SequentialCell, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.project = stride != 1 or inputs != outputs
        if self.project:
            self.shortcut = nn.SequentialCell([_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)])
        self.relu = nn.ReLU()

    def construct(self, features: Tensor) -> Tensor:
        """Return the block's output."""
        shortcut = self.shortcut(features) if self.project else features
        return self.relu(self.convolutions(features) + shortcut)


def _basic(inputs: int, width: int, stride: int) -> Residual:
    layers = [_conv(inputs, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(), _conv(width, width, 3)]
    return Residual(nn.SequentialCell([*layers, nn.BatchNorm2d(width)]), inputs, width, stride)


def _bottleneck(inputs: int, width: int, stride: int) -> Residual:
    outputs = 4 * width
    layers = [_conv(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [_conv(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [_conv(width, outputs, 1), nn.BatchNorm2d(outputs)]
    return Residual(nn.SequentialCell(layers), inputs, outputs, stride)


class ResNet(nn.Cell):  # type: ignore[misc]
    """Stem, four stages of residual blocks, global average, one dense layer.

    The input is float32 (N, 3, S, S), designed for S = 224. The output is float32 logits (N, num_classes).
    """

    def __init__(self, blocks: tuple[int, int, int, int], bottleneck: bool, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.SequentialCell(
            [_conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, stride=2, pad_mode="pad", padding=1)]
        )
        block, expansion = (_bottleneck, 4) if bottleneck else (_basic, 1)
        cells, inputs = [], 64
        for stage, (width, count) in enumerate(zip(STAGE_WIDTHS, blocks, strict=True)):
            for number in range(count):
                cells.append(block(inputs, width, 2 if stage > 0 and number == 0 else 1))
                inputs = expansion * width
        self.stages = nn.SequentialCell(cells)
        self.head = nn.Dense(inputs, num_classes)

    def construct(self, images: Tensor) -> Tensor:
        """Return the logits of a batch."""
        return self.head(self.stages(self.stem(images)).mean((2, 3)))


def resnet18(num_classes: int) -> ResNet:
    """Return a ResNet-18 with 11,689,512 trainable parameters at 1000 classes."""
    return ResNet((2, 2, 2, 2), bottleneck=False, num_classes=num_classes)


def resnet34(num_classes: int) -> ResNet:
    """Return a ResNet-34 with 21,797,672 trainable parameters at 1000 classes."""
    return ResNet((3, 4, 6, 3), bottleneck=False, num_classes=num_classes)


def resnet50(num_classes: int) -> ResNet:
    """Return a ResNet-50 with 25,557,032 trainable parameters at 1000 classes."""
    return ResNet((3, 4, 6, 3), bottleneck=True, num_classes=num_classes)


def resnet101(num_classes: int) -> ResNet:
    """Return a ResNet-101 with 44,549,160 trainable parameters at 1000 classes."""
    return ResNet((3, 4, 23, 3), bottleneck=True, num_classes=num_classes)


def resnet152(num_classes: int) -> ResNet:
    """Return a ResNet-152 with 60,192,808 trainable parameters at 1000 classes."""
    return ResNet((3, 8, 36, 3), bottleneck=True, num_classes=num_classes)
