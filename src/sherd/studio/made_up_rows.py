"""Rows made up from a schema alone: every value of a domain as likely as any other.

Nothing about them comes from data, so they can be looked at, and explored on, at no cost.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import SchemaError, SherdError
from sherd.tables.schema import Attribute, Role, Schema, Type

if TYPE_CHECKING:
    from sherd.release.plan import Plan

EXAMPLES = 5
_BEHIND = 400
"""Rows that examples are protected among."""


def made_up(schema: Schema, rows: int, draws: np.random.Generator) -> pa.Table:
    """A table of a schema with values drawn evenly from the declared domains."""
    return pa.table({each.name: _column(each, rows, draws) for each in schema})


def _column(attribute: Attribute, rows: int, draws: np.random.Generator) -> pa.Array:
    if attribute.role is Role.IDENTIFIER:
        if attribute.type is Type.INTEGER:
            return pa.array(range(rows))
        if attribute.type not in (Type.TEXT, Type.CATEGORY, Type.ORDINAL):
            return pa.nulls(rows)
        return pa.array([f"person {place + 1}" for place in range(rows)])
    if attribute.type is Type.BOOLEAN:
        return pa.array(draws.random(rows) < 0.5)
    if attribute.labels is not None:
        labels = np.array(attribute.labels, dtype=object)
        return pa.array(labels[draws.integers(0, len(labels), rows)].tolist(), pa.string())
    if attribute.domain is None:
        raise SchemaError(
            f"no values of '{attribute.name}' can be made up",
            must="a declared domain or list of values",
            do="decide about it in the schema",
        )
    return _measured(attribute.domain, draws.random(rows), attribute)


def _measured(domain: tuple[Any, Any], shares: Any, attribute: Attribute) -> pa.Array:
    low, high = domain
    if isinstance(low, datetime):
        length = (high - low).total_seconds()
        return pa.array([low + timedelta(seconds=int(share * length)) for share in shares])
    if isinstance(low, date):
        days = (high - low).days + 1
        return pa.array([low + timedelta(days=int(share * days)) for share in shares])
    assert isinstance(low, Decimal)
    start, length = float(low), float(high) - float(low)
    if attribute.type is Type.INTEGER:
        return pa.array([int(start) + int(share * (length + 1)) for share in shares], pa.int64())
    return pa.array(np.round(start + shares * length, 4))


def examples(schema: Schema, plan: Plan) -> dict[str, Any]:
    """A few made-up rows and what a plan makes of them; why not, where it cannot be done."""
    from sherd.release.protect import Settings, protect

    try:
        table = made_up(schema, _BEHIND, np.random.default_rng(7))
        how = Settings(keep_order=True, seed=7)
        release = protect(table, schema, plan, ledger=None, settings=how)
    except SherdError as error:
        return {"problem": error.what}
    released = next(iter(release.tables.values()))
    paired = "data" in release.tables and released.num_rows == _BEHIND
    return {
        "paired": paired,
        "before": _cells(table.select(list(schema.released))),
        "after": _cells(released),
    }


def _cells(table: pa.Table) -> dict[str, Any]:
    rows = table.slice(0, EXAMPLES).to_pylist()
    return {
        "names": table.column_names,
        "rows": [[_shown(cell) for cell in row.values()] for row in rows],
    }


def _shown(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else "" if cell is None else str(cell)
