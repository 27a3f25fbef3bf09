"""Checking a delivered table against the plan: columns, rows, types, bounds, labels and k.

The aggregator sees masked values only, so what it can check is what the plan promises of
them: every cell is of its attribute's type and lies in its domain, and for a clustering method
every value of a masked attribute occurs at least k times. Labels are counted by their codes;
no dictionary is ever written out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import VerificationError
from sherd.federation.protocol.messages import part_text
from sherd.signing_keys import verify
from sherd.tables.schema import Missing, Type

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.federation.protocol.knowledge import RoundData
    from sherd.federation.protocol.messages import Delivery, Masked
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
    owner: str,
    tables: dict[str, pa.Table],
    schema: Schema,
    plan: Plan,
    rows: int,
    *,
    coded: bool = False,
) -> None:
    """Raise VerificationError where a delivery is not what the plan asks for."""
    if not masks_records(plan):
        return  # generalised values and centroids have domains of their own
    if not holds_records(tables, schema):
        raise wrong_delivery(owner, "its columns are not the plan's attributes")
    table = tables[RECORDS]
    if table.num_rows != rows:
        raise wrong_delivery(owner, f"it has {table.num_rows} rows instead of {rows}")
    sizes = _cluster_sizes(plan, schema)
    for name in schema.released:
        column, attribute = table.column(name), schema[name]
        _check_type(owner, column, attribute, coded=coded)
        if attribute.role.protected:
            _check_nulls(owner, column, name, schema)
            _check_column(owner, column, attribute, sizes.get(name, 1))


def wrong_delivery(owner: str, what: str) -> VerificationError:
    """The error of a delivery that cannot be used, which names whose it is."""
    return VerificationError(f"the delivery of {owner} is not what the plan asks for: {what}")


def _cluster_sizes(plan: Plan, schema: Schema) -> dict[str, int]:
    """The k of each attribute, for the methods that put k records into one value."""
    if "k" not in plan.parameters:
        return {}
    own = dict(plan.parameters.get("k_of") or {})
    return {name: int(own.get(name, plan["k"])) for name in schema.protected}


def _check_type(
    owner: str, column: pa.ChunkedArray, attribute: Attribute, *, coded: bool = False
) -> None:
    """Refuse a column that no table of this attribute could have: text for a number, say.

    Codes of numbers and times have the very type that a released cell has, where the plan says
    ``coded``; the reader made sure of the rest of their form.
    """
    import pyarrow as pa

    from sherd.tables.canonical_form import cell_type
    from sherd.tables.coded_columns import holds_numbers

    kind = column.type
    if coded and holds_numbers(kind) and kind.value_type == cell_type(attribute):
        return
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    text = pa.types.is_string(inner) or pa.types.is_large_string(inner)
    plain = kind is inner
    number = pa.types.is_floating(inner) or pa.types.is_decimal(inner)
    fits = {
        Type.INTEGER: plain and pa.types.is_integer(inner),
        Type.NUMBER: plain and (number or pa.types.is_integer(inner)),
        Type.DATE: plain and (pa.types.is_date(inner) or pa.types.is_timestamp(inner)),
        Type.DATETIME: plain and (pa.types.is_date(inner) or pa.types.is_timestamp(inner)),
        Type.BOOLEAN: plain and pa.types.is_boolean(inner),
    }.get(attribute.type, text or pa.types.is_boolean(inner) or pa.types.is_integer(inner))
    if not fits:
        what = f"'{attribute.name}' is of type {kind}, not {attribute.type.value}"
        raise wrong_delivery(owner, what)


def _check_nulls(owner: str, column: pa.ChunkedArray, name: str, schema: Schema) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = column.null_count
    values = column
    if pa.types.is_dictionary(column.type) and column.num_chunks:
        values = column.chunk(0).dictionary  # of numbers, the same for every chunk
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        raise wrong_delivery(owner, f"'{name}' has cells that are not a number")
    if missing and missing == len(column):
        raise wrong_delivery(owner, f"'{name}' has no value at all")
    if missing and schema.missing_policy(name) is not Missing.KEEP:
        raise wrong_delivery(owner, f"'{name}' has missing cells, which the plan does not keep")


def _check_column(owner: str, column: pa.ChunkedArray, attribute: Attribute, k: int) -> None:
    name = attribute.name
    values, times = _counted(column)
    if len(times) and times.min() < k:
        raise wrong_delivery(owner, f"a value of '{name}' occurs fewer than {k} times")
    if attribute.type.labelled:
        known = set(attribute.labels or ())
        if known and any(_label(value) not in known for value in values.to_pylist()):
            raise wrong_delivery(owner, f"'{name}' has a label that the plan does not list")
    elif attribute.domain is not None and len(values):
        _check_bounds(owner, values, attribute)


def _counted(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """The values that cells have, and how many cells have each; a dictionary stays one."""
    import pyarrow as pa

    from sherd.tables.coding import arrow_array, nulls, numpy_array

    if not pa.types.is_dictionary(column.type):
        return _tallied(column)
    whole = column.unify_dictionaries()
    if not whole.num_chunks:
        return pa.array([], column.type.value_type), np.empty(0, np.int64)
    labels = whole.chunk(0).dictionary
    times = np.zeros(len(labels), np.int64)
    for chunk in whole.chunks:
        used = numpy_array(chunk.indices)[~nulls(chunk.indices)]
        times += np.bincount(used, minlength=len(labels))
    present = np.flatnonzero(times)
    return labels.take(arrow_array(present)), times[present]


def _tallied(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """The values of a plain column with their counts; batches are looked at where they are."""
    import pyarrow.compute as pc

    from sherd.tables.coding import numpy_array

    counts = pc.value_counts(column)
    values, times = counts.field("values"), numpy_array(counts.field("counts"))
    there = values.is_valid()
    return (
        (values, times)
        if not values.null_count
        else (values.filter(there), times[numpy_array(there)])
    )


def _label(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_bounds(owner: str, values: pa.Array, attribute: Attribute) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    assert attribute.domain is not None
    if pa.types.is_temporal(values.type):
        return  # dates are bounded by their own types' axes when they are masked
    low, high = (float(bound) for bound in attribute.domain)  # type: ignore[arg-type]
    ends = pc.min_max(values.cast(pa.float64(), safe=False)).as_py()
    slack = 1e-9 * max(1.0, abs(low), abs(high))  # a bound such as 0.1 has no exact float
    if ends["min"] < low - slack or ends["max"] > high + slack:
        raise wrong_delivery(owner, f"'{attribute.name}' has values outside its domain")


def check_part(data: RoundData, owner: str, delivery: Delivery | Masked) -> None:
    """Refuse a delivery whose owner did not sign what the manifest will say of it."""
    plan = data.agreed
    text = part_text(
        plan_hash=plan.hash,
        owner=owner,
        artefact=delivery.artefact,
        head=delivery.head,
        versions=delivery.versions,
    )
    signed = verify(plan.share(owner).key, text, delivery.signature or "")
    if plan.terms.signed_release and not signed:
        raise VerificationError(f"the delivery is not signed by {owner} for its part")
