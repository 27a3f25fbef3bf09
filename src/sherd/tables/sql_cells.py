"""Cells as codes, worked out by a database as Sherd works them out in memory.

What a cell is (a value, missing, outside its domain) and which code it has is decided in one
place, by ``canonical_cells``, ``prepare`` and a method's own coding. A database cannot run that
code, so it is asked here, and the answers are written down as SQL:

- of a column of labels, truths or texts the database lists the distinct values, each of them is
  coded, and the query compares cells with them, texts by their bytes;
- for numbers, days and times codes never fall as values rise, so the least value of every code
  is found by bisection over all values that the column's type has, and the query compares
  cells with these. No value of the data is needed.

So a count in the database is the count in memory by construction, roundings included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import TableError
from sherd.tables.axis import measure
from sherd.tables.canonical_form import canonical_cells, is_text
from sherd.tables.coding import arrow_array, in_units, numpy_array
from sherd.tables.conform import conform_column
from sherd.tables.prepare import beyond_schema, is_missing, recoded
from sherd.tables.schema import Attribute, Missing, Outside, Schema
from sherd.tables.sql_scale import ColumnScale, UncountableError, least_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.tables.sql_scale import Dialect

Codes = Callable[[pa.ChunkedArray], "NDArray[np.integer]"]
"""A method's coding: the code of every cell of a column in its canonical form."""

MOST_DISTINCT = 10_000
"""Distinct values of a column that are listed; a column with more is not of labels."""

FINE, MISSING, OUTSIDE = 0, 1, 2
"""What a cell can be."""


@dataclass(frozen=True, kw_only=True)
class SqlCells:
    """An attribute's cells in SQL.

    ``value`` is the expression that the outer query knows as ``alias``; ``missing`` and
    ``outside`` are conditions on it; ``codes`` says which code the cells have that are neither,
    or are clamped, for any grouping of codes into bins.
    """

    attribute: Attribute
    alias: str
    value: str
    missing: str
    outside: str
    codes: Callable[[Sequence[int]], str]
    missing_code: int | None
    drops: tuple[bool, bool]

    def state(self) -> str:
        """An expression: ``FINE``, ``MISSING`` or ``OUTSIDE``."""
        return (
            f"CASE WHEN {self.missing} THEN {MISSING} WHEN {self.outside} THEN {OUTSIDE} "
            f"ELSE {FINE} END"
        )

    def dropped(self) -> str | None:
        """A condition: the cell's row is dropped; None where none is."""
        states = [s for s, drops in zip((MISSING, OUTSIDE), self.drops, strict=True) if drops]
        return f"({self.state()}) IN ({', '.join(map(str, states))})" if states else None

    def binned(self, bins: Sequence[int]) -> str:
        """An expression: the bin of the cell's code."""
        inside = self.codes(bins)
        if self.missing_code is None:
            return inside
        return f"CASE WHEN {self.missing} THEN {bins[self.missing_code]} ELSE {inside} END"


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """What some values of a column are, and their codes."""

    missing: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    codes: NDArray[np.int64]


def coded_cells(
    attribute: Attribute,
    schema: Schema,
    codes: Codes,
    kind: pa.DataType,
    dialect: Dialect,
    *,
    alias: str,
    number: bool,
    distinct: Callable[[str], pa.ChunkedArray],
) -> SqlCells:
    """The SQL of an attribute's cells.

    ``kind`` is the column's type as the driver gives it; ``number`` says that it is a number of
    any length for which the driver gives text; ``distinct`` asks for the distinct values of an
    expression.
    """
    column = dialect.name(attribute.name)
    scale = ColumnScale.of(kind, attribute, dialect, number=number)
    drops = (
        schema.missing_policy(attribute.name) is Missing.DROP,
        schema.outside_policy(attribute.name) is Outside.DROP,
    )
    if scale is None:
        text = is_text(kind)
        value = dialect.hexadecimal.format(column) if text else column
        values = distinct(value)
        if len(values) > MOST_DISTINCT:
            raise UncountableError(
                f"the attribute '{attribute.name}' has too many values to be counted inside the "
                f"database",
                must=f"at most {MOST_DISTINCT} distinct labels, or a column of numbers or times",
                got=f"a column of type {kind}",
                do="correct the column's type in the query, or choose --engine memory",
            )
        words = _words(values, attribute, dialect)
        values = conform_column(_texts(values) if text else values, attribute, schema, rows=False)
        missing, outside, expression = _listed(values, words, attribute, schema, codes, alias)
    else:
        missing, outside, expression = _ranged(scale, attribute, schema, codes, alias)
        value = scale.cast.format(column)
    return SqlCells(
        attribute=attribute,
        alias=alias,
        value=value,
        missing=missing,
        outside=outside,
        codes=expression,
        missing_code=_missing_code(attribute, schema, codes),
        drops=drops,
    )


def _words(values: pa.ChunkedArray, attribute: Attribute, dialect: Dialect) -> list[str | None]:
    """Values as a query writes them."""
    try:
        return [None if v is None else dialect.literal(v) for v in values.to_pylist()]
    except TableError:
        raise
    except (OverflowError, ValueError):  # Python's own message quotes the cell
        raise UncountableError(
            f"the attribute '{attribute.name}' has days that cannot be counted where they are",
            must="days and times from the year 1 to the year 9999",
            got=f"a column of type {values.type} with others, or with an infinity",
            do="leave them out in the query, or choose --engine memory",
        ) from None


def _missing_code(attribute: Attribute, schema: Schema, codes: Codes) -> int | None:
    """The code of missing cells: their own, that of the value they are recoded to, or none."""
    policy = schema.missing_policy(attribute.name)
    empty = canonical_cells(pa.chunked_array([pa.nulls(1, pa.string())]), attribute)
    if policy is Missing.KEEP:
        return int(codes(empty)[0])
    if policy is Missing.RECODE:
        return int(codes(recoded(empty, np.ones(1, np.bool_), attribute))[0])
    return None


def _judged(values: pa.ChunkedArray, attribute: Attribute, schema: Schema, codes: Codes) -> _Judged:
    """What values are by the schema, and the codes of those that have one (0 elsewhere)."""
    cells = canonical_cells(values, attribute, schema.missing_values)
    missing = is_missing(cells, attribute, schema)
    outside = beyond_schema(cells, attribute, schema)
    clamped = not attribute.type.labelled or attribute.other is not None
    good = ~missing & ~outside if not clamped else ~missing
    places = np.zeros(len(cells), np.int64)
    if good.any():
        places[good] = codes(cells.filter(arrow_array(good)))
    return _Judged(missing=missing, outside=outside, codes=places)


Parts = tuple[str, str, Callable[[Sequence[int]], str]]


def _texts(digits: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts from the digits of their bytes."""
    texts = [None if one is None else bytes.fromhex(one).decode() for one in digits.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _listed(
    values: pa.ChunkedArray,
    words: Sequence[str | None],
    attribute: Attribute,
    schema: Schema,
    codes: Codes,
    alias: str,
) -> Parts:
    """``words`` are the values as the query writes them."""
    judged = _judged(values, attribute, schema, codes)

    def among(wanted: NDArray[np.bool_]) -> str:
        listed = [w for w, want in zip(words, wanted, strict=True) if want and w is not None]
        return f"{alias} IN ({', '.join(listed)})" if listed else "1 = 0"

    def expression(bins: Sequence[int]) -> str:
        bin_of = np.array(bins, np.int64)[judged.codes]
        cases = [
            f"WHEN {among(here)} THEN {number}"
            for number in sorted(set(bin_of.tolist()))
            if (here := (bin_of == number) & ~judged.missing).any()
        ]
        return f"CASE {' '.join(cases)} END" if cases else "0"

    missing = f"({alias} IS NULL OR {among(judged.missing)})"
    return missing, f"({among(judged.outside)})", expression


def _ranged(
    scale: ColumnScale, attribute: Attribute, schema: Schema, codes: Codes, alias: str
) -> Parts:
    def cells(keys: NDArray[np.int64]) -> pa.ChunkedArray:
        return canonical_cells(pa.chunked_array([scale.column(keys)]), attribute)

    def amounts(keys: NDArray[np.int64]) -> NDArray[Any]:
        return in_units(cells(keys).combine_chunks(), attribute.name, attribute.type)[0]

    top = int(codes(cells(scale.keys([scale.high])))[0])
    firsts = least_keys(scale, lambda keys, at: codes(cells(keys)) >= at, np.arange(1, top + 1))
    marks = _marks(scale, cells, attribute, schema)
    known = "" if not scale.finite else f" OR NOT ({alias} {scale.finite})"
    listed = "".join(f" OR {alias} BETWEEN {low} AND {high}" for low, high in marks)
    outside = "1 = 0"
    if attribute.domain is not None:
        low, high = (float(measure(bound)) for bound in attribute.domain)
        first = least_keys(scale, lambda keys, _at: amounts(keys) >= low, np.zeros(1))[0]
        after = least_keys(scale, lambda keys, _at: amounts(keys) > high, np.zeros(1))[0]
        parts = [f"{alias} < {scale.literal(first)}"] if first is not None else []
        parts += [f"{alias} >= {scale.literal(after)}"] if after is not None else []
        outside = f"({' OR '.join(parts)})" if parts else outside

    def expression(bins: Sequence[int]) -> str:
        steps: list[tuple[int | None, int]] = [(None, bins[0])]
        for first, code in zip(firsts, range(1, top + 1), strict=True):
            if first is None:
                break
            if steps[-1][0] == first:
                steps.pop()
            if not steps or steps[-1][1] != bins[code]:
                steps.append((first, bins[code]))
        return _tree(steps, alias, scale)

    return f"({alias} IS NULL{known}{listed})", outside, expression


def _tree(steps: Sequence[tuple[int | None, int]], alias: str, scale: ColumnScale) -> str:
    """Nested comparisons, as many deep as the number of steps has digits in base two."""
    if len(steps) == 1:
        return str(steps[0][1])
    middle = len(steps) // 2
    at = steps[middle][0]
    assert at is not None, "only the first step begins nowhere"
    below, above = (_tree(part, alias, scale) for part in (steps[:middle], steps[middle:]))
    return f"CASE WHEN {alias} < {scale.literal(at)} THEN {below} ELSE {above} END"


def _marks(
    scale: ColumnScale,
    cells: Callable[[NDArray[np.int64]], pa.ChunkedArray],
    attribute: Attribute,
    schema: Schema,
) -> list[tuple[str, str]]:
    """The ranges of values that the schema lists as "no value"."""
    marks = []
    for word in schema.missing_values:
        try:
            mark = canonical_cells(pa.chunked_array([pa.array([word])]), attribute)
            listed = canonical_cells(mark, attribute, schema.missing_values)
        except TableError:
            continue  # a word that is no value of the type
        if not mark.null_count and listed.null_count:
            amount = _stored(mark)[:1]
            first = least_keys(scale, lambda keys, at: _stored(cells(keys)) >= at, amount)[0]
            after = least_keys(scale, lambda keys, at: _stored(cells(keys)) > at, amount)[0]
            if first is not None and first != after:
                last = scale.high if after is None else after - 1
                marks.append((scale.literal(first), scale.literal(last)))
    return marks


def _stored(column: pa.ChunkedArray) -> NDArray[Any]:
    """The numbers, days or microseconds that a canonical column holds."""
    whole = pa.concat_arrays(column.chunks)
    kind = whole.type
    if pa.types.is_date32(kind):
        whole = whole.view(pa.int32())
    elif pa.types.is_timestamp(kind):
        whole = whole.view(pa.int64())
    return numpy_array(whole)
