"""Re-checking generalised records: columns, labels, combinations, totals.

A release of this kind has a count for every combination of the groups it tells apart, empty
ones included: a combination that is left out would say that nobody is in it. Its records are those
counts projected onto whole numbers from 0 that add up to the number of records, and nothing more:
records that were counted anew would carry true counts past the noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROTECTED = ("quasi-identifier", "sensitive")
_MISSING = "(missing)"


def verify(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    """All checks of a release of generalised records."""
    absent = [name for name in ("data", "records") if name not in tables]
    if absent:
        return [Check(name="tables", passed=False, detail="missing: " + ", ".join(absent))]
    data, records = tables["data"], tables["records"]
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


def _texts(table: pa.Table, names: list[str]) -> pa.Table:
    """Some columns as texts, however they are encoded."""
    return pa.table({name: table.column(name).cast(pa.string()) for name in names})


def _combinations(data: pa.Table, names: list[str]) -> Check:
    plain = _texts(data, names)
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


def _records(data: pa.Table, records: pa.Table, manifest: Mapping[str, Any]) -> Check:
    """As many records as the manifest says: the combinations in turn, as often as counted."""
    rows, names = manifest.get("facts", {}).get("rows"), records.column_names
    leaves, shown = _texts(data, names), _texts(records, names)
    groups = [tuple(row.values()) for row in leaves.to_pylist()]
    place = {group: i for i, group in enumerate(groups)}
    distinct = shown.group_by(names).aggregate([([], "count_all")])
    seen = [tuple(row.values()) for row in distinct.select(names).to_pylist()]
    unknown = len(set(seen) - set(place))
    detail = f"{records.num_rows} rows of {rows}, {unknown} unknown combinations"
    if unknown or records.num_rows != rows:
        return Check(name="records", passed=False, detail=detail)
    times = np.zeros(len(groups), np.int64)
    times[[place[group] for group in seen]] = distinct.column("count_all").to_numpy()
    ordered = leaves.take(pa.array(np.repeat(np.arange(len(groups)), times)))
    counted = _projected(data.column(data.num_columns - 1).to_pylist(), times.tolist())
    passed = counted and ordered.equals(shown)
    said = "as often as the noisy counts lead to" if passed else "not what the noisy counts lead to"
    return Check(name="records", passed=passed, detail=f"{detail}, each {said}")


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
