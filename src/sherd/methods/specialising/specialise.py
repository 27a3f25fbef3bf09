"""Top-down specialisation: which values to tell apart, chosen step by step.

wang2020, Algorithm 1, and mohammed2011 (DiffGen). The state is a cut of each attribute: an
ordered partition of its codes into intervals, at first one interval that holds them all. Each
step replaces one interval, in all records at once, by its children. So the leaves of the
partition tree are all combinations of the cuts' intervals, empty ones included, and utilities
need counts of one attribute at a time.

The algorithm itself sees no data. It asks an ``Oracle`` to choose among candidates and to
count leaves; everything it knows is what the oracle answered, which is released. Departs from
the paper in taking split points from a public grid (the paper's Algorithm 4 takes the values
that occur, and so reveals them) and in drawing no split after the last cut.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sherd.methods.specialising.hierarchy import Hierarchy


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Replacing the node [edges[0], edges[-1]) of an attribute by the intervals between edges."""

    attribute: int
    edges: tuple[int, ...]

    @property
    def fan(self) -> int:
        """How many children the node gets."""
        return len(self.edges) - 1


Cuts = tuple[tuple[int, ...], ...]
"""For every attribute the edges of its cut, from 0 to its number of codes."""


class Oracle(Protocol):
    """Who holds the data, or shares of it, and answers under differential privacy."""

    def choose(self, groups: Sequence[Sequence[Candidate]]) -> list[int]:
        """One good candidate of each group, each group's choice by itself."""

    def count(self, cuts: Cuts, choices: int) -> NDArray[np.int64]:
        """The noisy number of records of each leaf (last attribute fastest) and class.

        ``choices`` says how many were made and paid for before.
        """


@dataclass(frozen=True, kw_only=True)
class Specialised:
    """The cuts that were reached, the specialisations that led there, and their price.

    ``choices`` is the number of epsilon' spent: each measured attribute's first split, each
    step, and the splits that followed a step.
    """

    cuts: Cuts
    steps: tuple[Candidate, ...]
    choices: int


def specialise(
    hierarchies: Sequence[Hierarchy],
    oracle: Oracle,
    *,
    h: int,
    max_leaves: int,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Specialised:
    """Specialise h times, or until nothing is left that keeps the leaves below the limit."""
    cuts: list[tuple[int, ...]] = [(0, one.size) for one in hierarchies]
    splits: dict[tuple[int, int, int], int] = {}
    steps: list[Candidate] = []
    numeric = [(a, 0, one.size) for a, one in enumerate(hierarchies) if one.numeric]
    # Each attribute's first split has an epsilon' of its own.
    choices = _split(oracle, numeric, splits)
    for step in range(h):
        candidates = _candidates(hierarchies, cuts, splits, max_leaves)
        if not candidates:
            break
        taken = candidates[oracle.choose([candidates])[0]]
        steps.append(taken)
        choices += 1
        cuts[taken.attribute] = tuple(sorted({*cuts[taken.attribute], *taken.edges}))
        if hierarchies[taken.attribute].numeric and step + 1 < h:
            a, (start, middle, stop) = taken.attribute, taken.edges
            # One epsilon' for both: a record is in one of them (see ``utility``).
            choices += min(1, _split(oracle, [(a, start, middle), (a, middle, stop)], splits))
        progress("specialising", step + 1, h)
    return Specialised(cuts=tuple(cuts), steps=tuple(steps), choices=choices)


def _split(
    oracle: Oracle, nodes: list[tuple[int, int, int]], splits: dict[tuple[int, int, int], int]
) -> int:
    """Choose where to split numeric nodes of more than one cell; returns how many."""
    wide = [node for node in nodes if node[2] - node[1] > 1]
    if not wide:
        return 0
    groups = [split_candidates(*node) for node in wide]
    for node, group, place in zip(wide, groups, oracle.choose(groups), strict=True):
        splits[node] = group[place].edges[1]
    return len(wide)


def split_candidates(attribute: int, start: int, stop: int) -> list[Candidate]:
    """Every way to split a numeric node in two.

    >>> [one.edges for one in split_candidates(0, 3, 6)]
    [(3, 4, 6), (3, 5, 6)]
    """
    return [
        Candidate(attribute=attribute, edges=(start, middle, stop))
        for middle in range(start + 1, stop)
    ]


def _candidates(
    hierarchies: Sequence[Hierarchy],
    cuts: Sequence[tuple[int, ...]],
    splits: dict[tuple[int, int, int], int],
    max_leaves: int,
) -> list[Candidate]:
    """What can be specialised next; the order is public, by attribute and code."""
    leaves = math.prod(len(cut) - 1 for cut in cuts)
    candidates = []
    for a, (one, cut) in enumerate(zip(hierarchies, cuts, strict=True)):
        parts = len(cut) - 1
        for start, stop in itertools.pairwise(cut):
            if one.numeric:
                middle = splits.get((a, start, stop))
                edges: tuple[int, ...] = () if middle is None else (start, middle, stop)
            else:
                edges = one.children.get((start, stop), ())
            if not edges:
                continue
            if leaves // parts * (parts + len(edges) - 2) <= max_leaves:
                candidates.append(Candidate(attribute=a, edges=edges))
    return candidates
