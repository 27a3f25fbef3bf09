# ruff: noqa: E741 - l is the field's own name for it
"""Tuple partitioning in plain Python: what the compiled kernels are compared with.

The same two algorithms with lists, dictionaries and sorting, and NumPy where a bucket is
large, written for speed as far as that goes: ``partition`` checks every bucket by itself,
``partition_records`` keeps N(t, s) of the records' own tuples up to date, as paper 003's
source describes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

SLACK = 1 + 1e-9
LARGE = 48  # signatures from which NumPy's arrays beat a loop


def dimensions(
    codes: Sequence[Sequence[int]], bucket: list[int], sizes: Sequence[int]
) -> list[int]:
    """The dimensions that vary in a bucket, widest normalised span first."""
    spans = []
    for d, column in enumerate(codes):
        cells = [column[i] for i in bucket]
        span = max(cells) - min(cells)
        if span:
            spans.append((-span / max(sizes[d] - 1, 1), d))
    return [d for _, d in sorted(spans)]


def partition(
    codes: Sequence[Sequence[int]],
    sizes: Sequence[int],
    sensitive: Sequence[int],
    l: int,
    tries: int = 50,
) -> list[list[int]]:
    """Buckets in which no sensitive value fills more than 1/l, split at medians."""
    waiting = [list(range(len(sensitive)))]
    final = []
    while waiting:
        bucket = waiting.pop()
        half = len(bucket) // 2
        if half >= l:
            for d in dimensions(codes, bucket, sizes)[:tries]:
                ordered = sorted(bucket, key=codes[d].__getitem__)
                left, right = ordered[:half], ordered[half:]
                if all(
                    max(Counter(map(sensitive.__getitem__, part)).values()) * l <= len(part)
                    for part in (left, right)
                ):
                    waiting += [left, right]
                    break
            else:
                final.append(bucket)
        else:
            final.append(bucket)
    return final


class Records:
    """N(t, s) of the records' signatures, kept up to date split by split."""

    def __init__(
        self, columns: Sequence[Sequence[int]], sensitive: Sequence[int], n_values: int
    ) -> None:
        self.columns = columns
        self.sensitive = sensitive
        self.of_row: list[int] = []
        known: dict[tuple[int, ...], int] = {}
        for parts in zip(*columns, strict=True):
            self.of_row.append(known.setdefault(parts, len(known)))
        self.parts = list(known)
        self.matrix = np.array(self.parts)
        self.by_column = list(zip(*self.parts, strict=True))
        self.room = [max(column) + 1 for column in columns]
        self.behind: list[dict[int, list[int]]] = [defaultdict(list) for _ in columns]
        for t, parts in enumerate(self.parts):
            for index, value in zip(self.behind, parts, strict=True):
                index[value].append(t)
        self.power = 1 - len(columns) - 1
        rows = list(range(len(sensitive)))
        counts, values = self.count(rows)
        total = len(rows) ** self.power
        weights = np.full(len(self.parts), float(total))
        for c, table in enumerate(counts):
            weights *= self.dense(table, c)[self.matrix[:, c]]
        self.state = weights[:, None] * np.array([values[s] for s in range(n_values)], float)

    def dense(self, table: Counter[int], column: int) -> np.ndarray:
        """Counts as an array over all values of a column."""
        found = np.zeros(self.room[column])
        found[list(table)] = list(table.values())
        return found

    def count(self, rows: list[int]) -> tuple[list[Counter[int]], Counter[int]]:
        """How often every column value and every sensitive value occurs."""
        counts = [Counter(map(column.__getitem__, rows)) for column in self.columns]
        return counts, Counter(map(self.sensitive.__getitem__, rows))

    def affected(self, counts: list[Counter[int]]) -> list[int]:
        """The signatures all of whose parts occur, found through the rarest column."""
        sizes = [
            sum(len(index[value]) for value in table)
            for index, table in zip(self.behind, counts, strict=True)
        ]
        rarest = sizes.index(min(sizes))
        index = self.behind[rarest]
        found = [t for value in counts[rarest] for t in index[value]]
        for c, table in enumerate(counts):
            if c != rarest:
                part = self.by_column[c]
                found = [t for t in found if part[t] in table]
        return found

    def split(
        self, size: int, counts: list[Counter[int]], values: Counter[int], found: list[int],
        left: list[int], l: int,
    ) -> bool:  # fmt: skip
        """Keep a split if every affected signature stays within 1/l."""
        counts_1, values_1 = self.count(left)
        both, one, two = (n**self.power for n in (size, len(left), size - len(left)))
        if len(found) >= LARGE:
            return self.split_large(counts, values, found, counts_1, values_1, (both, one, two), l)
        changes = [(s, values_1[s], n) for s, n in values.items()]
        fresh = []
        for t in found:
            whole, first, second = both, one, two
            for table, table_1, value in zip(counts, counts_1, self.parts[t], strict=True):
                n, n_1 = table[value], table_1.get(value, 0)
                whole *= n
                first *= n_1
                second *= n - n_1
            sums = self.state[t].tolist()
            for s, n_1, n in changes:
                sums[s] += first * n_1 + second * (n - n_1) - whole * n
            if max(sums) * l > sum(sums) * SLACK:
                return False
            fresh.append(sums)
        self.state[found] = fresh
        return True

    def split_large(
        self, counts: list[Counter[int]], values: Counter[int], found: list[int],
        counts_1: list[Counter[int]], values_1: Counter[int], sizes: tuple[float, ...], l: int,
    ) -> bool:  # fmt: skip
        """The same for many signatures at once."""
        whole, first, second = (np.full(len(found), float(size)) for size in sizes)
        parts = self.matrix[found]
        for c, (table, table_1) in enumerate(zip(counts, counts_1, strict=True)):
            n = self.dense(table, c)[parts[:, c]]
            n_1 = self.dense(table_1, c)[parts[:, c]]
            whole *= n
            first *= n_1
            second *= n - n_1
        n_values = self.state.shape[1]
        all_s = np.array([values[s] for s in range(n_values)], float)
        left_s = np.array([values_1[s] for s in range(n_values)], float)
        sums = self.state[found]
        sums += np.outer(first, left_s) + np.outer(second, all_s - left_s)
        sums -= np.outer(whole, all_s)
        if (sums.max(axis=1) * l > sums.sum(axis=1) * SLACK).any():
            return False
        self.state[found] = sums
        return True


def partition_records(
    codes: Sequence[Sequence[int]],
    sizes: Sequence[int],
    columns: Sequence[Sequence[int]],
    sensitive: Sequence[int],
    l: int,
    tries: int = 6,
) -> list[list[int]]:
    """Buckets such that p(t, s) ≤ 1/l for every record's own tuple t."""
    records = Records(columns, sensitive, max(sensitive) + 1)
    queue = [list(range(len(sensitive)))]
    final = []
    for bucket in queue:
        counts, values = records.count(bucket)
        found = records.affected(counts)
        for d in dimensions(codes, bucket, sizes)[:tries]:
            ordered = sorted(bucket, key=codes[d].__getitem__)
            half = len(ordered) // 2
            if records.split(len(bucket), counts, values, found, ordered[:half], l):
                queue += [ordered[:half], ordered[half:]]
                break
        else:
            final.append(bucket)
    return final
