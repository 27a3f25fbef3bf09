# ruff: noqa: E741 - l is the field's own name for it
"""Re-checking sliced and generalised tables: counts, from the files alone.

Sliced: in every bucket, and for every combination q of the
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

from sherd.tables.coding import arrow_array
from sherd.verifying.check import PROTECTED, UNTOUCHED, Check, released_names, with_role
from sherd.verifying.diversity_conditions import (
    condition_checks,
    element_check,
    grouped_counts,
    largest_element,
)
from sherd.verifying.range_ends import check_range_ends
from sherd.verifying.stored_table import StoredTable, part_count, parts, whole
from sherd.verifying.tuple_probability import SlicedView

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

BUDGET = 100_000
"""Tuples asked one by one at most."""

SLACK = 1e-9
"""How far a probability may exceed 1/l by rounding."""


def verify_slices(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    """All checks of a sliced table."""
    return [*_sliced(tables, manifest), *beyond_reach(permuted=True)]


def verify_classes(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    """All checks of a table whose records are generalised in classes."""
    checks = [*_generalised(tables, manifest), *check_range_ends(manifest)]
    return [*checks, *beyond_reach(permuted=False)]


def beyond_reach(*, permuted: bool) -> list[Check]:
    """What a release of this kind cannot show."""
    checks = [
        Check.unmade(
            "assumptions",
            "what an adversary knows besides the release, and that every person has one "
            "row, no file can show",
        )
    ]
    if permuted:
        detail = "that cells were permuted at random inside their buckets cannot be seen"
        checks.insert(0, Check.unmade("permutation", detail))
    return checks


def codes(columns: Sequence[pa.ChunkedArray], n: int) -> NDArray[np.int64]:
    """One number for every combination of cells; a missing cell is a value of its own."""
    combined = np.zeros(n, dtype=np.int64)
    for column in columns:
        plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_dictionary(plain.type):
            plain = plain.cast(plain.type.value_type)
        encoded = plain.dictionary_encode(null_encoding="encode")
        part = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        combined = combined * (len(encoded.dictionary) + 1) + part
        _, combined = np.unique(combined, return_inverse=True)
    return combined


def sensitive_of(manifest: Mapping[str, Any]) -> list[str]:
    """The sensitive attributes, by plan or else by role."""
    given = manifest["plan"].get("sensitive")
    if given is not None:
        return [str(name) for name in given]
    return with_role(manifest, "sensitive")


def released_of(manifest: Mapping[str, Any]) -> set[str]:
    """The attributes that are released."""
    return set(released_names(manifest))


def set_check(name: str, given: set[str], expected: set[str], fine: str) -> Check:
    """Whether names are those that they must be."""
    odd = sorted(given ^ expected)
    return Check.of(name, not odd, fine, "not as they should be: " + ", ".join(odd))


def values_of(column: pa.ChunkedArray, name: str, manifest: Mapping[str, Any]) -> pa.ChunkedArray:
    """A sensitive column as it counts for diversity: measured ones by the plan's bins."""
    attribute = manifest["schema"]["attributes"][name]
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


def diverse_check(name: str, worst: float, l: int, what: str) -> Check:
    """Whether the largest probability of a sensitive value lies within 1/l."""
    passed = worst * l <= 1 + SLACK
    return Check(
        name=f"{name}: {l}-diversity",
        passed=passed,
        detail=f"the largest probability of {what} is {worst:.4f}, "
        + (f"within 1/{l}" if passed else f"above 1/{l}"),
    )


def _sliced(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    facts, plan = manifest["facts"], manifest["plan"]
    data = tables.get("data")
    if data is None or facts.get("bucket") not in data.column_names:
        return [Check.failed("data", "there is no table with buckets")]
    columns: list[list[str]] = [list(fields) for fields in facts["columns"]]
    attribute_of = {f: facts["attributes"].get(f, f) for fields in columns for f in fields}
    checks = [
        set_check(
            "columns",
            {name for name in data.column_names if name != facts["bucket"]},
            {field for fields in columns for field in fields},
            "those of the manifest",
        ),
        set_check(
            "attributes", set(attribute_of.values()), released_of(manifest), "those of the schema"
        ),
    ]
    sensitive = sensitive_of(manifest)
    holding = [fields for fields in columns if {attribute_of[f] for f in fields} & set(sensitive)]
    if len(holding) != 1 or any(check.passed is False for check in checks):
        detail = "the sensitive attributes do not stand in one column"
        return [*checks, Check(name="sensitive column", passed=len(holding) == 1, detail=detail)]
    beside = [field for field in holding[0] if attribute_of[field] not in sensitive]
    untouched = set(with_role(manifest, *UNTOUCHED))
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

    data: pa.Table | StoredTable
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
    def keys(self) -> list[str]:
        """The bucket, and what stands beside the sensitive values in it."""
        return [self.manifest["facts"]["bucket"], *self.beside]

    def parts(self, name: str) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
        """Whole buckets, some at a time: the field of an attribute, and the place of every row."""
        bucket = self.keys[:1]
        for part in parts(
            self.data, bucket, [*self.beside, self.field(name)], part_count(self.data)
        ):
            yield part, codes([part[key] for key in self.keys], part.num_rows)

    def field(self, name: str) -> str:
        """The field that shows a sensitive attribute."""
        return next(f for f in self.holding if self.attribute_of[f] == name)


def _slice_checks(slices: _Slices, name: str) -> list[Check]:
    """Everything that is promised of one sensitive attribute of a sliced table."""
    data, manifest = slices.data, slices.manifest
    plan, field = manifest["plan"], slices.field(name)
    sets = plan.get("sets") or {}
    if name in sets:
        largest = max(
            largest_element(place.tolist(), part[field].to_pylist(), [1] * len(place), sets[name])
            for part, place in slices.parts(name)
        )
        return [element_check(name, largest, manifest)]
    checks = []
    if plan.get("l", 1) > 1:
        checks.append(_slice_diversity(slices, name))
    return [
        *checks,
        *condition_checks(name, _groups(data, slices.keys, field, name, manifest), manifest),
    ]


def _frequency(data: pa.Table | StoredTable, fields: list[str], least: int) -> Check:
    title = f"column {' + '.join(fields)}: least frequency"
    if not fields:
        return Check(name=title, passed=True, detail="")
    rarest = min(
        int(np.bincount(codes([part[f] for f in fields], part.num_rows)).min())
        for part in parts(data, fields, [], part_count(data))
    )
    detail = f"the rarest value occurs {rarest} times; {least} asked for"
    return Check(name=title, passed=rarest >= least, detail=detail)


def _slice_diversity(slices: _Slices, name: str) -> Check:
    manifest, attribute_of = slices.manifest, slices.attribute_of
    plan, bucket, l = manifest["plan"], manifest["facts"]["bucket"], manifest["plan"]["l"]
    sensitive = set(sensitive_of(manifest))
    columns = [*slices.known, slices.holding]
    largest = 0.0
    suspects: dict[Any, None] = {}
    for part, place in slices.parts(name):
        value = values_of(part[slices.field(name)], name, manifest)
        shares, first = _shares(place, codes([value], part.num_rows))
        largest = max(largest, float(shares.max()))
        over = np.flatnonzero(shares * l > 1 + SLACK)
        suspects |= dict.fromkeys(part[bucket].take(arrow_array(first[over])).to_pylist())
    if not suspects:
        return diverse_check(name, largest, l, "a value, for any tuple,")
    # A tuple may match any bucket, so that all of them are looked at together.
    data = whole(slices.data)
    value = values_of(data[slices.field(name)], name, manifest)
    rows = {
        (i, attribute_of[f]): data[f].to_pylist()
        for i, fields in enumerate(columns)
        for f in fields
    }
    rows[len(slices.known), name] = value.to_pylist()
    buckets = data[bucket].to_pylist()
    layout = [[attribute_of[f] for f in fields] for fields in columns]
    view = SlicedView.of(layout, name, rows, buckets, tuple(sensitive - {name}))
    beta = float(plan.get("beta", 1))
    worst, all_tried = view.counted().largest(list(suspects), beta=beta, budget=BUDGET)
    if (
        worst * l > 1 + SLACK
        and plan.get("scope", "any") == "records"
        and len(layout) + bool(slices.beside) > 2
    ):
        return Check.unmade(
            f"{name}: {l}-diversity",
            f"tuples exceed 1/{l} ({worst:.4f}); the plan bounds the records' own only, "
            "and whose tuple is whose a release does not show",
        )
    if worst * l <= 1 + SLACK and not all_tried:
        detail = f"{BUDGET} tuples are within 1/{l}; there are more than can be asked"
        return Check.unmade(f"{name}: {l}-diversity", detail)
    return diverse_check(name, worst, l, "a value, over every tuple that matches,")


def _generalised(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    plan = manifest["plan"]
    data = tables.get("data")
    if data is None:
        return [Check.failed("data", "there is no table called data")]
    expected = released_of(manifest)
    checks = [set_check("columns", set(data.column_names), expected, "those of the schema")]
    if checks[0].passed is False:
        return checks
    sensitive = sensitive_of(manifest)
    quasi = [name for name in with_role(manifest, *PROTECTED) if name not in sensitive]
    k, l = plan["k"], plan.get("l", 1)
    judged = sensitive if l > 1 or plan.get("conditions") else []
    count = part_count(data)
    smallest = data.num_rows + 1
    largest = dict.fromkeys(judged, 0.0)
    for part in parts(data, quasi, judged, count):
        place = codes([part[name] for name in quasi], part.num_rows)
        smallest = min(smallest, int(np.bincount(place).min()))
        for name in judged:
            values = values_of(part[name], name, manifest)
            shares, _ = _shares(place, codes([values], part.num_rows))
            largest[name] = max(largest[name], float(shares.max()))
    checks.append(
        Check(
            name=f"{k}-anonymity",
            passed=smallest >= k,
            detail=f"the smallest class has {smallest} records",
        )
    )
    for name in judged:
        if l > 1:
            checks.append(diverse_check(name, largest[name], l, "a value in a class"))
        checks += condition_checks(name, _groups(data, quasi, name, name, manifest), manifest)
    return checks


def _groups(
    data: pa.Table | StoredTable,
    keys: Sequence[str],
    field: str,
    name: str,
    manifest: Mapping[str, Any],
) -> Callable[[], Iterator[Mapping[Any, Counter[Any]]]]:
    """How often each value of a sensitive field occurs in each group, some groups at a time."""

    def counted() -> Iterator[Mapping[Any, Counter[Any]]]:
        for part in parts(data, keys, [field], part_count(data)):
            place = codes([part[key] for key in keys], part.num_rows)
            values = values_of(part[field], name, manifest).to_pylist()
            yield grouped_counts(place.tolist(), values, [1] * part.num_rows)

    return counted
