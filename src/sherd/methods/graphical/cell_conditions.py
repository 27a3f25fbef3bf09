"""Conditions of a query over measured cells: which cells surely meet them, which may.

A condition is decided for every fine cell of an attribute: by all of its values, by some, or by
none. Bins hold several cells, so a bin surely meets what all of its cells do. What is sure and
what is possible bound the truth from both sides; the likely share spreads records within a
cell evenly and within a bin as the release says. Comparisons with a missing cell hold for nobody,
as in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import UsageError, did_you_mean
from sherd.methods.graphical.public_grid import PublicGrid
from sherd.tables.attribute import value_of
from sherd.tables.axis import Axis, measure
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

    Shares = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class CellColumn:
    """An attribute as a release counted it: fine cells, their bins, and shares within a bin."""

    grid: PublicGrid
    bins: NDArray[np.int64]
    within: Shares

    @classmethod
    def of(cls, stated: Mapping[str, Any], schema: Schema) -> CellColumn:
        """What a model's document states of an attribute."""
        attribute = schema[stated["name"]]
        return cls(
            grid=PublicGrid(
                axis=Axis.of(attribute),
                edges=tuple(stated["edges"]),
                ordered=attribute.type.measured,
                keeps_missing=bool(stated["missing"]),
            ),
            bins=np.array(stated["bins"], np.int64),
            within=np.array(stated["within"]),
        )

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.grid.name

    @property
    def kind(self) -> Type:
        """The attribute's declared type."""
        return self.grid.axis.type

    def values(self) -> tuple[Shares, Shares]:
        """The lowest and the highest value of every fine cell; a missing one counts as 0."""
        axis, edges = self.grid.axis, np.array(self.grid.edges, np.float64)
        low, high = (edges[:-1], edges[1:] - 1)
        gap = [0.0] * self.grid.keeps_missing
        step = float(axis.step)
        return (
            np.append((low + axis.low) * step, gap),
            np.append((high + axis.low) * step, gap),
        )

    def labels(self) -> list[Any] | None:
        """The value of every fine cell, None for missing; None where a cell holds several."""
        axis, edges = self.grid.axis, self.grid.edges
        gap = [None] * self.grid.keeps_missing
        if axis.labels is not None:
            return [*axis.labels, *gap]
        if self.kind is Type.BOOLEAN:
            return [False, True, *gap]
        if len(edges) - 1 != axis.steps + 1 or self.kind is not Type.INTEGER:
            return None
        return [*(int((axis.low + place) * axis.step) for place in edges[:-1]), *gap]


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """Shares of each cell's records that surely, likely and possibly meet a condition.

    Over one attribute the axes are its fine cells, over several the bins of each.
    """

    names: tuple[str, ...]
    sure: Shares
    likely: Shares
    possible: Shares

    def binned(self, columns: Mapping[str, CellColumn]) -> Truth:
        """The same over bins; several attributes are already."""
        if len(self.names) != 1:
            return self
        column = columns[self.names[0]]
        return Truth(
            names=self.names,
            sure=lowest(self.sure, column.bins),
            likely=np.bincount(column.bins, self.likely * column.within).astype(np.float64),
            possible=-lowest(-self.possible, column.bins),
        )

    def over(self, names: tuple[str, ...]) -> tuple[Shares, Shares, Shares]:
        """The three shares, ready to be broadcast over more attributes, in the same order."""

        def spread(table: Shares) -> Shares:
            sizes = iter(table.shape)
            return table.reshape([next(sizes) if name in self.names else 1 for name in names])

        return spread(self.sure), spread(self.likely), spread(self.possible)


def lowest(values: Shares, bins: NDArray[np.int64]) -> Shares:
    """The least of each bin's values.

    >>> lowest(np.array([3.0, 1.0, 2.0]), np.array([0, 1, 0])).tolist()
    [2.0, 1.0]
    """
    found = np.full(int(bins.max()) + 1, np.inf)
    np.minimum.at(found, bins, values)
    return found


def both(one: Truth, other: Truth, columns: Mapping[str, CellColumn], *, either: bool) -> Truth:
    """Two conditions joined by AND, or by OR."""
    if one.names != other.names:
        one, other = one.binned(columns), other.binned(columns)
    names = tuple(name for name in columns if name in one.names or name in other.names)
    pairs = zip(one.over(names), other.over(names), strict=True)
    joined = [1 - (1 - a) * (1 - b) if either else a * b for a, b in pairs]
    return Truth(names=names, sure=joined[0], likely=joined[1], possible=joined[2])


def decide(tree: Any, columns: Mapping[str, CellColumn], *, negated: bool = False) -> Truth:
    """What a condition of a query says of every cell; UsageError where it cannot be decided."""
    from sqlglot import exp

    if isinstance(tree, exp.Paren):
        return decide(tree.this, columns, negated=negated)
    if isinstance(tree, exp.Not):
        return decide(tree.this, columns, negated=not negated)
    if isinstance(tree, (exp.And, exp.Or)):
        one, other = (decide(t, columns, negated=negated) for t in (tree.left, tree.right))
        return both(one, other, columns, either=isinstance(tree, exp.Or) != negated)
    if isinstance(tree, exp.Column):
        return _ranges(named(tree, columns), [(1, 1)], negated=negated, boolean=True)
    column = named(tree.this, columns) if isinstance(tree.this, exp.Column) else None
    if isinstance(tree, exp.Is) and column is not None and isinstance(tree.expression, exp.Null):
        missing = np.zeros(column.grid.size)
        missing[column.grid.cells :] = 1
        chosen = 1 - missing if negated else missing
        return Truth(names=(column.name,), sure=chosen, likely=chosen, possible=chosen)
    if isinstance(tree, exp.In) and column is not None and tree.expressions:
        spans = [_span(column, "EQ", one) for one in tree.expressions]
        return _ranges(column, spans, negated=negated)
    if isinstance(tree, exp.Between) and column is not None:
        low = _span(column, "GTE", tree.args["low"])[0]
        return _ranges(column, [(low, _span(column, "LTE", tree.args["high"])[1])], negated=negated)
    operator = type(tree).__name__
    if operator in _MIRRORED and column is None and isinstance(tree.expression, exp.Column):
        column, literal = named(tree.expression, columns), tree.this
        operator = _MIRRORED[operator]
    elif operator in _MIRRORED and column is not None:
        literal = tree.expression
    else:
        raise _refused(tree)
    negated = negated != (operator == "NEQ")
    span = _span(column, "EQ" if operator == "NEQ" else operator, literal)
    return _ranges(column, [span], negated=negated)


_MIRRORED = {"EQ": "EQ", "NEQ": "NEQ", "LT": "GT", "LTE": "GTE", "GT": "LT", "GTE": "LTE"}


def named(node: Any, columns: Mapping[str, CellColumn]) -> CellColumn:
    """The attribute that a query names, whatever its case."""
    by_lower = {name.lower(): column for name, column in columns.items()}
    if node.name.lower() not in by_lower:
        raise UsageError(
            f"the release has no attribute '{node.name}'",
            must="one of " + ", ".join(columns),
            do=did_you_mean(node.name, columns) or None,
        )
    return by_lower[node.name.lower()]


def _refused(tree: Any) -> UsageError:
    text = tree.sql(dialect="duckdb")
    return UsageError(
        "this part of the query is not answered from measured counts",
        got=text if len(text) <= 80 else text[:77] + "…",
        must="attributes compared with constants, IN, BETWEEN, IS NULL, AND, OR, NOT",
    )


def _text(literal: Any) -> str:
    """A constant as text."""
    from sqlglot import exp

    if isinstance(literal, exp.Cast):
        literal = literal.this
    if isinstance(literal, exp.Neg) and isinstance(literal.this, exp.Literal):
        return "-" + str(literal.this.this)
    if isinstance(literal, exp.Boolean):
        return str(literal.this).lower()
    if not isinstance(literal, exp.Literal):
        raise _refused(literal)
    return str(literal.this)


def _span(column: CellColumn, operator: str, literal: Any) -> tuple[int, int]:
    """The first and last place of an axis at which a comparison holds; first > last: nowhere."""
    text, axis = _text(literal), column.grid.axis
    if not column.kind.measured:
        labels = list(axis.labels or ("false", "true"))
        if operator != "EQ":
            raise UsageError(
                f"'{column.name}' has labels, which are not compared by size", must="=, <> or IN"
            )
        if text not in labels:
            raise UsageError(
                f"'{column.name}' has no such label",
                must="one of its schema's labels, in quotes",
                got=repr(text),
                do=did_you_mean(text, labels) or None,
            )
        return labels.index(text), labels.index(text)
    try:
        place = measure(value_of(text, Type.NUMBER if column.kind is Type.INTEGER else column.kind))
    except ValueError:
        raise UsageError(
            f"'{column.name}' is compared with something that cannot be its value",
            must=f"a value of type {column.kind}",
            got=repr(text),
        ) from None
    return _places(place / axis.step - axis.low, operator, axis.steps)


def _places(place: Fraction, operator: str, last: int) -> tuple[int, int]:
    """Where a comparison with a place, which may lie between two, holds."""
    up, down = -(-place // 1), place // 1
    first, final = {
        "EQ": (up, down),
        "LT": (0, up - 1),
        "LTE": (0, down),
        "GT": (down + 1, last),
        "GTE": (up, last),
    }[operator]
    return max(int(first), 0), min(int(final), last)


def _ranges(
    column: CellColumn, spans: list[tuple[int, int]], *, negated: bool, boolean: bool = False
) -> Truth:
    """Which fine cells lie in some ranges of places, or outside all of them."""
    if boolean and column.kind is not Type.BOOLEAN:
        raise UsageError(f"'{column.name}' is not a condition", must="a boolean, or a comparison")
    edges = np.array(column.grid.edges, np.float64)
    width = np.diff(edges)
    inside = np.zeros(len(width))
    for first, final in set(spans):
        held = np.minimum(edges[1:], final + 1) - np.maximum(edges[:-1], first)
        inside += np.maximum(held, 0)
    share = np.minimum(inside / width, 1.0)
    if negated:
        share = 1 - share
    share = np.append(share, [0.0] * column.grid.keeps_missing)
    return Truth(
        names=(column.name,),
        sure=np.floor(share),
        likely=share,
        possible=np.ceil(share),
    )
