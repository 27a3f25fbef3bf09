"""Checking a delivered table against the plan: columns, rows, bounds, labels and k.

The aggregator sees masked values only, so what it can check is what the plan promises of
them: every value lies in its domain, and for a clustering method every value of a masked
attribute occurs at least k times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import VerificationError

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.release.plan import Plan
    from sherd.tables.schema import Attribute, Schema

RECORDS = "data"
"""The name of a table whose rows are records."""


def masks_records(plan: Plan) -> bool:
    """Whether the plan's method releases every record with its own attributes, masked."""
    from sherd.methods.ranking.masking import Masking

    return isinstance(plan.spec, Masking) and plan["guarantee"] != "strict"


def holds_records(tables: dict[str, pa.Table], schema: Schema) -> bool:
    """Whether a delivery is one table with the schema's attributes as its columns."""
    return set(tables) == {RECORDS} and sorted(tables[RECORDS].column_names) == sorted(
        schema.released
    )


def check_delivery(
    owner: str, tables: dict[str, pa.Table], schema: Schema, plan: Plan, rows: int
) -> None:
    """Raise VerificationError where a delivery is not what the plan asks for."""
    if not masks_records(plan):
        return  # generalised values and centroids have domains of their own
    if not holds_records(tables, schema):
        raise _wrong(owner, "its columns are not the plan's attributes")
    table = tables[RECORDS]
    if table.num_rows != rows:
        raise _wrong(owner, f"it has {table.num_rows} rows instead of {rows}")
    sizes = _cluster_sizes(plan, schema)
    for name in schema.protected:
        _check_column(owner, table.column(name), schema[name], sizes.get(name, 1))


def _wrong(owner: str, what: str) -> VerificationError:
    return VerificationError(f"the delivery of {owner} is not what the plan asks for: {what}")


def _cluster_sizes(plan: Plan, schema: Schema) -> dict[str, int]:
    """The k of each attribute, for the methods that put k records into one value."""
    if "k" not in plan.parameters:
        return {}
    own = dict(plan.parameters.get("k_of") or {})
    return {name: int(own.get(name, plan["k"])) for name in schema.protected}


def _check_column(owner: str, column: pa.ChunkedArray, attribute: Attribute, k: int) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    name = attribute.name
    plain = column
    if pa.types.is_dictionary(column.type):
        plain = column.cast(column.type.value_type)
    counts = pc.value_counts(plain.drop_null().combine_chunks())
    values, times = counts.field("values"), counts.field("counts")
    if len(values) and pc.min(times).as_py() < k:
        raise _wrong(owner, f"a value of '{name}' occurs fewer than {k} times")
    if attribute.type.labelled:
        known = set(attribute.labels or ())
        if known and any(str(value) not in known for value in values.to_pylist()):
            raise _wrong(owner, f"'{name}' has a label that the plan does not list")
    elif attribute.domain is not None and len(values):
        _check_bounds(owner, values, attribute)


def _check_bounds(owner: str, values: pa.Array, attribute: Attribute) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    assert attribute.domain is not None
    if not (
        pa.types.is_integer(values.type)
        or pa.types.is_floating(values.type)
        or pa.types.is_decimal(values.type)
    ):
        return  # dates are bounded by their own types' axes when they are masked
    low, high = (float(bound) for bound in attribute.domain)  # type: ignore[arg-type]
    found = pc.min_max(values.cast(pa.float64())).as_py()
    slack = 1e-9 * max(1.0, abs(low), abs(high))  # a bound such as 0.1 has no exact float
    if found["min"] < low - slack or found["max"] > high + slack:
        raise _wrong(owner, f"'{attribute.name}' has values outside its domain")
