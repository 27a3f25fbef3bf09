"""What a sliced table says about one person: p(t, s), by its definition and nothing kept.

Notation as in paper 003's source: a tuple t matches bucket B where each of its column
values occurs in B;

    N(t, s) = Σ_B |B|^β · Π_i cnt_{i,B}[t_i] / cnt_{sep i,B}[t_sep i] · cnt_B[(q, s)] / |B|

and p(t, s) = N(t, s) / Σ_s N(t, s). The product runs over the columns without the sensitive
attribute, sep i is what a column shares with earlier ones (|B| where nothing), q are the
quasi-identifiers that share the sensitive column. β = 1 weighs buckets as Bayes' rule does,
β = 0 as the paper.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class SlicedView:
    """A sliced table as lists, a column after the other.

    ``columns`` are the attributes of every column that an adversary may know, those of the
    sensitive column last; ``cells[column][row]`` their cells, ``values`` the sensitive ones.
    """

    columns: Sequence[Sequence[str]]
    cells: Sequence[Sequence[tuple[Hashable, ...]]]
    values: Sequence[Hashable]
    buckets: Sequence[Hashable]

    @classmethod
    def of(
        cls,
        columns: Sequence[Sequence[str]],
        sensitive: str,
        rows: Mapping[tuple[int, str], Sequence[Hashable]],
        buckets: Sequence[Hashable],
        others: Sequence[str] = (),
    ) -> SlicedView:
        """A view of fields given as ``rows[column number, attribute]``.

        ``others`` are further sensitive attributes: nobody is assumed to know them.
        """
        hidden = {sensitive, *others}
        known = [[name for name in column if name not in hidden] for column in columns]
        n = len(buckets)
        cells = [
            list(zip(*(rows[place, name] for name in names), strict=True)) if names else [()] * n
            for place, names in enumerate(known)
        ]
        return cls(
            columns=known,
            cells=cells,
            values=rows[len(columns) - 1, sensitive],
            buckets=buckets,
        )

    def separators(self) -> list[tuple[str, ...]]:
        """What each column shares with the columns before it."""
        before: set[str] = set()
        shared = []
        for names in self.columns:
            shared.append(tuple(name for name in names if name in before))
            before |= set(names)
        return shared

    def counted(self) -> Counted:
        """The counts of every bucket."""
        shared = self.separators()
        sizes: Counter[Hashable] = Counter(self.buckets)
        columns: list[dict[tuple[Hashable, ...], Counter[Hashable]]] = []
        separators: list[dict[tuple[Hashable, ...], Counter[Hashable]] | None] = []
        for names, cells, common in zip(self.columns, self.cells, shared, strict=True):
            whole: dict[tuple[Hashable, ...], Counter[Hashable]] = defaultdict(Counter)
            for bucket, cell in zip(self.buckets, cells, strict=True):
                whole[cell][bucket] += 1
            columns.append(whole)
            if not common:
                separators.append(None)
                continue
            places = [list(names).index(name) for name in common]
            part: dict[tuple[Hashable, ...], Counter[Hashable]] = defaultdict(Counter)
            for bucket, cell in zip(self.buckets, cells, strict=True):
                part[tuple(cell[i] for i in places)][bucket] += 1
            separators.append(part)
        pairs: dict[tuple[Hashable, tuple[Hashable, ...]], Counter[Hashable]] = defaultdict(Counter)
        for bucket, q, value in zip(self.buckets, self.cells[-1], self.values, strict=True):
            pairs[bucket, q][value] += 1
        return Counted(view=self, sizes=sizes, columns=columns, separators=separators, pairs=pairs)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The counts of a sliced table's buckets, ready for questions about tuples."""

    view: SlicedView
    sizes: Counter[Hashable]
    columns: Sequence[Mapping[tuple[Hashable, ...], Counter[Hashable]]]
    separators: Sequence[Mapping[tuple[Hashable, ...], Counter[Hashable]] | None]
    pairs: Mapping[tuple[Hashable, tuple[Hashable, ...]], Counter[Hashable]]

    def probabilities(
        self, parts: Sequence[tuple[Hashable, ...]], *, beta: float = 1.0
    ) -> dict[Hashable, float]:
        """p(t, s) for every s; ``parts`` are t's cells, q the last. Empty: nothing matches."""
        lists = [
            column.get(part, Counter()) for column, part in zip(self.columns, parts, strict=True)
        ]
        amounts: dict[Hashable, float] = defaultdict(float)
        for bucket in min(lists, key=len):
            weight = float(self.sizes[bucket]) ** beta
            for place, (counts, part) in enumerate(zip(lists, parts, strict=True)):
                separator = self.separators[place]
                below: float = self.sizes[bucket]
                if separator is not None:
                    names = list(self.view.columns[place])
                    common = self.view.separators()[place]
                    key = tuple(part[names.index(name)] for name in common)
                    below = separator[key][bucket] if key in separator else 0
                if not below:
                    weight = 0.0
                    break
                # The sensitive column's own count comes with s, below.
                weight *= (counts[bucket] if place < len(parts) - 1 else 1) / below
            if weight:
                for value, count in self.pairs.get((bucket, parts[-1]), {}).items():
                    amounts[value] += weight * count
        whole = sum(amounts.values())
        return {value: amount / whole for value, amount in amounts.items()} if whole else {}

    def tuples_of(self, bucket: Hashable) -> Iterator[tuple[tuple[Hashable, ...], ...]]:
        """Every tuple that matches a bucket, whether or not anybody has it."""
        values = [
            [part for part, counts in column.items() if counts[bucket]] for column in self.columns
        ]
        shared = self.view.separators()
        for parts in itertools.product(*values):
            if self._agree(parts, shared):
                yield parts

    def _agree(
        self, parts: tuple[tuple[Hashable, ...], ...], shared: list[tuple[str, ...]]
    ) -> bool:
        known: dict[str, Hashable] = {}
        for names, part, common in zip(self.view.columns, parts, shared, strict=True):
            cell = dict(zip(names, part, strict=True))
            if any(known[name] != cell[name] for name in common):
                return False
            known |= cell
        return True

    def largest(
        self, buckets: Sequence[Hashable], *, beta: float, budget: int
    ) -> tuple[float, bool]:
        """The largest p(t, s) of tuples that match one of the buckets, and if all were tried."""
        worst = 0.0
        left = budget
        for bucket in buckets:
            for parts in self.tuples_of(bucket):
                if left == 0:
                    return worst, False
                left -= 1
                worst = max(worst, *self.probabilities(parts, beta=beta).values(), 0.0)
        return worst, True
