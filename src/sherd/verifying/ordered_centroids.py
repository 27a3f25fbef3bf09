"""Re-checking a strict release: the ordered centroids of every attribute, read piece by piece."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from sherd.verifying.check import PROTECTED, Check, with_role
from sherd.verifying.masked_tables import comparable, listed_labels
from sherd.verifying.stored_table import pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sherd.verifying.stored_table import StoredTable

COLUMNS = ["attribute", "cluster", "size", "value", "text"]
"""The columns of a strict release."""


@dataclass(kw_only=True)
class _Centroids:
    """What was seen of one attribute's centroids, as far as the table was read."""

    k: int
    count: int = 0
    records: int = 0
    numbered: bool = True
    full: bool = True
    ascending: bool = True
    last: int = 0
    smallest: int = 0
    largest: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, part: pa.Table) -> None:
        """Look at the next centroids."""
        numbers, sizes = (part.column(name).to_numpy() for name in ("cluster", "size"))
        values = part.column("value").to_numpy().astype(np.float64)
        before = sizes[:-1] if not self.count else np.concatenate(([self.last], sizes[:-1]))
        follows = values if not self.count else np.concatenate(([self.high], values))
        self.numbered &= bool((numbers == np.arange(len(part)) + self.count + 1).all())
        self.full &= bool((before == self.k).all())
        # What is not a number is neither above nor below another.
        self.ascending &= bool((follows[:-1] <= follows[1:]).all())
        self.smallest = int(min(sizes.min(), self.smallest if self.count else sizes.min()))
        self.largest = max(self.largest, int(sizes.max()))
        self.low, self.high = (
            min(self.low, float(values.min())),
            max(self.high, float(values.max())),
        )
        self.last, self.count = int(sizes[-1]), self.count + len(part)
        self.records += int(sizes.sum())


def verify_centroids(
    data: pa.Table | StoredTable,
    plan: Mapping[str, Any],
    schema: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> list[Check]:
    """Every check of a table of ordered centroids."""
    if data.column_names != COLUMNS:
        return [Check.failed("columns", "not those of ordered centroids")]
    expected = sorted(with_role(manifest, *PROTECTED))
    seen, odd = _seen(data, plan, expected)
    same = sorted(seen) == expected and not odd
    detail = ", ".join(sorted(seen)) + (" and others" if odd else "")
    checks = [Check(name="attributes", passed=same, detail=detail)]
    rows = manifest.get("facts", {}).get("rows")
    for name, one in sorted(seen.items()):
        # All clusters have k, but for the last, which takes the remainder.
        large = one.full and one.k <= one.last < 2 * one.k
        checks += [
            Check(
                name=f"{name}: clusters of {one.k}",
                passed=large and one.numbered and one.records == rows,
                detail=f"{one.count} clusters of {one.smallest} to {one.largest} records",
            ),
            Check(name=f"{name}: ascending", passed=one.ascending, detail=f"{one.count} centroids"),
            _bounds(name, one, schema[name]),
        ]
    return checks


def _seen(
    data: pa.Table | StoredTable, plan: Mapping[str, Any], expected: list[str]
) -> tuple[dict[str, _Centroids], bool]:
    """What the table says of every attribute, and whether it names one that it may not."""
    seen: dict[str, _Centroids] = {}
    odd = False
    for piece in pieces(data, *COLUMNS[:-1]):
        if any(column.null_count for column in piece.columns):
            raise ValueError("a centroid lacks a cell")
        for name in pc.unique(piece.column("attribute")).to_pylist():
            if name not in expected:
                odd = True
                continue
            k = plan.get("k_of", {}).get(name, plan["k"])
            part = piece.filter(pc.equal(piece.column("attribute"), name))
            seen.setdefault(name, _Centroids(k=k)).add(part)
    return seen, odd


def _bounds(name: str, seen: _Centroids, attribute: Mapping[str, Any]) -> Check:
    """Centroids stand in the attribute's unit: ranks, numbers, days or seconds since 1970."""
    kind, labels = attribute.get("type"), listed_labels(attribute)
    if kind == "boolean":
        low, high = 0.0, 1.0
    elif labels is not None:
        low, high = 0.0, len(labels) - 1.0
    elif kind in ("date", "datetime"):
        ends = [comparable(text, "datetime") for text in attribute["domain"]]
        since = [(end - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() for end in ends]
        low, high = (s / 86_400 if kind == "date" else s for s in since)
    else:
        low, high = (float(text) for text in attribute["domain"])
    inside = low <= seen.low and seen.high <= high
    return Check.of(
        f"{name}: bounds", inside, "within the domain", "centroids lie outside the domain"
    )


def counted(data: pa.Table | StoredTable) -> tuple[int, dict[str, int]]:
    """The records of the first attribute, and how many centroids each attribute has."""
    records = 0
    clusters: dict[str, int] = {}
    for piece in pieces(data, "attribute", "size"):
        names, sizes = piece.columns
        for one in pc.value_counts(names.combine_chunks()).to_pylist():
            clusters[one["values"]] = clusters.get(one["values"], 0) + one["counts"]
        first = next(iter(clusters), None)
        records += pc.sum(sizes.filter(pc.equal(names, first))).as_py() or 0
    return records, clusters
