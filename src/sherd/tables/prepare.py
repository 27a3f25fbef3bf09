"""Preparation: a table is checked against its schema, and what is not released is removed.

The schema's policies for missing cells and for values outside the domain are carried out
here, before any method sees the table. A refusal is an output too: it names the attribute and
says neither values nor counts. ``strict`` refuses nothing that a record could cause: such cells
take a value that the schema alone decides. What was treated, and how often, is told to the
owner (``Prepared.treated``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import TableError
from sherd.tables.attribute import value_of
from sherd.tables.axis import measure
from sherd.tables.canonical_form import canonical_cells, canonical_table, is_text
from sherd.tables.coding import arrow_array, in_units, nulls, numpy_array, texts, unreadable
from sherd.tables.conform import check_columns
from sherd.tables.schema import Attribute, Missing, Outside, Role, Schema, Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


WORRYING = 0.01
"""The share of an attribute's cells from which their treatment is worth a warning."""


@dataclass(frozen=True, kw_only=True)
class Treated:
    """How many cells of an attribute were treated in one way, of how many, and why.

    ``how`` is ``kept``, ``recoded``, ``clamped`` or ``dropped``.
    """

    attribute: str
    how: str
    why: str
    cells: int
    of: int

    @property
    def share(self) -> float:
        """The share of the attribute's cells."""
        return self.cells / self.of

    @property
    def worrying(self) -> bool:
        """Whether so many cells were changed that the schema may be wrong."""
        return self.how != "kept" and self.share > WORRYING

    def meaning(self) -> str:
        """The treatment in words.

        >>> one = Treated(attribute="age", how="clamped", why="too old", cells=3, of=4)
        >>> one.meaning()
        'WARNING: 3 of 4 cells were clamped: too old; is the schema right?'
        """
        text = f"{self.cells} of {self.of} cells were {self.how}: {self.why}"
        if self.how == "dropped":
            text += ", and their rows with them"
        return f"WARNING: {text}; is the schema right?" if self.worrying else text


def warned(meaning: str, share: float) -> str:
    """What is said of a share of records that were left out; above ``WORRYING`` it warns.

    >>> warned("left out", 0.4), warned("left out", 0.001)
    ('WARNING: 40 % left out', 'left out')
    """
    return f"WARNING: {share:.0%} {meaning}".replace("%", " %", 1) if share > WORRYING else meaning


def note(
    treated: list[Treated], attribute: Attribute, how: str, why: str, cells: NDArray[np.bool_]
) -> None:
    """Add to the list what was done, where it was done to any cell."""
    count = int(cells.sum())
    if count:
        treated.append(
            Treated(attribute=attribute.name, how=how, why=why, cells=count, of=len(cells))
        )


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A table ready for a method, which rows of the input it holds (None: all), what was done."""

    table: pa.Table
    kept: NDArray[np.int64] | None
    treated: tuple[Treated, ...] = ()


def prepare(
    table: pa.Table, schema: Schema, *, strict: bool = False, part: bool = False
) -> Prepared:
    """Check a table against its schema and carry out the schema's policies.

    If the table is ``part`` of another, no row needs to be left.
    """
    check_columns(table.column_names, schema, shown="the table")
    surplus = surplus_rows(table, schema) if strict else None
    if not strict:
        check_unit(table, schema)
    check_rows(table.num_rows)
    table = canonical_table(table, schema, lenient=strict)
    drop = np.zeros(table.num_rows, np.bool_)
    treated: list[Treated] = []
    for name in table.column_names:
        attribute = schema[name]
        column = table.column(name)
        if not attribute.role.protected:
            continue
        if strict:
            column = _strictly(column, attribute, schema, surplus, treated)
        else:
            column, gone = _missing(column, attribute, schema, treated)
            drop |= gone
            drop |= _outside(column, attribute, schema, treated)
        if column is not table.column(name):
            table = table.set_column(table.column_names.index(name), name, column)
    if not drop.any():
        return Prepared(table=table, kept=None, treated=tuple(treated))
    rows_kept = np.flatnonzero(~drop)
    if not part:
        check_rows(table.num_rows, left=rows_kept.size)
    left = table.take(arrow_array(rows_kept))
    for place, name in enumerate(left.column_names):
        if pa.types.is_dictionary(left.column(name).type):
            left = left.set_column(place, name, _without_unused(left.column(name)))
    return Prepared(table=left, kept=rows_kept, treated=tuple(treated))


def check_rows(rows: int, left: int | None = None) -> None:
    """Refuse a table without rows, and one of which none is left."""
    if not rows:
        raise TableError("the table has no rows", must="at least one row")
    if left == 0:
        raise TableError(
            "no row is left after dropping those with missing or outlying cells",
            do="choose another policy for `missing` or `outside` in the schema",
        )


def _strictly(
    column: pa.ChunkedArray,
    attribute: Attribute,
    schema: Schema,
    surplus: NDArray[np.bool_] | None,
    treated: list[Treated],
) -> pa.ChunkedArray:
    """The column with a stand-in wherever a cell is not a value the schema declares."""
    stand_in = replace(attribute, recode=stand_in_of(attribute))
    gaps = is_missing(column, attribute, schema)
    note(treated, attribute, "recoded", "missing, or not a value of its type", gaps)
    if attribute.type.labelled and attribute.labels is not None:
        unlisted = _unlisted(column, attribute, schema)
        note(treated, attribute, "recoded", "not among the listed labels", unlisted)
        gaps |= unlisted
        if attribute.other is not None:
            stand_in = replace(attribute, recode=attribute.other)
    elif attribute.domain is not None:
        note(treated, attribute, "clamped", "outside its domain", _beyond(column, attribute))
    if surplus is not None:
        note(treated, attribute, "recoded", "one row too many of a unit", surplus)
        gaps |= surplus
    return recoded(column, gaps, stand_in) if gaps.any() else column


def stand_in_of(attribute: Attribute) -> str:
    """The declared ``recode`` value, else the middle of what the schema declares.

    >>> age = Attribute(name="age", type=Type.INTEGER, domain=(Decimal(0), Decimal(99)))
    >>> stand_in_of(age)
    '49'
    """
    if attribute.recode is not None:
        return attribute.recode
    if attribute.type is Type.BOOLEAN:
        return "false"
    if attribute.type.labelled:
        labels = attribute.labels or ("",)
        return labels[(len(labels) - 1) // 2]
    assert attribute.domain is not None, "a strict plan needs declared domains"
    low: Any
    high: Any
    low, high = attribute.domain
    middle = low + (high - low) / 2
    if attribute.type is Type.INTEGER:
        return str(int(middle))
    return str(middle) if isinstance(middle, Decimal) else str(middle.isoformat())


def _without_unused(column: pa.ChunkedArray) -> pa.Array:
    """A dictionary column that does not list values which only dropped rows had."""
    whole = column.combine_chunks()
    coded = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    gaps = nulls(coded.indices)
    indices = np.where(gaps, 0, numpy_array(coded.indices)).astype(np.int64)
    used = np.unique(indices[~gaps])
    places = arrow_array(np.searchsorted(used, indices), gaps).cast(coded.indices.type)
    values = coded.dictionary.take(arrow_array(used))
    return pa.DictionaryArray.from_arrays(places, values, ordered=coded.type.ordered)


def check_unit(table: pa.Table, schema: Schema) -> None:
    """Refuse a table in which somebody has more rows than the schema allows."""
    surplus = surplus_rows(table, schema)
    if surplus is not None and surplus.any():
        raise too_many_rows(schema)


def too_many_rows(schema: Schema) -> TableError:
    """The error of a table in which somebody has more rows than the schema allows."""
    return TableError(
        f"a unit in '{schema.unit}' has more rows than the schema allows",
        must=f"at most {schema.rows_per_unit}",
        do="reduce them first, or declare rows_per_unit, which the guarantee will then name",
    )


def surplus_rows(table: pa.Table, schema: Schema) -> NDArray[np.bool_] | None:
    """The rows of a unit beyond those that the schema allows it; None without a unit."""
    if schema.unit is None:
        return None
    coded = table.column(schema.unit).combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    codes = numpy_array(coded.indices.cast(pa.int64()).fill_null(len(coded.dictionary)))
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], codes[order])
    surplus = np.empty(len(codes), np.bool_)
    surplus[order] = np.arange(len(codes)) - first >= schema.rows_per_unit
    return surplus


def is_missing(column: pa.ChunkedArray, attribute: Attribute, schema: Schema) -> NDArray[np.bool_]:
    """Which cells have no value: null, NaN, or one of the schema's marks for it."""
    missing = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    marks = [m for m in schema.missing_values if m not in (attribute.labels or ())]
    gaps = numpy_array(missing.combine_chunks())
    if marks and is_text(column.type):
        gaps = gaps | by_text(column, lambda text: text in marks, np.bool_)
    return gaps


def _missing(
    column: pa.ChunkedArray, attribute: Attribute, schema: Schema, treated: list[Treated]
) -> tuple[pa.ChunkedArray, NDArray[np.bool_]]:
    nothing = np.zeros(len(column), np.bool_)
    gaps = is_missing(column, attribute, schema)
    if not gaps.any():
        return column, nothing
    policy = schema.missing_policy(attribute.name)
    note(treated, attribute, *missing_treatment(attribute, schema), gaps)
    if policy is Missing.KEEP:
        return column, nothing
    if policy is Missing.DROP:
        return column, gaps
    return recoded(column, gaps, attribute), nothing


def missing_treatment(attribute: Attribute, schema: Schema) -> tuple[str, str]:
    """What is done to an attribute's missing cells, and why; raises where they are refused."""
    policy = schema.missing_policy(attribute.name)
    if policy is Missing.REFUSE:
        raise TableError(
            f"the attribute '{attribute.name}' has missing cells",
            must="none",
            do="set `missing: keep`, `drop`, or `recode` with a `recode:` value",
        )
    done = {Missing.KEEP: "kept", Missing.DROP: "dropped", Missing.RECODE: "recoded"}[policy]
    return done, "missing"


def recoded(
    column: pa.ChunkedArray, gaps: NDArray[np.bool_], attribute: Attribute
) -> pa.ChunkedArray:
    """The column with the attribute's ``recode`` value wherever there is a gap."""
    plain = column
    if pa.types.is_dictionary(column.type):
        plain = column.cast(column.type.value_type)
    value: Any = attribute.recode
    if attribute.type is Type.BOOLEAN:
        value = str(value).lower() == "true"
    elif attribute.type is Type.DATETIME:  # in UTC, without a zone, as its cells are
        moment: Any = value_of(str(value), attribute.type)
        value = moment.astimezone(UTC).replace(tzinfo=None)
    try:
        filler = pa.scalar(value).cast(plain.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TableError(
            f"the attribute '{attribute.name}' cannot be recoded",
            must=f"a `recode:` value of the column's type {plain.type}",
            got=repr(attribute.recode),
        ) from None
    filled = pc.if_else(arrow_array(gaps), filler, plain.combine_chunks())
    return canonical_cells(pa.chunked_array([filled]), attribute)


def _outside(
    column: pa.ChunkedArray, attribute: Attribute, schema: Schema, treated: list[Treated]
) -> NDArray[np.bool_]:
    """Which rows to drop; raises where the policy is to refuse."""
    beyond = beyond_schema(column, attribute, schema)
    if not beyond.any():
        return beyond
    done, why = outside_treatment(attribute, schema)
    note(treated, attribute, done, why, beyond)
    return beyond if done == "dropped" else np.zeros(len(column), np.bool_)


def beyond_schema(
    column: pa.ChunkedArray, attribute: Attribute, schema: Schema
) -> NDArray[np.bool_]:
    """Which cells have a value that the schema does not declare."""
    labelled = attribute.type.labelled
    if (attribute.labels if labelled else attribute.domain) is None:
        return np.zeros(len(column), np.bool_)
    return _unlisted(column, attribute, schema) if labelled else _beyond(column, attribute)


def outside_treatment(attribute: Attribute, schema: Schema) -> tuple[str, str]:
    """What is done to cells outside what is declared, and why; raises where they are refused."""
    policy, labelled = schema.outside_policy(attribute.name), attribute.type.labelled
    why = "not among the listed labels" if labelled else "outside its domain"
    if policy is Outside.CLAMP and (not labelled or attribute.other is not None):
        return ("recoded" if labelled else "clamped"), why
    if policy is Outside.DROP:
        return "dropped", why
    noun = "labels its schema does not list" if labelled else "values outside its domain"
    raise TableError(
        f"the attribute '{attribute.name}' has {noun}",
        must="within what the schema declares",
        do="correct the schema, set `outside: drop`, or "
        + ("name a label as `other`" if labelled else "set `outside: clamp`"),
    )


def _unlisted(column: pa.ChunkedArray, attribute: Attribute, schema: Schema) -> NDArray[np.bool_]:
    known = {None, *(attribute.labels or ()), *schema.missing_values}
    try:
        return by_text(column, lambda text: text not in known, np.bool_)
    except pa.ArrowNotImplementedError:
        raise unreadable(attribute.name, attribute.type, column.type) from None


def by_text(
    column: pa.ChunkedArray, meaning: Callable[[str | None], Any], kind: Any
) -> NDArray[Any]:
    """What the text of every cell means; a chunk's texts are looked up once each."""
    nothing = meaning(None)
    cells = np.full(len(column), nothing, kind)
    start = 0
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        known = [meaning(text) for text in texts(coded.dictionary)]
        if any(one != nothing for one in known):
            indices = np.where(nulls(coded.indices), len(known), numpy_array(coded.indices))
            cells[start : start + len(chunk)] = np.array([*known, nothing], kind)[indices]
        start += len(chunk)
    return cells


def _beyond(column: pa.ChunkedArray, attribute: Attribute) -> NDArray[np.bool_]:
    assert attribute.domain is not None
    low, high = (float(measure(bound)) for bound in attribute.domain)
    outside = np.zeros(len(column), np.bool_)
    start = 0
    for chunk in column.chunks:
        values, missing = in_units(chunk, attribute.name, attribute.type)
        beyond = (values < low) | (values > high)
        outside[start : start + len(chunk)] = beyond if missing is None else beyond & ~missing
        start += len(chunk)
    return outside


def untouched(table: pa.Table, schema: Schema) -> list[str]:
    """The columns of a prepared table that are released as they are."""
    return [n for n in table.column_names if schema[n].role in (Role.INSENSITIVE, Role.WEIGHT)]
