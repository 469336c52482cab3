"""Replace cells that MindSpore cannot write as ONNX by equivalent cells, for export only.

In training, maximum pooling with the new cells would take twice as long on CPU (measured on 2.10).
"""

from collections.abc import Sequence
from typing import Any

from mindspore import Tensor, nn

from trainer.nn.cast import child_cells, put_cell


class ZeroPaddedMaxPool(nn.Cell):  # type: ignore[misc]
    """Maximum pooling with zero padding. For features >= 0 it equals `pool`, which pads with the lowest number.

    nn.MaxPool2d with padding becomes MaxPool3DWithArgmax, which MindSpore cannot write as ONNX.
    """

    def __init__(self, pool: nn.MaxPool2d) -> None:
        super().__init__()
        rows, columns = pool.padding[-2:]
        self.pad = nn.Pad(((0, 0), (0, 0), (rows, rows), (columns, columns)))
        self.pool = nn.MaxPool2d(pool.kernel_size, pool.stride, pad_mode="valid")

    def construct(self, features: Tensor) -> Tensor:
        """Return the pooled features."""
        return self.pool(self.pad(features))


class HardSigmoid(nn.Cell):  # type: ignore[misc]
    """Elementwise min(max(x + 3, 0), 6) / 6."""

    def __init__(self) -> None:
        super().__init__()
        self.clip = nn.ReLU6()

    def construct(self, features: Tensor) -> Tensor:
        """Return the hard sigmoid of each element."""
        return self.clip(features + 3.0) * (1.0 / 6.0)


class HardSwish(HardSigmoid):
    """Elementwise product of x and its hard sigmoid."""

    def construct(self, features: Tensor) -> Tensor:
        """Return the hard swish of each element."""
        return features * (self.clip(features + 3.0) * (1.0 / 6.0))


def prepare_for_onnx(network: Any) -> None:
    """Replace, in place, the cells that ONNX export does not support.

    The cells are hard swish, hard sigmoid, and maximum pooling with padding directly after a ReLU in a SequentialCell.
    """
    for _, (parent, name, cell) in child_cells(network):
        if isinstance(cell, nn.HSwish):
            put_cell(parent, name, HardSwish())
        elif isinstance(cell, nn.HSigmoid):
            put_cell(parent, name, HardSigmoid())
        elif isinstance(parent, nn.SequentialCell) and _is_padded_pool(cell):
            cells: Sequence[Any] = list(parent.cells())
            index = cells.index(cell)
            if index > 0 and isinstance(cells[index - 1], nn.ReLU):
                put_cell(parent, name, ZeroPaddedMaxPool(cell))


def _is_padded_pool(cell: Any) -> bool:
    if not isinstance(cell, nn.MaxPool2d) or not cell.use_pad or cell.return_indices:
        return False
    return not cell.max_pool.ceil_mode and set(cell.max_pool.dilation) == {1}
