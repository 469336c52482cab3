"""Vision transformer with patches of 16x16 pixels (Dosovitskiy et al. 2021), small variant of Touvron et al. 2021."""

from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype
from mindspore.common.initializer import TruncatedNormal, initializer

from trainer.errors import TrainerError

PATCH, WIDTH, DEPTH, HEADS = 16, 384, 12, 6


def _dense(inputs: int, outputs: int) -> nn.Dense:
    return nn.Dense(inputs, outputs, weight_init=TruncatedNormal(0.02), bias_init="zeros")


class Attention(nn.Cell):  # type: ignore[misc]
    """Self-attention with `heads` heads: (N, tokens, width) -> same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width = width
        self.heads = heads
        self.head_width = width // heads
        self.scale = self.head_width**-0.5
        self.float32 = mstype.float32
        self.qkv = _dense(width, 3 * width)
        self.out = _dense(width, width)

    def construct(self, tokens: Tensor) -> Tensor:
        """Return the attention output of each token."""
        batch, count, _ = tokens.shape
        qkv = self.qkv(tokens).reshape(batch, count, 3, self.heads, self.head_width).transpose(2, 0, 3, 1, 4)
        scores = ops.matmul(qkv[0] * self.scale, qkv[1].transpose(0, 1, 3, 2))
        # The softmax runs in float32, because a float16 softmax over many tokens loses small values.
        shares = ops.cast(ops.softmax(ops.cast(scores, self.float32), -1), scores.dtype)
        return self.out(ops.matmul(shares, qkv[2]).transpose(0, 2, 1, 3).reshape(batch, count, self.width))


class Block(nn.Cell):  # type: ignore[misc]
    """Attention and two dense layers, each with LayerNorm before and a shortcut: (N, tokens, width) -> same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm((width,), epsilon=1e-6)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm((width,), epsilon=1e-6)
        self.widen = _dense(width, 4 * width)
        self.narrow = _dense(4 * width, width)

    def construct(self, tokens: Tensor) -> Tensor:
        """Return the block's output."""
        tokens = tokens + self.attention(self.norm1(tokens))
        return tokens + self.narrow(ops.gelu(self.widen(self.norm2(tokens))))


class VisionTransformer(nn.Cell):  # type: ignore[misc]
    """Class token and patch tokens with learned positions, blocks, and a dense layer on the class token.

    The input is float32 (N, 3, S, S) with S equal to `image_size`, because each patch has a learned position. The
    output is float32 logits (N, num_classes).
    """

    def __init__(self, num_classes: int, image_size: int) -> None:
        super().__init__()
        self.width = WIDTH
        tokens = (image_size // PATCH) ** 2 + 1
        init = TruncatedNormal(0.02)
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH, "valid", has_bias=True, weight_init=init, bias_init="zeros")
        self.class_token = Parameter(initializer(init, (1, 1, WIDTH)))
        self.positions = Parameter(initializer(init, (1, tokens, WIDTH)))
        self.blocks = nn.SequentialCell([Block(WIDTH, HEADS) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm((WIDTH,), epsilon=1e-6)
        self.head = _dense(WIDTH, num_classes)

    def construct(self, images: Tensor) -> Tensor:
        """Return the logits of a batch."""
        patches = self.patches(images)
        batch = patches.shape[0]
        patches = patches.reshape(batch, self.width, -1).transpose(0, 2, 1)
        first = ops.tile(ops.cast(self.class_token, patches.dtype), (batch, 1, 1))
        tokens = ops.concat((first, patches), 1) + ops.cast(self.positions, patches.dtype)
        return self.head(self.norm(self.blocks(tokens))[:, 0])


def vit_small(num_classes: int, image_size: int) -> VisionTransformer:
    """Return a ViT-S/16 with 22,050,664 trainable parameters at 1000 classes and 224 pixels.

    Raises TrainerError if the patches do not cover `image_size`.
    """
    if image_size % PATCH:
        near = max(PATCH, round(image_size / PATCH) * PATCH)
        raise TrainerError(
            f"model 'vit_small' cuts an image into patches of {PATCH} pixels, which do not cover {image_size}; "
            f"use --image-size {near}"
        )
    return VisionTransformer(num_classes, image_size)
