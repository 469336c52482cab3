"""Cast a network to the precision of the run; norm layers and the cells of --keep-fp32 stay in float32."""

import re
from collections.abc import Sequence
from typing import Any

from mindspore import Tensor, amp, nn, ops
from mindspore import dtype as mstype

from trainer.device.precision import Precision
from trainer.errors import WrongUsage, nearest

NORM = re.compile(r"Norm(\d[dD])?$")  # BatchNorm2d, GroupNorm, InstanceNorm3d, ...


class Float32(nn.Cell):  # type: ignore[misc]
    """Cell that runs another cell in float32: inputs are cast to float32, the output to `dtype`."""

    def __init__(self, cell: nn.Cell, dtype: Any) -> None:
        super().__init__(auto_prefix=False)
        self.cell = cell.to_float(mstype.float32)
        self.dtype = dtype

    def construct(self, features: Tensor) -> Tensor:
        """Return the cell's output in `dtype`."""
        return ops.cast(self.cell(features), self.dtype)


def mixed(network: Any, precision: Precision, names: Sequence[str]) -> Any:
    """Cast the network in place to the amp level of `precision`, and return the network.

    `names` are class names or paths of cells that stay in float32. At O1, O2 and auto, MindSpore keeps BatchNorm1d to
    3d and LayerNorm in float32, and this function keeps all other norms in float32. Raises WrongUsage if a name matches
    no cell.
    """
    requested = _find(network, names)
    if precision.amp_level == "O0":
        return network
    inside = {id(cell) for _, _, kept in requested for _, cell in kept.cells_and_names()}
    norms = [] if precision.amp_level == "O3" else _unknown_norms(network, inside)
    if precision.amp_level in ("O1", "auto"):
        for _, _, cell in (*requested, *norms):
            cell.to_float(mstype.float32)  # both levels skip cells that already have a type
        return precision.amp.make(network)
    # O2 and O3 set the type of every cell, so the float32 cells are removed during the cast.
    for parent, name, _ in (*requested, *norms):
        put_cell(parent, name, nn.Identity())
    changed = precision.amp.make(network)
    for parent, name, cell in requested:
        put_cell(parent, name, cell.to_float(mstype.float32))
    for parent, name, cell in norms:
        put_cell(parent, name, Float32(cell, precision.dtype()))
    return changed


Child = tuple[Any, str, Any]  # parent cell, attribute name, cell


def child_cells(network: Any) -> list[tuple[str, Child]]:
    """Return the path of every cell in a network, with the cell and its parent."""
    return [
        (f"{path}.{name}" if path else name, (parent, name, cell))
        for path, parent in network.cells_and_names()
        for name, cell in parent.name_cells().items()
    ]


def _find(network: Any, names: Sequence[str]) -> list[Child]:
    """Return the cells that match `names`, without cells nested in another match."""
    children = child_cells(network)
    found: list[Child] = []
    for wanted in names:
        matches = [child for path, child in children if wanted in (path, type(child[2]).__name__)]
        if not matches:
            known = {path.split(".")[0] for path, _ in children} | {type(child[2]).__name__ for _, child in children}
            raise WrongUsage(f"--keep-fp32 {wanted} matches no cell of the model; {nearest(wanted, known)}")
        found += matches
    nested = {id(cell) for _, _, kept in found for path, cell in kept.cells_and_names() if path}
    unique = {id(child[2]): child for child in found if id(child[2]) not in nested}
    return list(unique.values())


def _unknown_norms(network: Any, inside: set[int]) -> list[Child]:
    known = tuple(amp.get_black_list())
    return [
        child
        for _, child in child_cells(network)
        if NORM.search(type(child[2]).__name__) and not isinstance(child[2], known) and id(child[2]) not in inside
    ]


def put_cell(parent: Any, name: str, cell: Any) -> None:
    """Replace the child cell `name` of `parent` with `cell`."""
    parent._cells[name] = cell
    if isinstance(parent, nn.SequentialCell):
        parent.cell_list = list(parent.cells())  # SequentialCell runs the cells of this list
