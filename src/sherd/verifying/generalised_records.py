"""Re-checking generalised records: columns, labels, combinations, totals.

A release of this kind has a count for every combination of the groups it tells apart, empty
ones included: a combination that is left out would say that nobody is in it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.check import Check
from sherd.verifying.stored_table import StoredTable, pieces, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    checks += [_combinations(data, wanted), _counts(data), _records(data, records, manifest)]
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
    """As many records as the manifest says, all of combinations that have a count."""
    rows = manifest.get("facts", {}).get("rows")
    names = records.column_names
    known = {tuple(row.values()) for row in data.select(names).to_pylist()}
    odd: set[tuple[Any, ...]] = set()
    for piece in pieces(records, *names):
        texts = pa.table({n: piece.column(n).cast(pa.string()) for n in names})
        seen = {tuple(row.values()) for row in texts.group_by(names).aggregate([]).to_pylist()}
        odd |= seen - known
        if len(odd) > len(known):
            break  # enough of them
    passed = records.num_rows == rows and not odd
    detail = f"{records.num_rows} rows of {rows}, {len(odd)} unknown combinations"
    return Check(name="records", passed=passed, detail=detail)
