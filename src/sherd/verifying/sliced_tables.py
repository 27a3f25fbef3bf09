# ruff: noqa: E741 - l is the field's own name for it
"""Re-checking sliced, generalised and bucketised tables: counts, from the files alone.

Sliced and bucketised: in every bucket, and for every combination q of the
quasi-identifiers that share the sensitive column, no sensitive value may fill more than 1/l
of the rows. That bounds p(t, s) for every tuple. Where a bucket fails it, the tuples that
match it are asked one by one, with p(t, s) computed by its definition. Generalised: every
combination of released quasi-identifiers is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.verifying.check import Check
from sherd.verifying.diversity_conditions import (
    condition_checks,
    element_check,
    grouped_counts,
)
from sherd.verifying.range_ends import check_range_ends
from sherd.verifying.tuple_probability import SlicedView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

BUDGET = 100_000
"""Tuples asked one by one at most."""

SLACK = 1e-9
"""How far a probability may exceed 1/l by rounding."""


def verify_slices(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    """All checks of a sliced table."""
    return [*_sliced(tables, manifest), *_beyond_reach(permuted=True)]


def verify_classes(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    """All checks of a table whose records are generalised in classes."""
    checks = [*_generalised(tables, manifest), *check_range_ends(manifest)]
    return [*checks, *_beyond_reach(permuted=False)]


def verify_buckets(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    """All checks of a bucketised table: quasi-identifiers and sensitive values apart."""
    return [*_bucketised(tables, manifest), *_beyond_reach(permuted=True)]


def _beyond_reach(*, permuted: bool) -> list[Check]:
    checks = [
        Check(
            name="assumptions",
            passed=None,
            detail="what an adversary knows besides the release, and that every person has one "
            "row, no file can show",
        )
    ]
    if permuted:
        detail = "that cells were permuted at random inside their buckets cannot be seen"
        checks.insert(0, Check(name="permutation", passed=None, detail=detail))
    return checks


def codes(columns: Sequence[pa.ChunkedArray], n: int) -> NDArray[np.int64]:
    """One number for every combination of cells; a missing cell is a value of its own."""
    found = np.zeros(n, dtype=np.int64)
    for column in columns:
        plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_dictionary(plain.type):
            plain = plain.cast(plain.type.value_type)
        encoded = plain.dictionary_encode(null_encoding="encode")
        part = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        found = found * (len(encoded.dictionary) + 1) + part
        _, found = np.unique(found, return_inverse=True)
    return found


def _attributes(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    attributes: Mapping[str, Any] = manifest["schema"]["attributes"]
    return attributes


def sensitive_of(manifest: Mapping[str, Any]) -> list[str]:
    """The sensitive attributes, by plan or else by role."""
    given = manifest["plan"].get("sensitive")
    if given is not None:
        return [str(name) for name in given]
    return [n for n, a in _attributes(manifest).items() if a.get("role") == "sensitive"]


def _released(manifest: Mapping[str, Any]) -> set[str]:
    return {n for n, a in _attributes(manifest).items() if a.get("role") != "identifier"}


def _set_check(name: str, given: set[str], expected: set[str], fine: str) -> Check:
    odd = sorted(given ^ expected)
    return Check(
        name=name,
        passed=not odd,
        detail=fine if not odd else "not as they should be: " + ", ".join(odd),
    )


def values_of(column: pa.ChunkedArray, name: str, manifest: Mapping[str, Any]) -> pa.ChunkedArray:
    """A sensitive column as it counts for diversity: measured ones by the plan's bins."""
    attribute = _attributes(manifest)[name]
    if attribute["type"] not in ("number", "integer", "date", "datetime"):
        return column
    cuts = edges(name, attribute, manifest)
    binned = [None if v is None else _bin(v, cuts, attribute["type"]) for v in column.to_pylist()]
    return pa.chunked_array([pa.array(binned, pa.int64())])


def edges(name: str, attribute: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[Any]:
    """Where the bins of a measured sensitive attribute begin, but for the first."""
    wanted = manifest["plan"].get("bins", {})[name]
    kind = attribute["type"]
    if isinstance(wanted, list):
        return [as_kind(kind, cut) for cut in wanted]
    low, high = (as_kind(kind, bound) for bound in attribute["domain"])
    return [low + (high - low) / wanted * i for i in range(1, wanted)]


def as_kind(kind: str, given: Any) -> Any:
    """An edge or a cell as a date, a time without a zone, or a number."""
    if kind == "date":
        return date.fromisoformat(str(given)[:10])
    if kind == "datetime":
        stamp = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
        return stamp.replace(tzinfo=None)
    return float(given)


def _bin(value: Any, cuts: list[Any], kind: str) -> int:
    cell = as_kind(kind, value.isoformat() if isinstance(value, date) else value)
    return sum(cell >= cut for cut in cuts)


def _shares(
    place: NDArray[np.int64], value: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For every place the largest share of one value in it, and the place's first row."""
    base = np.bincount(place)
    pairs, count = np.unique(place * (int(value.max()) + 1) + value, return_counts=True)
    of_pair = pairs // (int(value.max()) + 1)
    shares = np.zeros(len(base))
    np.maximum.at(shares, of_pair, count / base[of_pair])
    _, first = np.unique(place, return_index=True)
    return shares, first


def _diverse(name: str, worst: float, l: int, what: str) -> Check:
    passed = worst * l <= 1 + SLACK
    return Check(
        name=f"{name}: {l}-diversity",
        passed=passed,
        detail=f"the largest probability of {what} is {worst:.4f}, "
        + (f"within 1/{l}" if passed else f"above 1/{l}"),
    )


def _sliced(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    facts, plan = manifest["facts"], manifest["plan"]
    data = tables.get("data")
    if data is None or facts.get("bucket") not in data.column_names:
        return [Check(name="data", passed=False, detail="there is no table with buckets")]
    columns: list[list[str]] = [list(fields) for fields in facts["columns"]]
    attribute_of = {f: facts["attributes"].get(f, f) for fields in columns for f in fields}
    checks = [
        _set_check(
            "columns",
            {name for name in data.column_names if name != facts["bucket"]},
            {field for fields in columns for field in fields},
            "those of the manifest",
        ),
        _set_check(
            "attributes", set(attribute_of.values()), _released(manifest), "those of the schema"
        ),
    ]
    sensitive = sensitive_of(manifest)
    holding = [fields for fields in columns if {attribute_of[f] for f in fields} & set(sensitive)]
    if len(holding) != 1 or any(check.passed is False for check in checks):
        detail = "the sensitive attributes do not stand in one column"
        return [*checks, Check(name="sensitive column", passed=len(holding) == 1, detail=detail)]
    beside = [field for field in holding[0] if attribute_of[field] not in sensitive]
    untouched = {n for n, a in _attributes(manifest).items() if a["role"] in _UNTOUCHED}
    known = [
        fields
        for fields in columns
        if fields != holding[0] and not {attribute_of[f] for f in fields} & untouched
    ]
    if plan.get("columns") is not None and plan.get("groups") is None:
        same = len(known) + 1 <= plan["columns"]
        detail = f"{len(known) + 1} of {plan['columns']} asked for"
        checks.append(Check(name="number of columns", passed=same, detail=detail))
    if plan.get("min_frequency") is not None:
        checks += [_frequency(data, fields, plan["min_frequency"]) for fields in [*known, beside]]
        checks += check_range_ends(manifest)
    slices = _Slices(
        data=data, manifest=manifest, known=known, holding=holding[0], attribute_of=attribute_of
    )
    for name in sensitive:
        checks += _slice_checks(slices, name)
    return [check for check in checks if check.detail]


@dataclass(frozen=True, kw_only=True)
class _Slices:
    """A sliced table: the fields known from outside, and those of the sensitive column."""

    data: pa.Table
    manifest: Mapping[str, Any]
    known: list[list[str]]
    holding: list[str]
    attribute_of: Mapping[str, str]

    @cached_property
    def beside(self) -> list[str]:
        """The fields of the sensitive column that are not sensitive."""
        sensitive = sensitive_of(self.manifest)
        return [field for field in self.holding if self.attribute_of[field] not in sensitive]

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """The bucket of every row, and what stands beside the sensitive values in it."""
        bucket = self.data[self.manifest["facts"]["bucket"]]
        return codes([bucket, *(self.data[f] for f in self.beside)], self.data.num_rows)

    def field(self, name: str) -> str:
        """The field that shows a sensitive attribute."""
        return next(f for f in self.holding if self.attribute_of[f] == name)


def _slice_checks(slices: _Slices, name: str) -> list[Check]:
    """Everything that is promised of one sensitive attribute of a sliced table."""
    data, manifest, place = slices.data, slices.manifest, slices.place
    plan, field = manifest["plan"], slices.field(name)
    once = [1] * data.num_rows
    if name in (plan.get("sets") or {}):
        return [element_check(name, place.tolist(), data[field].to_pylist(), once, manifest)]
    checks = []
    if plan.get("l", 1) > 1:
        checks.append(_slice_diversity(slices, name))
    if plan.get("conditions"):
        values = values_of(data[field], name, manifest).to_pylist()
        checks += condition_checks(name, grouped_counts(place.tolist(), values, once), manifest)
    return checks


_UNTOUCHED = ("insensitive", "weight")


def _frequency(data: pa.Table, fields: list[str], least: int) -> Check:
    title = f"column {' + '.join(fields)}: least frequency"
    if not fields:
        return Check(name=title, passed=True, detail="")
    rarest = int(np.bincount(codes([data[f] for f in fields], data.num_rows)).min())
    detail = f"the rarest value occurs {rarest} times; {least} asked for"
    return Check(name=title, passed=rarest >= least, detail=detail)


def _slice_diversity(slices: _Slices, name: str) -> Check:
    data, manifest, attribute_of = slices.data, slices.manifest, slices.attribute_of
    plan, bucket = manifest["plan"], manifest["facts"]["bucket"]
    l, n = plan["l"], data.num_rows
    sensitive = set(sensitive_of(manifest))
    columns = [*slices.known, slices.holding]
    value = values_of(data[slices.field(name)], name, manifest)
    shares, first = _shares(slices.place, codes([value], n))
    over = np.flatnonzero(shares * l > 1 + SLACK)
    if not len(over):
        return _diverse(name, float(shares.max()), l, "a value, for any tuple,")
    rows = {
        (i, attribute_of[f]): data[f].to_pylist()
        for i, fields in enumerate(columns)
        for f in fields
    }
    rows[len(slices.known), name] = value.to_pylist()
    buckets = data[bucket].to_pylist()
    layout = [[attribute_of[f] for f in fields] for fields in columns]
    view = SlicedView.of(layout, name, rows, buckets, tuple(sensitive - {name}))
    suspects = list(dict.fromkeys(buckets[first[i]] for i in over))
    beta = float(plan.get("beta", 1))
    worst, all_tried = view.counted().largest(suspects, beta=beta, budget=BUDGET)
    if (
        worst * l > 1 + SLACK
        and plan.get("scope", "any") == "records"
        and len(layout) + bool(slices.beside) > 2
    ):
        return Check(
            name=f"{name}: {l}-diversity",
            passed=None,
            detail=f"tuples exceed 1/{l} ({worst:.4f}); the plan bounds the records' own only, "
            "and whose tuple is whose a release does not show",
        )
    if worst * l <= 1 + SLACK and not all_tried:
        detail = f"{BUDGET} tuples are within 1/{l}; there are more than can be asked"
        return Check(name=f"{name}: {l}-diversity", passed=None, detail=detail)
    return _diverse(name, worst, l, "a value, over every tuple that matches,")


def _generalised(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    plan = manifest["plan"]
    data = tables.get("data")
    if data is None:
        return [Check(name="data", passed=False, detail="there is no table called data")]
    expected = _released(manifest)
    checks = [_set_check("columns", set(data.column_names), expected, "those of the schema")]
    if checks[0].passed is False:
        return checks
    sensitive = sensitive_of(manifest)
    quasi = [
        n
        for n, a in _attributes(manifest).items()
        if a["role"] in ("quasi-identifier", "sensitive") and n not in sensitive
    ]
    place = codes([data[name] for name in quasi], data.num_rows)
    smallest = int(np.bincount(place).min())
    k, l = plan["k"], plan.get("l", 1)
    checks.append(
        Check(
            name=f"{k}-anonymity",
            passed=smallest >= k,
            detail=f"the smallest class has {smallest} records",
        )
    )
    for name in sensitive if l > 1 or plan.get("conditions") else ():
        values = values_of(data[name], name, manifest)
        shares, _ = _shares(place, codes([values], data.num_rows))
        if l > 1:
            checks.append(_diverse(name, float(shares.max()), l, "a value in a class"))
        groups = grouped_counts(place.tolist(), values.to_pylist(), [1] * data.num_rows)
        checks += condition_checks(name, groups, manifest)
    return checks


def _bucketised(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    facts, l = manifest["facts"], manifest["plan"].get("l", 1)
    quasi, listed = tables.get("quasi-identifiers"), tables.get("sensitive")
    if quasi is None or listed is None:
        return [Check(name="tables", passed=False, detail="one of the two tables is missing")]
    bucket, count = facts["bucket"], facts["count"]
    sensitive = sensitive_of(manifest)
    checks = [
        _set_check(
            "quasi-identifier columns",
            set(quasi.column_names),
            {bucket, *(_released(manifest) - set(sensitive))},
            "those of the schema, without the sensitive ones",
        ),
        _set_check(
            "sensitive columns",
            set(listed.column_names),
            {bucket, count, *sensitive},
            "the sensitive ones",
        ),
    ]
    if any(check.passed is False for check in checks):
        return checks
    times = np.asarray(listed[count].to_numpy(), dtype=np.int64)
    names, where = np.unique(listed[bucket].to_numpy(), return_inverse=True)
    sizes = np.bincount(where, weights=times)
    known, rows = np.unique(quasi[bucket].to_numpy(), return_counts=True)
    same = bool((times > 0).all()) and np.array_equal(names, known)
    if manifest["plan"].get("after") is None:
        same = same and np.array_equal(sizes, rows)
        detail = "every bucket has as many records as values" if same else "buckets differ in size"
    else:
        # The places of records that are gone stay listed, and every value is listed once.
        same = same and bool((rows <= sizes).all()) and bool((times == 1).all())
        detail = "no bucket has more records than values" if same else "buckets do not fit"
    checks.append(Check(name="buckets", passed=same, detail=detail))
    for name in sensitive:
        if name in (manifest["plan"].get("sets") or {}):
            cells = listed[name].to_pylist()
            checks.append(element_check(name, where.tolist(), cells, times.tolist(), manifest))
            continue
        values = values_of(listed[name], name, manifest)
        groups = grouped_counts(where.tolist(), values.to_pylist(), times.tolist())
        checks += condition_checks(name, groups, manifest)
        if l == 1:
            continue
        value = codes([values], listed.num_rows)
        pairs, at = np.unique(where * (int(value.max()) + 1) + value, return_inverse=True)
        of_bucket = pairs // (int(value.max()) + 1)
        shares = np.bincount(at, weights=times) / sizes[of_bucket]
        checks.append(_diverse(name, float(shares.max()), l, "a value in a bucket"))
    return checks
