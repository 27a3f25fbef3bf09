# ruff: noqa: E741 - l is the field's own name for it
"""Re-checking bucketised tables: quasi-identifiers and sensitive values apart, by their buckets.

In every bucket there are as many records as values, and no value fills more than 1/l of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.verifying.check import Check
from sherd.verifying.diversity_conditions import (
    condition_checks,
    element_check,
    grouped_counts,
    largest_element,
)
from sherd.verifying.sliced_tables import (
    beyond_reach,
    codes,
    diverse_check,
    released_of,
    sensitive_of,
    set_check,
    values_of,
)
from sherd.verifying.stored_table import part_count, parts

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.verifying.stored_table import StoredTable


def verify_buckets(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    """All checks of a bucketised table: quasi-identifiers and sensitive values apart."""
    return [*_bucketised(tables, manifest), *beyond_reach(permuted=True)]


def _bucketised(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> list[Check]:
    facts, l = manifest["facts"], manifest["plan"].get("l", 1)
    quasi, listed = tables.get("quasi-identifiers"), tables.get("sensitive")
    if quasi is None or listed is None:
        return [Check.failed("tables", "one of the two tables is missing")]
    bucket, count = facts["bucket"], facts["count"]
    sensitive = sensitive_of(manifest)
    checks = [
        set_check(
            "quasi-identifier columns",
            set(quasi.column_names),
            {bucket, *(released_of(manifest) - set(sensitive))},
            "those of the schema, without the sensitive ones",
        ),
        set_check(
            "sensitive columns",
            set(listed.column_names),
            {bucket, count, *sensitive},
            "the sensitive ones",
        ),
    ]
    if any(check.passed is False for check in checks):
        return checks
    pairs = _Pairs(quasi=quasi, listed=listed, manifest=manifest)
    checks.append(_sizes(pairs))
    for name in sensitive:
        sets = manifest["plan"].get("sets") or {}
        if name in sets:
            largest = max(
                largest_element(where.tolist(), part[name].to_pylist(), times.tolist(), sets[name])
                for part, where, times in pairs.listed_parts(name)
            )
            checks.append(element_check(name, largest, manifest))
            continue
        checks += condition_checks(name, partial(pairs.groups, name), manifest)
        if l > 1:
            checks.append(diverse_check(name, pairs.largest_share(name), l, "a value in a bucket"))
    return checks


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """The two tables of a bucketised release, whole buckets of both at a time."""

    quasi: pa.Table | StoredTable
    listed: pa.Table | StoredTable
    manifest: Mapping[str, Any]

    @property
    def bucket(self) -> str:
        """The column with the number of a record's bucket."""
        return str(self.manifest["facts"]["bucket"])

    def listed_parts(
        self, *names: str, empty: bool = False
    ) -> Iterator[tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]]:
        """Values that are listed, the place of their buckets, and how often each is there."""
        count = self.manifest["facts"]["count"]
        among = part_count(self.quasi, self.listed)
        for part in parts(self.listed, [self.bucket], [count, *names], among, empty=empty):
            where = np.unique(part[self.bucket].to_numpy(), return_inverse=True)[1]
            yield part, where, np.asarray(part[count].to_numpy(), np.int64)

    def groups(self, name: str) -> Iterator[Mapping[Any, Counter[Any]]]:
        """How often each value occurs in each bucket."""
        for part, where, times in self.listed_parts(name):
            values = values_of(part[name], name, self.manifest).to_pylist()
            yield grouped_counts(where.tolist(), values, times.tolist())

    def largest_share(self, name: str) -> float:
        """The largest share of one value in a bucket."""
        largest = 0.0
        for part, where, times in self.listed_parts(name):
            value = codes([values_of(part[name], name, self.manifest)], part.num_rows)
            pairs, at = np.unique(where * (int(value.max()) + 1) + value, return_inverse=True)
            sizes = np.bincount(where, weights=times)[pairs // (int(value.max()) + 1)]
            largest = max(largest, float((np.bincount(at, weights=times) / sizes).max()))
        return largest


def _sizes(pairs: _Pairs) -> Check:
    """Whether every bucket has as many records as values."""
    follows = pairs.manifest["plan"].get("after") is not None
    among = part_count(pairs.quasi, pairs.listed)
    known = parts(pairs.quasi, [pairs.bucket], [], among, empty=True)
    same = True
    for (part, where, times), records in zip(pairs.listed_parts(empty=True), known, strict=True):
        names = np.unique(part[pairs.bucket].to_numpy())
        sizes = np.bincount(where, weights=times, minlength=len(names))
        there, rows = np.unique(records[pairs.bucket].to_numpy(), return_counts=True)
        same = same and bool((times > 0).all()) and np.array_equal(names, there)
        if follows:
            # The places of records that are gone stay listed, and every value is listed once.
            same = same and bool((rows <= sizes).all()) and bool((times == 1).all())
        else:
            same = same and np.array_equal(sizes, rows)
    if follows:
        detail = "no bucket has more records than values" if same else "buckets do not fit"
    else:
        detail = "every bucket has as many records as values" if same else "buckets differ in size"
    return Check(name="buckets", passed=same, detail=detail)
