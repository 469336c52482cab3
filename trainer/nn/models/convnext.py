"""ConvNeXt-Tiny (Liu et al. 2022)."""

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import TruncatedNormal, initializer

WIDTHS = (96, 192, 384, 768)
DEPTHS = (3, 3, 9, 3)
FIRST_SCALE = 1e-6  # small, so that each block is initially close to its shortcut


def _conv(inputs: int, outputs: int, kernel: int, stride: int, group: int = 1) -> nn.Conv2d:
    padding = kernel // 2 if stride == 1 else 0
    init = TruncatedNormal(0.02)
    return nn.Conv2d(
        inputs, outputs, kernel, stride, "pad", padding, group=group, has_bias=True, weight_init=init, bias_init="zeros"
    )


def _dense(inputs: int, outputs: int) -> nn.Dense:
    return nn.Dense(inputs, outputs, weight_init=TruncatedNormal(0.02), bias_init="zeros")


class ChannelNorm(nn.Cell):  # type: ignore[misc]
    """LayerNorm over the channels of each pixel: (N, channels, H, W) -> same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((channels,), epsilon=1e-6)

    def construct(self, features: Tensor) -> Tensor:
        """Return the normalised features."""
        return self.norm(features.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


class Block(nn.Cell):  # type: ignore[misc]
    """7x7 depthwise filter, LayerNorm, two dense layers per pixel and a shortcut: (N, width, H, W) -> same shape."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = _conv(width, width, 7, 1, group=width)
        self.norm = nn.LayerNorm((width,), epsilon=1e-6)
        self.widen = _dense(width, 4 * width)
        self.narrow = _dense(4 * width, width)
        self.gamma = Parameter(initializer(FIRST_SCALE, (width,)))

    def construct(self, features: Tensor) -> Tensor:
        """Return the block's output."""
        pixels = self.norm(self.filter(features).transpose(0, 2, 3, 1))
        pixels = self.narrow(ops.gelu(self.widen(pixels)))
        pixels = pixels * ops.cast(self.gamma, pixels.dtype)
        return features + pixels.transpose(0, 3, 1, 2)


class ConvNeXt(nn.Cell):  # type: ignore[misc]
    """Stem of 4x4 patches, four stages of blocks, downsampling between stages, global average, LayerNorm, dense layer.

    The paper's stochastic depth is left out, because a resume cannot restore its random state. The input is float32
    (N, 3, S, S) with S >= 32, designed for S = 224. The output is float32 logits (N, num_classes).
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.SequentialCell([_conv(3, WIDTHS[0], 4, 4), ChannelNorm(WIDTHS[0])])
        cells: list[nn.Cell] = []
        for stage, (width, depth) in enumerate(zip(WIDTHS, DEPTHS, strict=True)):
            if stage > 0:
                cells += [ChannelNorm(WIDTHS[stage - 1]), _conv(WIDTHS[stage - 1], width, 2, 2)]
            cells += [Block(width) for _ in range(depth)]
        self.stages = nn.SequentialCell(cells)
        self.norm = nn.LayerNorm((WIDTHS[-1],), epsilon=1e-6)
        self.head = _dense(WIDTHS[-1], num_classes)

    def construct(self, images: Tensor) -> Tensor:
        """Return the logits of a batch."""
        return self.head(self.norm(self.stages(self.stem(images)).mean((2, 3))))


def convnext_tiny(num_classes: int) -> ConvNeXt:
    """Return a ConvNeXt-Tiny with 28,589,128 trainable parameters at 1000 classes."""
    return ConvNeXt(num_classes)
