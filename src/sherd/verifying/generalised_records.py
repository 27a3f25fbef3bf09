"""Re-checking generalised records: columns, labels, combinations, totals.

A release of this kind has a count for every combination of the groups it tells apart, empty
ones included: a combination that is left out would say that nobody is in it. Its records are those
counts projected onto whole numbers from 0 that add up to the number of records, and nothing more:
records that were counted again would carry true counts past the noise.

The specialisations that the release states are carried out again (``leaves``, ``fit``). Rows come
in the order of the cuts, so the labels of an attribute in the order in which they occur are the
intervals of its cut, and what a step divided is what lies between its edges.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.check import PROTECTED, Check, with_role
from sherd.verifying.stored_table import StoredTable, pieces, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


MISSING = "(missing)"
OR_MISSING = f" or {MISSING}"


def verify(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    """All checks of a release of generalised records."""
    absent = [name for name in ("data", "records") if name not in tables]
    if absent:
        return [Check.failed("tables", "missing: " + ", ".join(absent))]
    data, records = whole(tables["data"]), tables["records"]
    schema = manifest["schema"]["attributes"]
    target = manifest["plan"].get("class_attribute")
    wanted = [*_features(manifest), *([target] if target else [])]
    right = data.column_names[:-1] == wanted and records.column_names == wanted
    checks = [
        Check.of(
            "columns", right, "attributes, class and count", "not those of the plan and schema"
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
        Check.unmade(
            "noise", "that choices and counts were drawn as planned cannot be seen in a release"
        ),
    ]


def _labels(name: str, column: pa.ChunkedArray, attribute: Mapping[str, Any]) -> Check:
    title = f"{name}: labels"
    seen = {str(value) for value in pc.unique(column).to_pylist()}
    if attribute["type"] in ("category", "ordinal", "boolean"):
        known = {MISSING, "*", *attribute.get("values", ())}
        known |= {node for path in attribute.get("taxonomy", ()) for node in path}
        known |= {"false", "true"} if attribute["type"] == "boolean" else set()
        odd = len(seen - known)
        return Check.of(
            title, not odd, "all are nodes of the taxonomy", f"{odd} are not in the schema"
        )
    odd = sum(not _interval(text) for text in seen)
    return Check.of(title, not odd, "all are intervals", f"{odd} are not intervals")


def _interval(text: str) -> bool:
    bare = text.removesuffix(OR_MISSING)
    return text == MISSING or (bare.startswith("[") and bare[-1] in ")]" and ", " in bare)


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
    return Check.of("counts", whole, "whole numbers", "not whole numbers")


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
        return Check.failed("records", detail)
    counts = data.column(data.num_columns - 1).to_pylist()
    passed = ordered and _projected(counts, times.tolist())
    said = "as often as the noisy counts lead to" if passed else "not what the noisy counts lead to"
    return Check(name="records", passed=passed, detail=f"{detail}, each {said}")


def _keys(table: pa.Table, names: list[str], known: list[pa.Array]) -> NDArray[np.int64]:
    """One number for the labels of each row, below 0 where a label is unknown."""
    keys = np.zeros(table.num_rows, np.int64)
    strange = np.zeros(table.num_rows, np.bool_)
    for name, labels in zip(names, known, strict=True):
        at = pc.index_in(table.column(name).cast(pa.string()), value_set=labels)
        codes = at.fill_null(-1).to_numpy().astype(np.int64)
        strange |= codes < 0
        keys = keys * len(labels) + codes
    keys[strange] = -1
    return keys


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


def _features(manifest: Mapping[str, Any]) -> list[str]:
    """The protected attributes but for the class."""
    target = manifest["plan"].get("class_attribute")
    return [name for name in with_role(manifest, *PROTECTED) if name != target]


def _labels_in_order(data: pa.Table, name: str) -> list[str]:
    return [str(label) for label in pc.unique(data.column(name)).to_pylist()]


def leaves(data: pa.Table, manifest: Mapping[str, Any]) -> int:
    """How many combinations of intervals there are, the class aside."""
    return math.prod(len(_labels_in_order(data, name)) for name in _features(manifest))


def fit(given: Any, data: pa.Table, manifest: Mapping[str, Any]) -> bool:
    """Whether these steps lead to the labels that the table shows."""
    names = _features(manifest)
    steps: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    if not isinstance(given, list) or len(given) > manifest["plan"]["h"]:
        return False
    for step in given:
        if set(step) != {"attribute", "value", "edges"} or step["attribute"] not in steps:
            return False
        steps[step["attribute"]].append(step)
    return all(
        _leads(steps[name], _labels_in_order(data, name), manifest["schema"]["attributes"][name])
        for name in names
    )


def _leads(
    steps: Sequence[Mapping[str, Any]], labels: list[str], attribute: Mapping[str, Any]
) -> bool:
    """Whether an attribute's steps, one after the other, end in a cut with these labels."""
    if not steps:
        return len(labels) == 1
    cut = [0, steps[0]["edges"][-1]]
    for step in steps:
        edges = step["edges"]
        if not all(type(edge) is int for edge in edges) or len(edges) < 3:
            return False
        if not all(a < b for a, b in itertools.pairwise(edges)):
            return False
        if (edges[0], edges[-1]) not in itertools.pairwise(cut):
            return False
        cut = sorted({*cut, *edges})
    if len(cut) - 1 != len(labels):
        return False
    place = {edge: at for at, edge in enumerate(cut)}
    return all(
        _names(step["value"], labels[place[step["edges"][0]] : place[step["edges"][-1]]], attribute)
        for step in steps
    )


def _names(value: Any, parts: list[str], attribute: Mapping[str, Any]) -> bool:
    """Whether a label is that of the parts together."""
    if attribute["type"] in ("category", "ordinal", "boolean"):
        below = {leaf for part in parts for leaf in values_below(part, attribute)}
        return isinstance(value, str) and values_below(value, attribute) == below != set()
    bare = [part.removesuffix(OR_MISSING) for part in parts if part != MISSING]
    if not bare:
        return False
    low, high = bare[0].partition(", ")[0], bare[-1].partition(", ")[2]
    missing = OR_MISSING if parts[-1].endswith(MISSING) else ""
    return bool(value == f"{low}, {high}{missing}")


def values_below(label: str, attribute: Mapping[str, Any]) -> set[str]:
    """The values a label stands for; missing cells, which hang at the root, are left aside."""
    paths = attribute.get("taxonomy")
    if paths:
        return {path[0] for path in paths if label in path}
    values = {"false", "true"} if attribute["type"] == "boolean" else set(attribute["values"])
    return values if label == "*" else {label} & values
