"""Re-checking generalised records: columns, labels, combinations, totals.

A release of this kind has a count for every combination of the groups it tells apart, empty
ones included: a combination that is left out would say that nobody is in it. Its records are those
counts projected onto whole numbers from 0 that add up to the number of records, and nothing more:
records that were counted again would carry true counts past the noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.check import Check
from sherd.verifying.stored_table import StoredTable, pieces, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_PROTECTED = ("quasi-identifier", "sensitive")
_MISSING = "(missing)"


def verify(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    """All checks of a release of generalised records."""
    absent = [name for name in ("data", "records") if name not in tables]
    if absent:
        return [Check(name="tables", passed=False, detail="missing: " + ", ".join(absent))]
    data, records = whole(tables["data"]), tables["records"]
    schema = manifest["schema"]["attributes"]
    target = manifest["plan"].get("class_attribute")
    wanted = [n for n, a in schema.items() if a.get("role") in _PROTECTED and n != target]
    wanted += [target] if target else []
    right = data.column_names[:-1] == wanted and records.column_names == wanted
    checks = [
        Check(
            name="columns",
            passed=right,
            detail="attributes, class and count" if right else "not those of the plan and schema",
        )
    ]
    if not right:
        return checks
    checks += [_labels(name, data.column(name), schema[name]) for name in wanted]
    counts = _counts(data)
    checks += [_combinations(data, wanted), counts]
    if counts.passed:
        checks.append(_records(data, records, manifest))
    return [
        *checks,
        Check(
            name="noise",
            passed=None,
            detail="that choices and counts were drawn as planned cannot be seen in a release",
        ),
    ]


def _labels(name: str, column: pa.ChunkedArray, attribute: Mapping[str, Any]) -> Check:
    title = f"{name}: labels"
    seen = {str(value) for value in pc.unique(column).to_pylist()}
    if attribute["type"] in ("category", "ordinal", "boolean"):
        known = {_MISSING, "*", *attribute.get("values", ())}
        known |= {node for path in attribute.get("taxonomy", ()) for node in path}
        known |= {"false", "true"} if attribute["type"] == "boolean" else set()
        odd = len(seen - known)
        detail = "all are nodes of the taxonomy" if not odd else f"{odd} are not in the schema"
        return Check(name=title, passed=not odd, detail=detail)
    odd = sum(not _interval(text) for text in seen)
    detail = "all are intervals" if not odd else f"{odd} are not intervals"
    return Check(name=title, passed=not odd, detail=detail)


def _interval(text: str) -> bool:
    bare = text.removesuffix(f" or {_MISSING}")
    return text == _MISSING or (bare.startswith("[") and bare[-1] in ")]" and ", " in bare)


def _combinations(data: pa.Table, names: list[str]) -> Check:
    plain = pa.table({n: data.column(n).cast(pa.string()) for n in names})
    expected = math.prod(len(pc.unique(column)) for column in plain.columns)
    distinct = plain.group_by(names).aggregate([]).num_rows
    passed = distinct == expected == data.num_rows
    detail = f"{data.num_rows} rows, {distinct} combinations of {expected} possible"
    return Check(name="every combination once", passed=passed, detail=detail)


def _counts(data: pa.Table) -> Check:
    counts = data.column(data.num_columns - 1)
    whole = pa.types.is_integer(counts.type) and counts.null_count == 0
    return Check(
        name="counts", passed=whole, detail="whole numbers" if whole else "not whole numbers"
    )


def _records(data: pa.Table, records: pa.Table | StoredTable, manifest: Mapping[str, Any]) -> Check:
    """As many records as the manifest says: the combinations in turn, as often as counted."""
    rows, names = manifest.get("facts", {}).get("rows"), records.column_names
    known = [pc.unique(data.column(name).cast(pa.string())) for name in names]
    leaves = _keys(data, names, known)
    order = np.argsort(leaves)
    times, last, ordered, unknown = np.zeros(len(leaves), np.int64), 0, True, False
    for piece in pieces(records, *names):
        keys = _keys(piece, names, known)
        at = order[np.searchsorted(leaves, keys, sorter=order).clip(0, len(leaves) - 1)]
        unknown = unknown or not np.array_equal(leaves[at], keys)
        ordered = ordered and bool((np.diff(at, prepend=last) >= 0).all())
        last = int(at[-1]) if len(at) else last
        times += np.bincount(at, minlength=len(leaves))
    detail = (
        f"{records.num_rows} rows of {rows}, {'some' if unknown else 'no'} unknown combinations"
    )
    if unknown or records.num_rows != rows:
        return Check(name="records", passed=False, detail=detail)
    counts = data.column(data.num_columns - 1).to_pylist()
    passed = ordered and _projected(counts, times.tolist())
    said = "as often as the noisy counts lead to" if passed else "not what the noisy counts lead to"
    return Check(name="records", passed=passed, detail=f"{detail}, each {said}")


def _keys(table: pa.Table, names: list[str], known: list[pa.Array]) -> NDArray[np.int64]:
    """One number for the labels of each row, below 0 where a label is unknown."""
    found = np.zeros(table.num_rows, np.int64)
    strange = np.zeros(table.num_rows, np.bool_)
    for name, labels in zip(names, known, strict=True):
        at = pc.index_in(table.column(name).cast(pa.string()), value_set=labels)
        codes = at.fill_null(-1).to_numpy().astype(np.int64)
        strange |= codes < 0
        found = found * len(labels) + codes
    found[strange] = -1
    return found


def _projected(counts: list[int], times: list[int]) -> bool:
    """Whether groups have the nearest counts from 0 of the same sum, rounded up or down.

    The nearest such counts lose the same amount, (s - n) / m, of the m that stay above 0, whose
    sum is s.
    """
    n, s, m = sum(times), 0, 0
    for many, count in enumerate(sorted(counts, reverse=True), 1):
        if many * count <= s + count - n:
            break
        s, m = s + count, many
    if not n:
        return True
    exact = [max(0, m * count - (s - n)) for count in counts]
    return all(one // m <= many <= -(-one // m) for one, many in zip(exact, times, strict=True))
