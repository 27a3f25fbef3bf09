"""Re-checking masked tables: columns, bounds, labels, cluster sizes.

Every row of a cluster got the same value, and rounding or clamping can only make clusters
look like one. So each distinct value of a masked attribute must occur at least k times.
"""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROTECTED = ("quasi-identifier", "sensitive")


def verify(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    """All checks of a masked table, or of a strict release's ordered centroids."""
    if "data" not in tables:
        return [Check(name="data", passed=False, detail="there is no table called data")]
    data, plan = tables["data"], manifest["plan"]
    schema = manifest["schema"]["attributes"]
    if plan.get("guarantee") == "strict":
        checks = _strict(data, plan, schema, manifest)
    else:
        rows = manifest.get("facts", {}).get("rows")
        detail = f"{data.num_rows} in the table, {rows} in the manifest"
        checks = [Check(name="rows", passed=data.num_rows == rows, detail=detail)]
        checks += _columns(data, schema)
        for name in data.column_names:
            if name in schema and schema[name].get("role") in _PROTECTED:
                checks += _attribute(name, data.column(name), schema[name], manifest)
    return [*checks, *_beyond_reach()]


def _beyond_reach() -> list[Check]:
    return [
        Check(
            name="noise",
            passed=None,
            detail="that the noise was drawn as the plan says cannot be seen in a release; "
            "`sherd audit` with the original can test it",
        ),
        Check(
            name="assumptions",
            passed=None,
            detail="that bounds, orders and parameters were chosen without the data, and that "
            "every person has one row, only the owner knows",
        ),
    ]


def _columns(data: pa.Table, schema: Mapping[str, Any]) -> list[Check]:
    expected = {n for n, a in schema.items() if a.get("role") != "identifier"}
    given = set(data.column_names)
    hidden = sorted(n for n in given & set(schema) if schema[n].get("role") == "identifier")
    odd = sorted(expected ^ (given - set(hidden)))
    return [
        Check(
            name="columns",
            passed=not odd,
            detail="those of the schema" if not odd else "not as in the schema: " + ", ".join(odd),
        ),
        Check(
            name="no identifiers",
            passed=not hidden,
            detail="none" if not hidden else "released: " + ", ".join(hidden),
        ),
    ]


def _attribute(
    name: str, column: pa.ChunkedArray, attribute: Mapping[str, Any], manifest: Mapping[str, Any]
) -> list[Check]:
    plan = manifest["plan"]
    k = plan.get("k_of", {}).get(name, plan.get("k", 1))
    checks = [_bounds(name, column, attribute)]
    if "joint" not in manifest:  # there every owner has a last cluster of its own
        checks += _lattice(name, column, attribute, k)
    if k > 1:
        checks.append(_cluster_sizes(name, column, k))
    if column.null_count and _policy(attribute, manifest) != "keep":
        checks.append(
            Check(name=f"{name}: missing", passed=False, detail="cells are missing, against policy")
        )
    return checks


def _policy(attribute: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    return str(attribute.get("missing") or manifest["schema"].get("missing", "keep"))


def _bounds(name: str, column: pa.ChunkedArray, attribute: Mapping[str, Any]) -> Check:
    title = f"{name}: bounds"
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = attribute["type"]
    if kind in ("category", "ordinal", "boolean"):
        labels = {"true", "false", "0", "1"} if kind == "boolean" else _labels(attribute)
        if labels is None:
            return Check(name=title, passed=None, detail="the schema lists no values")
        seen = pc.unique(column.drop_null()).to_pylist()
        unknown = sum(_text(value) not in labels for value in seen)
        detail = "all labels are listed" if not unknown else f"{unknown} labels are not listed"
        return Check(name=title, passed=not unknown, detail=detail)
    if attribute.get("domain") is None:
        return Check(name=title, passed=None, detail="the schema declares no domain")
    low, high = (_comparable(text, kind) for text in attribute["domain"])
    if pa.types.is_float32(column.type) or pa.types.is_float16(column.type):
        # The released end of the domain is the nearest number the column's type has.
        ends = pa.array([float(low), float(high)]).cast(column.type, safe=False).to_pylist()
        low = min(low, _comparable(ends[0], kind))
        high = max(high, _comparable(ends[1], kind))
    inside = all(low <= _comparable(v, kind) <= high for v in _ends(column))
    detail = "within the domain" if inside else "values lie outside the declared domain"
    return Check(name=title, passed=inside, detail=detail)


def _lattice(
    name: str, column: pa.ChunkedArray, attribute: Mapping[str, Any], k: int
) -> list[Check]:
    """Whether numbers are whole steps of the declared grid, shared by the rows of a cluster.

    A cell off this lattice says more than a noisy mean may. The last cluster takes the remainder.
    """
    grid, cells = attribute.get("grid"), column.drop_null()
    if attribute["type"] != "number" or grid is None or not len(cells):
        return []
    last = k + len(cells) % k if len(cells) >= k else k
    steps = pc.divide(cells.cast(pa.float64()), float(grid))
    fits = None
    for size in {k, last}:
        whole = pc.multiply(steps, float(size))
        # What double precision leaves of a whole number of steps.
        room = pc.add(pc.multiply(pc.abs(whole), 1e-9), 1e-6)
        near = pc.less_equal(pc.abs(pc.subtract(whole, pc.round(whole))), room)
        fits = near if fits is None else pc.or_(fits, near)
    passed = bool(pc.all(fits).as_py())
    detail = "means on the declared grid" if passed else "values no cluster's mean can have"
    return [Check(name=f"{name}: grid", passed=passed, detail=detail)]


def _ends(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column that can lie outside: its ends, or all where it holds text."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return list(pc.unique(column.drop_null()).to_pylist())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        if pc.any(pc.is_nan(column)).as_py():
            return [math.inf]
    found = pc.min_max(column)
    return [end for end in (found["min"].as_py(), found["max"].as_py()) if end is not None]


def _labels(attribute: Mapping[str, Any]) -> set[str] | None:
    if attribute.get("values") is not None:
        return set(attribute["values"])
    if attribute.get("taxonomy") is not None:
        return {path[0] for path in attribute["taxonomy"]}
    return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _comparable(value: Any, kind: str) -> Any:
    """A bound or a cell of an attribute as a date, a time with a zone, or an exact number."""
    if kind == "date":
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        return value.date() if isinstance(value, datetime) else value
    if kind == "datetime":
        if isinstance(value, date) and not isinstance(value, datetime):
            value = value.isoformat()
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _cluster_sizes(name: str, column: pa.ChunkedArray, k: int) -> Check:
    title = f"{name}: clusters of {k}"
    present = column.drop_null()
    if not len(present):
        return Check(name=title, passed=None, detail="no value is present")
    if pa.types.is_dictionary(present.type):
        present = present.cast(present.type.value_type)
    counts = pc.value_counts(present.combine_chunks()).field("counts")
    least = pc.min(counts).as_py()
    distinct, most = len(counts), len(present) // k
    passed = least >= k and distinct <= max(1, most)
    detail = f"the rarest value occurs {least} times; {distinct} values, at most {most} clusters"
    return Check(name=title, passed=passed, detail=detail)


def _strict(
    data: pa.Table,
    plan: Mapping[str, Any],
    schema: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> list[Check]:
    wanted = ["attribute", "cluster", "size", "value", "text"]
    if data.column_names != wanted:
        return [Check(name="columns", passed=False, detail="not those of ordered centroids")]
    expected = sorted(n for n, a in schema.items() if a.get("role") in _PROTECTED)
    given = sorted(set(data.column("attribute").to_pylist()))
    checks = [Check(name="attributes", passed=given == expected, detail=", ".join(given))]
    rows = manifest.get("facts", {}).get("rows")
    for name in given:
        part = data.filter(pc.equal(data.column("attribute"), name))
        sizes = part.column("size").to_pylist()
        values = part.column("value").to_pylist()
        k = plan.get("k_of", {}).get(name, plan["k"])
        numbered = part.column("cluster").to_pylist() == list(range(1, len(sizes) + 1))
        # All clusters have k, but for the last, which takes the remainder.
        large = sizes[:-1] == [k] * (len(sizes) - 1) and k <= sizes[-1] < 2 * k
        ascending = all(a <= b for a, b in itertools.pairwise(values))
        checks += [
            Check(
                name=f"{name}: clusters of {k}",
                passed=large and numbered and sum(sizes) == rows,
                detail=f"{len(sizes)} clusters of {min(sizes)} to {max(sizes)} records",
            ),
            Check(name=f"{name}: ascending", passed=ascending, detail=f"{len(values)} centroids"),
            _strict_bounds(name, values, schema.get(name, {})),
        ]
    return checks


def _strict_bounds(name: str, values: list[float], attribute: Mapping[str, Any]) -> Check:
    """Centroids stand in the attribute's unit: ranks, numbers, days or seconds since 1970."""
    kind, labels = attribute.get("type"), _labels(attribute)
    if kind == "boolean":
        low, high = 0.0, 1.0
    elif labels is not None:
        low, high = 0.0, len(labels) - 1.0
    elif kind in ("date", "datetime"):
        ends = [_comparable(text, "datetime") for text in attribute["domain"]]
        since = [(end - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() for end in ends]
        low, high = (s / 86_400 if kind == "date" else s for s in since)
    else:
        low, high = (float(text) for text in attribute["domain"])
    inside = low <= min(values) and max(values) <= high
    detail = "within the domain" if inside else "centroids lie outside the domain"
    return Check(name=f"{name}: bounds", passed=inside, detail=detail)
