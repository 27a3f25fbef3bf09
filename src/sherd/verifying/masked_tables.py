"""Re-checking masked tables: columns, bounds, labels, cluster sizes.

Every row of a cluster got the same value, and rounding or clamping can only make clusters
look like one. So each distinct value of a masked attribute must occur at least k times.

``count_values`` counts distinct values, and how often the rarest occurs, in bounded memory. Values
are counted by keys of 64 bits: numbers and times by their own bits, texts by a hash. Where more are
there than fit, only keys whose hash begins like those of the part at hand are counted, and the
column is read again for the next part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.check import PROTECTED, Check
from sherd.verifying.stored_table import StoredTable, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    Keys = NDArray[np.int64]


_TOLD = 1000
"""How many labels that are not listed are counted at most."""


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
        return [Check.failed("data", "there is no table called data")]
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
            if name in schema and schema[name].get("role") in PROTECTED:
                checks += _attribute(_Column.of(data, name), schema[name], manifest)
    return [*checks, *_beyond_reach()]


def _beyond_reach() -> list[Check]:
    return [
        Check.unmade(
            "noise",
            "that the noise was drawn as the plan says cannot be seen in a release; "
            "`sherd audit` with the original can test it",
        ),
        Check.unmade(
            "assumptions",
            "that bounds, orders and parameters were chosen without the data, and that "
            "every person has one row, only the owner knows",
        ),
    ]


def _columns(data: pa.Table | StoredTable, schema: Mapping[str, Any]) -> list[Check]:
    expected = {n for n, a in schema.items() if a.get("role") != "identifier"}
    given = set(data.column_names)
    hidden = sorted(n for n in given & set(schema) if schema[n].get("role") == "identifier")
    odd = sorted(expected ^ (given - set(hidden)))
    return [
        Check.of(
            "columns", not odd, "those of the schema", "not as in the schema: " + ", ".join(odd)
        ),
        Check.of("no identifiers", not hidden, "none", "released: " + ", ".join(hidden)),
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
        checks.append(Check.failed(f"{name}: missing", "cells are missing, against policy"))
    return checks


def _policy(attribute: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    return str(attribute.get("missing") or manifest["schema"].get("missing", "keep"))


def _bounds(column: _Column, attribute: Mapping[str, Any]) -> Check:
    title = f"{column.name}: bounds"
    kind = attribute["type"]
    if kind in ("category", "ordinal", "boolean"):
        labels = {"true", "false", "0", "1"} if kind == "boolean" else listed_labels(attribute)
        if labels is None:
            return Check.unmade(title, "the schema lists no values")
        unknown = _unlisted(column, labels)
        return Check.of(
            title, not unknown, "all labels are listed", f"{unknown} labels are not listed"
        )
    if attribute.get("domain") is None:
        return Check.unmade(title, "the schema declares no domain")
    inside = all(_is_inside(piece, attribute) for piece in column.pieces())
    return Check.of(title, inside, "within the domain", "values lie outside the declared domain")


def _unlisted(column: _Column, labels: set[str]) -> int:
    """How many distinct labels are not among these, counted up to a thousand."""
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
    return [
        Check.of(
            f"{column.name}: grid",
            passed,
            "means on the declared grid",
            "values no cluster's mean can have",
        )
    ]


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
    ends = pc.min_max(column)
    return [end for end in (ends["min"].as_py(), ends["max"].as_py()) if end is not None]


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
        return Check.unmade(title, "no value is present")
    most = column.present // k
    seen = count_values(column.pieces, max(1, most))
    passed = seen.least >= k and seen.distinct <= max(1, most)
    detail = (
        f"the rarest value occurs {seen.least} times; {seen.distinct} values, "
        f"at most {most} clusters"
    )
    return Check(name=title, passed=passed, detail=detail)


ROOM = 1 << 21
"""Values that are counted at a time."""

_MOST_PARTS = 1 << 14
"""Beyond which a column has more values than a release can have."""


@dataclass(frozen=True, kw_only=True)
class Occurrences:
    """Different values, and how often the rarest of them occurs."""

    distinct: int
    least: int


class _Tally:
    """Keys in ascending order, and how often each was seen."""

    def __init__(self) -> None:
        self.keys: Keys = np.empty(0, np.int64)
        self.times: Keys = np.empty(0, np.int64)

    def add(self, keys: Keys, times: Keys) -> None:
        at = np.searchsorted(self.keys, keys)
        known = np.zeros(len(keys), np.bool_)
        inside = at < len(self.keys)
        known[inside] = self.keys[at[inside]] == keys[inside]
        self.times[at[known]] += times[known]
        new = ~known
        self.keys = np.insert(self.keys, at[new], keys[new])
        self.times = np.insert(self.times, at[new], times[new])

    def keep(self, kept: NDArray[np.bool_]) -> None:
        self.keys, self.times = self.keys[kept], self.times[kept]


def count_values(column: Callable[[], Iterator[pa.ChunkedArray]], most: int) -> Occurrences:
    """The different values of a column, missing cells aside, and the rarest one's count.

    ``column`` gives its pieces, each time it is called. Counting ends early where there turn out
    to be more than ``most`` and not all of them fit.
    """
    bits, part = 0, 0
    distinct, least = 0, np.iinfo(np.int64).max
    while part < 1 << bits:
        tally = _Tally()
        for piece in column():
            keys, times = _keys(piece)
            if bits:
                inside = _parts(keys, bits) == part
                keys, times = keys[inside], times[inside]
            tally.add(keys, times)
            while len(tally.keys) > ROOM:
                if distinct + len(tally.keys) > most or 1 << bits >= _MOST_PARTS:
                    return Occurrences(distinct=distinct + len(tally.keys), least=0)
                bits, part = bits + 1, part * 2
                tally.keep(_parts(tally.keys, bits) == part)
        distinct += len(tally.keys)
        least = min(least, int(tally.times.min(initial=least)))
        part += 1
    return Occurrences(distinct=distinct, least=least if distinct else 0)


def _parts(keys: Keys, bits: int) -> NDArray[np.uint64]:
    """The first bits of the keys' hashes, by the last steps of MurmurHash."""
    mixed = keys.view(np.uint64).copy()
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    return mixed >> np.uint64(64 - bits)


def _keys(piece: pa.ChunkedArray) -> tuple[Keys, Keys]:
    """The different keys of a piece, ascending, and how often each occurs."""
    present = piece.drop_null().combine_chunks()
    kind, test = present.type, pa.types
    if test.is_float64(kind):
        cells: Any = present.to_numpy().view(np.int64)
    elif test.is_date32(kind):
        cells = present.cast(pa.int32()).to_numpy().astype(np.int64)
    elif test.is_int64(kind) or test.is_timestamp(kind):
        cells = present.cast(pa.int64()).to_numpy()
    else:
        counted = pc.value_counts(present.cast(pa.string()))
        hashes = [hash(value) for value in counted.field("values").to_pylist()]
        keys = np.array(hashes, np.int64)
        order = np.argsort(keys)
        return keys[order], counted.field("counts").to_numpy()[order]
    keys, times = np.unique(cells, return_counts=True)
    return keys, times
