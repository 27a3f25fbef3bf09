"""Checking a delivered table against the plan: columns, rows, types, bounds, labels and k.

The aggregator sees masked values only, so what it can check is what the plan promises of
them: every cell is of its attribute's type and lies in its domain, and for a clustering method
every value of a masked attribute occurs at least k times. Labels are counted by their codes;
no dictionary is ever written out.

An owner that protects its table delivers released form, whatever the method. Everything else is
refused here, by the name of who delivered it: what assembling would stumble over, or what would
make the release fail its verification, is found when the others have paid.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import VerificationError
from sherd.federation.protocol.messages import part_text
from sherd.signing_keys import verify
from sherd.tables.schema import Missing

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
    for table in tables.values():
        for column in table.columns:
            _check_form(owner, column, coded=coded)
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
        _check_type(owner, column, attribute)
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


_DAYS = (date.min.toordinal(), date.max.toordinal())
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400 * 10**6


def _check_form(owner: str, column: pa.ChunkedArray, *, coded: bool) -> None:
    """Refuse a column that is in no released table: of another type, not finite, of no calendar."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sherd.tables.coded_columns import holds_numbers

    kind, values = column.type, column
    if pa.types.is_dictionary(kind):
        values = column.chunk(0).dictionary if column.num_chunks else pa.array([], kind.value_type)
        if holds_numbers(kind):  # the reader made sure of the rest of their form
            fits = coded
        else:  # labels, as earlier versions may send them
            fits = not values.null_count and pc.count_distinct(values).as_py() == len(values)
        if not fits:
            raise wrong_delivery(owner, f"a column is of type {_in_words(kind)}")
        kind = kind.value_type
    plain = (pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.large_string())
    if kind not in (*plain, pa.date32(), pa.timestamp("us")):
        raise wrong_delivery(owner, f"a column is of type {_in_words(column.type)}")
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(values), min_count=0).as_py():
        raise wrong_delivery(owner, "a column has cells that are not a number")
    if pa.types.is_temporal(kind):
        bits, unit = (pa.int32(), 1) if pa.types.is_date(kind) else (pa.int64(), _DAY)
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        ends = pc.min_max(pa.chunked_array([chunk.view(bits) for chunk in chunks], bits)).as_py()
        first, last = ((day - _EPOCH) * unit for day in _DAYS)
        if ends["min"] is not None and not first <= ends["min"] <= ends["max"] < last + unit:
            raise wrong_delivery(owner, "a column has days that no calendar has")


def _in_words(kind: pa.DataType) -> str:
    """A type that somebody else named, as far as it can be shown: it may hold a text of theirs."""
    return "".join(letter if letter.isprintable() else " " for letter in str(kind)[:80])


def _check_type(owner: str, column: pa.ChunkedArray, attribute: Attribute) -> None:
    """Refuse a column that no table of this attribute could have: text for a number, say."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sherd.tables.canonical_form import cell_type, is_text

    kind, wanted = column.type, cell_type(attribute)
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if inner == wanted or (is_text(inner) and is_text(wanted)):
        return
    if wanted == pa.float64() and kind == pa.int64():  # as earlier versions deliver it
        ends = pc.min_max(column).as_py()
        if ends["min"] is None or -(2**53) <= ends["min"] <= ends["max"] <= 2**53:
            return
    what = f"'{attribute.name}' is of type {_in_words(kind)}, not {attribute.type.value}"
    raise wrong_delivery(owner, what)


def _check_nulls(owner: str, column: pa.ChunkedArray, name: str, schema: Schema) -> None:
    missing = column.null_count
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
        # The number first: labels as texts of Python take many times the bytes that came.
        many = len(values) > len(known)
        if known and (many or any(_label(value) not in known for value in values.to_pylist())):
            raise wrong_delivery(owner, f"'{name}' has a label that the plan does not list")
    elif attribute.domain is not None and len(values):
        _check_bounds(owner, values, attribute)


def _counted(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """The values that cells have, and how many cells have each; a dictionary stays one."""
    import pyarrow as pa

    from sherd.tables.coding import arrow_array, numpy_array

    if not pa.types.is_dictionary(column.type):
        return _tallied(column)
    if not column.num_chunks:
        return pa.array([], column.type.value_type), np.empty(0, np.int64)
    # One list for all of it: the reader of streams takes no other. Arrow's own way to make it one
    # refuses a list that is as long as its codes allow.
    labels = column.chunk(0).dictionary
    codes = pa.chunked_array([chunk.indices for chunk in column.chunks])
    present, counts = _tallied(codes)
    # A label may stand in the list twice.
    by_label = pa.table({"label": labels.take(present), "times": arrow_array(counts)})
    whole = by_label.group_by("label").aggregate([("times", "sum")])
    there = whole.filter(whole.column("label").is_valid()).combine_chunks()
    if not there.num_rows:
        return pa.array([], labels.type), np.empty(0, np.int64)
    return there.column("label").chunk(0), numpy_array(there.column("times_sum").chunk(0))


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
    """Refuse values outside the domain, whose ends are the nearest numbers that cells can be."""
    import pyarrow.compute as pc

    from sherd.tables.axis import measure
    from sherd.tables.coding import arrow_array, in_units

    assert attribute.domain is not None
    cells, _ = in_units(values, attribute.name, attribute.type)
    low, high = (float(measure(bound)) for bound in attribute.domain)
    ends = pc.min_max(arrow_array(cells)).as_py()
    if ends["min"] < low or ends["max"] > high:
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
