"""Public grids: the fine cells on which an attribute is counted first, known from the schema.

A labelled attribute has a cell for each label, a measured one at most ``MOST_CELLS`` intervals
of its axis, besides which zero and the ends of the domain have cells of their own, and cuts
are made where a public rule needs them. Missing cells, where the schema keeps
them, are a cell of their own, the last one. No value of the data decides anything here.

>>> from decimal import Decimal
>>> from sherd.tables.schema import Attribute, Type
>>> age = PublicGrid.of(Attribute(name="age", type=Type.INTEGER, domain=(Decimal(1), Decimal(99))))
>>> age.size, age.cells, age.edges[:3]
(99, 99, (0, 1, 2))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.tables.axis import Axis
from sherd.tables.coding import positions, storage, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.tables.schema import Attribute

AT_ONCE = 2**16
"""Records whose values are drawn at once: what bounds the memory it takes."""

MOST_CELLS = 128
"""Cells of a measured attribute, where its domain has as many values."""


@dataclass(frozen=True, kw_only=True)
class PublicGrid:
    """The fine cells of an attribute: ``edges`` are the axis positions at which they begin.

    ``ordered`` says whether neighbouring cells mean neighbouring values.
    """

    axis: Axis
    edges: tuple[int, ...]
    ordered: bool
    keeps_missing: bool = False

    @classmethod
    def of(
        cls, attribute: Attribute, *, keeps_missing: bool = False, cuts: Iterable[int] = ()
    ) -> PublicGrid:
        """The grid that a schema's attribute declares; ``cuts`` are further edges."""
        from sherd.tables.schema import Type

        axis = Axis.of(attribute)
        width = axis.steps + 1
        measured = attribute.type.measured
        cells = min(MOST_CELLS, width) if measured else width
        edges = {-(-i * width // cells) for i in range(cells + 1)} | set(cuts)
        if cells < width:
            # "None at all" and "this much or more" are often one value with many records.
            alone = {0, axis.steps, -axis.low}
            edges |= {edge for at in alone for edge in (at, at + 1) if 0 <= edge <= width}
        return cls(
            axis=axis,
            edges=tuple(sorted(edges)),
            ordered=measured or attribute.type is Type.ORDINAL,
            keeps_missing=keeps_missing,
        )

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.axis.name

    @property
    def cells(self) -> int:
        """How many cells hold values."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """How many cells there are, that of missing values included."""
        return self.cells + self.keeps_missing

    def codes(
        self, column: pa.ChunkedArray, missing_values: Sequence[str] = ()
    ) -> NDArray[np.integer]:
        """The cell of every value of a column."""
        place, gaps = positions(column, self.axis, missing_values)
        kind = np.min_scalar_type(self.size)
        if self.cells == self.axis.steps + 1:
            codes = place.astype(kind)
        else:
            codes = (np.searchsorted(self.edges, place, side="right") - 1).astype(kind)
        if self.keeps_missing:
            codes[gaps] = self.cells
        return codes

    def column(
        self, codes: NDArray[np.integer], rng: np.random.Generator, kind: pa.DataType
    ) -> pa.Array:
        """Cells as values of a column's type: uniform on the grid within each cell."""
        gaps = codes == self.cells if self.keeps_missing else np.zeros(len(codes), np.bool_)
        edges = np.array(self.edges, np.int64)
        widths = np.diff(edges)
        parts = []
        for start in range(0, max(1, len(codes)), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            inside = np.where(gaps[some], 0, codes[some])
            place = edges[inside]
            if widths.max() > 1:
                place += rng.integers(0, widths[inside])
            parts.append(storage(self.axis, place, 1, kind))
        return wrap(self.axis, np.concatenate(parts), gaps if gaps.any() else None, kind)
