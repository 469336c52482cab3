"""Puts a network into the precision of the run; norm layers, and the cells that the user names, stay in float32."""

import re
from collections.abc import Sequence
from typing import Any

from mindspore import Tensor, amp, nn, ops
from mindspore import dtype as mstype

from trainer.device.precision import Precision
from trainer.errors import WrongUsage, nearest

NORM = re.compile(r"Norm(\d[dD])?$")  # BatchNorm2d, GroupNorm, InstanceNorm3d, ...


class Float32(nn.Cell):  # type: ignore[misc]
    """A cell in float32 among cells in `dtype`: its inputs are cast up, its output down again."""

    def __init__(self, cell: nn.Cell, dtype: Any) -> None:
        super().__init__(auto_prefix=False)
        self.cell = cell.to_float(mstype.float32)
        self.dtype = dtype

    def construct(self, features: Tensor) -> Tensor:
        """What the cell gives, in the neighbours' type."""
        return ops.cast(self.cell(features), self.dtype)


def mixed(network: Any, precision: Precision, names: Sequence[str]) -> Any:
    """The network at the level in effect. `names` are classes of cells, or prefixes of parameter names, to keep in
    float32 too; raises TrainerError when one matches nothing. Changes the network in place.

    MindSpore keeps BatchNorm1-3d and LayerNorm at O1, O2 and auto. The norms it does not know are kept as well; at O3
    all of them are lowered, as that level means it.
    """
    asked = _find(network, names)
    if precision.amp_level == "O0":
        return network
    inside = {id(cell) for _, _, kept in asked for _, cell in kept.cells_and_names()}
    norms = [] if precision.amp_level == "O3" else _unknown_norms(network, inside)
    if precision.amp_level in ("O1", "auto"):
        for _, _, cell in (*asked, *norms):
            cell.to_float(mstype.float32)  # both levels leave alone what has a type already
        return precision.amp.make(network)
    # O2 and O3 give every cell a type, so what is kept is taken out meanwhile.
    for parent, name, _ in (*asked, *norms):
        put_cell(parent, name, nn.Identity())
    changed = precision.amp.make(network)
    for parent, name, cell in asked:
        put_cell(parent, name, cell.to_float(mstype.float32))
    for parent, name, cell in norms:
        put_cell(parent, name, Float32(cell, precision.dtype()))
    return changed


Place = tuple[Any, str, Any]  # parent, name in it, cell


def cell_places(network: Any) -> list[tuple[str, Place]]:
    """The path of each cell of a network, and where it is."""
    found = []
    for path, parent in network.cells_and_names():
        for name, cell in parent.name_cells().items():
            found.append((f"{path}.{name}" if path else name, (parent, name, cell)))
    return found


def _find(network: Any, names: Sequence[str]) -> list[Place]:
    """The outermost cells that a name matches."""
    places = cell_places(network)
    found: list[Place] = []
    for wanted in names:
        matches = [place for path, place in places if wanted in (path, type(place[2]).__name__)]
        if not matches:
            known = {path.split(".")[0] for path, _ in places} | {type(place[2]).__name__ for _, place in places}
            raise WrongUsage(f"--keep-fp32 {wanted} names no cell of the model; {nearest(wanted, known)}")
        found += matches
    nested = {id(cell) for _, _, kept in found for path, cell in kept.cells_and_names() if path}
    unique = {id(place[2]): place for place in found if id(place[2]) not in nested}
    return list(unique.values())


def _unknown_norms(network: Any, inside: set[int]) -> list[Place]:
    known = tuple(amp.get_black_list())
    return [
        place
        for _, place in cell_places(network)
        if NORM.search(type(place[2]).__name__) and not isinstance(place[2], known) and id(place[2]) not in inside
    ]


def put_cell(parent: Any, name: str, cell: Any) -> None:
    """Put a cell in the place of the one called `name` in `parent`."""
    parent._cells[name] = cell
    if isinstance(parent, nn.SequentialCell):
        parent.cell_list = list(parent.cells())  # it runs this list, not its cells
