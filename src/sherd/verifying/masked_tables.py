"""Re-checking masked tables: columns, bounds, labels, cluster sizes.

Every row of a cluster got the same value, and rounding or clamping can only make clusters
look like one. So each distinct value of a masked attribute must occur at least k times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.check import Check
from sherd.verifying.stored_table import StoredTable, pieces
from sherd.verifying.value_counts import count_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROTECTED = ("quasi-identifier", "sensitive")
_TOLD = 1000
"""Labels that are not listed, counted up to here."""


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A column of a released table, and how many of its cells are present and missing."""

    name: str
    table: pa.Table | StoredTable
    present: int
    missing: int

    @classmethod
    def of(cls, table: pa.Table | StoredTable, name: str) -> _Column:
        """Count the cells."""
        missing = sum(piece.column(0).null_count for piece in pieces(table, name))
        present = table.num_rows - missing
        return cls(name=name, table=table, present=present, missing=missing)

    def pieces(self) -> Iterator[pa.ChunkedArray]:
        """The cells that are present, some rows at a time."""
        for piece in pieces(self.table, self.name):
            yield piece.column(0).drop_null()


def verify(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    """All checks of a masked table, or of a strict release's ordered centroids."""
    if "data" not in tables:
        return [Check(name="data", passed=False, detail="there is no table called data")]
    data, plan = tables["data"], manifest["plan"]
    schema = manifest["schema"]["attributes"]
    if plan.get("guarantee") == "strict":
        from sherd.verifying.ordered_centroids import verify_centroids

        checks = verify_centroids(data, plan, schema, manifest)
    else:
        rows = manifest.get("facts", {}).get("rows")
        detail = f"{data.num_rows} in the table, {rows} in the manifest"
        checks = [Check(name="rows", passed=data.num_rows == rows, detail=detail)]
        checks += _columns(data, schema)
        for name in data.column_names:
            if name in schema and schema[name].get("role") in _PROTECTED:
                checks += _attribute(_Column.of(data, name), schema[name], manifest)
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


def _columns(data: pa.Table | StoredTable, schema: Mapping[str, Any]) -> list[Check]:
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
    column: _Column, attribute: Mapping[str, Any], manifest: Mapping[str, Any]
) -> list[Check]:
    plan, name = manifest["plan"], column.name
    k = plan.get("k_of", {}).get(name, plan.get("k", 1))
    checks = [_bounds(column, attribute)]
    if "joint" not in manifest:  # there every owner has a last cluster of its own
        checks += _lattice(column, attribute, k)
    if k > 1:
        checks.append(_cluster_sizes(column, k))
    if column.missing and _policy(attribute, manifest) != "keep":
        checks.append(
            Check(name=f"{name}: missing", passed=False, detail="cells are missing, against policy")
        )
    return checks


def _policy(attribute: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    return str(attribute.get("missing") or manifest["schema"].get("missing", "keep"))


def _bounds(column: _Column, attribute: Mapping[str, Any]) -> Check:
    title = f"{column.name}: bounds"
    kind = attribute["type"]
    if kind in ("category", "ordinal", "boolean"):
        labels = {"true", "false", "0", "1"} if kind == "boolean" else listed_labels(attribute)
        if labels is None:
            return Check(name=title, passed=None, detail="the schema lists no values")
        unknown = _unlisted(column, labels)
        detail = "all labels are listed" if not unknown else f"{unknown} labels are not listed"
        return Check(name=title, passed=not unknown, detail=detail)
    if attribute.get("domain") is None:
        return Check(name=title, passed=None, detail="the schema declares no domain")
    inside = all(_is_inside(piece, attribute) for piece in column.pieces())
    detail = "within the domain" if inside else "values lie outside the declared domain"
    return Check(name=title, passed=inside, detail=detail)


def _unlisted(column: _Column, labels: set[str]) -> int:
    """How many different labels are not among these, counted up to a thousand."""
    odd: set[str] = set()
    for piece in column.pieces():
        odd |= {_text(value) for value in pc.unique(piece).to_pylist()} - labels
        if len(odd) > _TOLD:
            break
    return len(odd)


def _is_inside(piece: pa.ChunkedArray, attribute: Mapping[str, Any]) -> bool:
    """Whether all values lie within the declared domain."""
    kind = attribute["type"]
    low, high = (comparable(text, kind) for text in attribute["domain"])
    if pa.types.is_float32(piece.type) or pa.types.is_float16(piece.type):
        # The released end of the domain is the nearest number the column's type has.
        ends = pa.array([float(low), float(high)]).cast(piece.type, safe=False).to_pylist()
        low = min(low, comparable(ends[0], kind))
        high = max(high, comparable(ends[1], kind))
    return all(low <= comparable(v, kind) <= high for v in _ends(piece))


def _lattice(column: _Column, attribute: Mapping[str, Any], k: int) -> list[Check]:
    """Whether numbers are whole steps of the declared grid, shared by the rows of a cluster.

    A cell off this lattice says more than a noisy mean may. The last cluster takes the remainder.
    """
    grid, cells = attribute.get("grid"), column.present
    if attribute["type"] != "number" or grid is None or not cells:
        return []
    last = k + cells % k if cells >= k else k
    passed = all(_fits(piece, float(grid), {k, last}) for piece in column.pieces())
    detail = "means on the declared grid" if passed else "values no cluster's mean can have"
    return [Check(name=f"{column.name}: grid", passed=passed, detail=detail)]


def _fits(piece: pa.ChunkedArray, grid: float, sizes: set[int]) -> bool:
    """Whether all values are means of clusters of these sizes, of cells on a grid."""
    steps = pc.divide(piece.cast(pa.float64()), grid)
    fits = None
    for size in sizes:
        whole = pc.multiply(steps, float(size))
        # What double precision leaves of a whole number of steps.
        room = pc.add(pc.multiply(pc.abs(whole), 1e-9), 1e-6)
        near = pc.less_equal(pc.abs(pc.subtract(whole, pc.round(whole))), room)
        fits = near if fits is None else pc.or_(fits, near)
    return pc.all(fits, min_count=0).as_py() is True


def _ends(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column that can lie outside: its ends, or all where it holds text."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return list(pc.unique(column).to_pylist())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        if pc.any(pc.is_nan(column)).as_py():
            return [math.inf]
    found = pc.min_max(column)
    return [end for end in (found["min"].as_py(), found["max"].as_py()) if end is not None]


def listed_labels(attribute: Mapping[str, Any]) -> set[str] | None:
    """The labels that a schema lists, or None."""
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


def comparable(value: Any, kind: str) -> Any:
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


def _cluster_sizes(column: _Column, k: int) -> Check:
    title = f"{column.name}: clusters of {k}"
    if not column.present:
        return Check(name=title, passed=None, detail="no value is present")
    most = column.present // k
    seen = count_values(column.pieces, max(1, most))
    passed = seen.least >= k and seen.distinct <= max(1, most)
    detail = (
        f"the rarest value occurs {seen.least} times; {seen.distinct} values, "
        f"at most {most} clusters"
    )
    return Check(name=title, passed=passed, detail=detail)
