"""Hierarchies: an attribute's values as codes on a line, its groups as intervals of them.

The leaves of a taxonomy are numbered so that the leaves under every node are neighbours; a
measured attribute is cut into cells of a public grid over its declared domain, never at
values of the data. Then a node of either kind is an interval [start, stop) of codes, a
specialisation replaces it by neighbouring intervals, and counts of any node are differences
of one cumulative histogram.

Missing cells, where the schema keeps them, have the last code of the line: a leaf beside the
root's children, or a cell above the highest of the grid. They are values like others then,
and epsilon covers them.

>>> from sherd.tables.schema import Attribute, Type
>>> from decimal import Decimal
>>> age = Hierarchy.of(Attribute(name="age", type=Type.INTEGER, domain=(Decimal(1), Decimal(99))))
>>> age.size, age.label(0, 25), age.label(25, 99)
(99, '[1, 26)', '[26, 99]')
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from sherd.tables.axis import Axis
from sherd.tables.coding import positions
from sherd.tables.schema import Type
from sherd.tables.taxonomy import Taxonomy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.tables.schema import Attribute

MISSING = "(missing)"
"""How the group of missing cells is called in a release."""

BINS = 100
"""Cells of the public grid of a measured attribute, where its domain has as many values."""


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The codes 0 … size − 1 of an attribute and the intervals of them that are nodes.

    ``children`` gives, for every node of a labelled attribute that can be specialised, the
    edges of its children; ``names`` every node's name. Measured attributes have none of
    these but ``edges``: the axis positions at which their cells begin, and the end.
    """

    axis: Axis
    size: int
    children: Mapping[tuple[int, int], tuple[int, ...]]
    names: Mapping[tuple[int, int], str]
    edges: tuple[int, ...] = ()
    code_of_position: tuple[int, ...] = ()
    keeps_missing: bool = False

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.axis.name

    @property
    def numeric(self) -> bool:
        """Whether nodes are split at a chosen cell instead of along a taxonomy."""
        return bool(self.edges)

    @classmethod
    def of(
        cls, attribute: Attribute, *, bins: int = BINS, keeps_missing: bool = False
    ) -> Hierarchy:
        """The hierarchy a schema's attribute declares, without seeing any data."""
        axis = Axis.of(attribute)
        if attribute.type.measured:
            width = axis.steps + 1
            cells = min(bins, width)
            edges = tuple(-(-i * width // cells) for i in range(cells + 1))
            size = cells + keeps_missing
            return cls(
                axis=axis, size=size, children={}, names={}, edges=edges,
                keeps_missing=keeps_missing,
            )  # fmt: skip
        labels = axis.labels or ("false", "true")
        tree = attribute.taxonomy or Taxonomy.from_paths([(label, "*") for label in labels])
        return cls._of_tree(axis, tree, labels, keeps_missing)

    @classmethod
    def _of_tree(
        cls, axis: Axis, tree: Taxonomy, labels: Sequence[str], keeps_missing: bool
    ) -> Hierarchy:
        codes: dict[str, int] = {}
        children: dict[tuple[int, int], tuple[int, ...]] = {}
        names: dict[tuple[int, int], str] = {}

        def visit(node: str) -> tuple[int, int]:
            below = tree.children(node)
            if not below:
                codes[node] = len(codes)
                span = (codes[node], len(codes))
            else:
                parts = [visit(child) for child in below]
                span = (parts[0][0], parts[-1][1])
                if len(parts) > 1:
                    children[span] = (*tuple(start for start, _ in parts), span[1])
            # A node with one child is that child: the more specific name is as true.
            names.setdefault(span, node)
            return span

        root = visit(tree.root)
        if keeps_missing:
            last = root[1]
            whole = (0, last + 1)
            children[whole] = (*children.pop(root, (0, last)), last + 1)
            names[whole], names[last, last + 1] = tree.root, MISSING
            if len(children[whole]) > 3:  # the values as a group of their own no longer exist
                names.pop(root)
        return cls(
            axis=axis,
            size=len(codes) + keeps_missing,
            children=children,
            names=names,
            code_of_position=tuple(codes[label] for label in labels),
            keeps_missing=keeps_missing,
        )

    def codes(
        self, column: pa.ChunkedArray, missing_values: Sequence[str] = ()
    ) -> NDArray[np.int64]:
        """The code of every cell; missing ones have the last, where they are kept."""
        place, gaps = positions(column, self.axis, missing_values)
        if self.numeric:
            cells = len(self.edges) - 1
            codes = place * cells
            codes //= self.axis.steps + 1
        else:
            codes = np.array(self.code_of_position, np.int64)[place]
        if self.keeps_missing:
            codes[gaps] = self.size - 1
        return codes

    def label(self, start: int, stop: int) -> str:
        """The name of the node [start, stop)."""
        if not self.numeric:
            return self.names[start, stop]
        cells = len(self.edges) - 1
        if start == cells:
            return MISSING
        last = min(stop, cells)
        low = _text(self.axis, self.edges[start])
        if last == cells:
            interval = f"[{low}, {_text(self.axis, self.axis.steps)}]"
        else:
            interval = f"[{low}, {_text(self.axis, self.edges[last])})"
        return f"{interval} or {MISSING}" if stop > cells else interval


def _text(axis: Axis, position: int) -> str:
    """The value at a position of a measured axis, as a person writes it."""
    value = (axis.low + position) * axis.step
    if axis.type is Type.DATE:
        return (date(1970, 1, 1) + timedelta(days=int(value))).isoformat()
    if axis.type is Type.DATETIME:
        microseconds = value.numerator * 10**6 // value.denominator
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        return moment.isoformat()
    if value.denominator == 1:
        return str(int(value))
    # The step is a decimal fraction, so the quotient ends.
    return format((Decimal(value.numerator) / Decimal(value.denominator)).normalize(), "f")
