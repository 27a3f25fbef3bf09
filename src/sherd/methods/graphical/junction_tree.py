"""Junction trees: marginals and draws of a model that is a product of small tables.

A model over many attributes is a product of factors over a few each. Its graph is made
chordal by eliminating attributes one by one, always the one whose clique has the fewest cells;
the maximal cliques form a tree in which each attribute's cliques hang together, and two passes
of messages along it give the marginal of every clique.

>>> tree = JunctionTree.of([(0, 1), (1, 2), (0, 2), (2, 3)], (2, 3, 4, 5))
>>> tree.cliques, tree.cells
(((0, 1, 2), (2, 3)), 44)
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Table = NDArray[np.float64]

Clique = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class JunctionTree:
    """Cliques from the root on; ``parents`` are places before, ``separators`` what they share."""

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    separators: tuple[Clique, ...]

    @classmethod
    def of(cls, factors: Iterable[Clique], sizes: Sequence[int]) -> JunctionTree:
        """The tree of a model with these factors, over attributes of these sizes."""
        maximal = eliminate(factors, sizes)
        cliques, parents, separators = _span(maximal)
        return cls(sizes=tuple(sizes), cliques=cliques, parents=parents, separators=separators)

    @property
    def cells(self) -> int:
        """How many cells the cliques have together."""
        return sum(math.prod(self.sizes[a] for a in clique) for clique in self.cliques)

    def home(self, factor: Clique) -> int:
        """The smallest clique that holds a factor."""
        wanted = set(factor)
        holds = [i for i, clique in enumerate(self.cliques) if wanted <= set(clique)]
        return min(holds, key=lambda i: math.prod(self.sizes[a] for a in self.cliques[i]))

    def calibrate(self, potentials: Sequence[Table]) -> tuple[list[Table], float]:
        """The marginal of every clique, from log-potentials, and the logarithm of the total."""
        beliefs = [potential.copy() for potential in potentials]
        messages: list[Table] = [np.zeros(())] * len(beliefs)
        for i in range(len(beliefs) - 1, 0, -1):
            messages[i] = _log_sum(beliefs[i], self.cliques[i], self.separators[i])
            parent = self.parents[i]
            beliefs[parent] += expand(messages[i], self.separators[i], self.cliques[parent])
        total = float(_log_sum(beliefs[0], self.cliques[0], ()))
        marginals = [np.exp(beliefs[0] - total)]
        for i in range(1, len(beliefs)):
            parent = self.parents[i]
            above = project(marginals[parent], self.cliques[parent], self.separators[i])
            # exp(belief − message) is the conditional of the clique given its separator.
            message = expand(messages[i], self.separators[i], self.cliques[i])
            conditional = np.exp(beliefs[i] - message)
            conditional *= expand(above, self.separators[i], self.cliques[i])
            marginals.append(conditional)
        return marginals, total


def eliminate(factors: Iterable[Clique], sizes: Sequence[int]) -> list[Clique]:
    """The maximal cliques of the graph after eliminating every attribute, cheapest first."""
    near: dict[int, set[int]] = {a: set() for a in range(len(sizes))}
    for factor in factors:
        for a in factor:
            near[a] |= set(factor) - {a}
    queue = [(_weight(near, a, sizes), a) for a in near]
    heapq.heapify(queue)
    weights = {a: weight for weight, a in queue}
    cliques: list[set[int]] = []
    holding: dict[int, list[set[int]]] = {a: [] for a in near}
    while near:
        weight, a = heapq.heappop(queue)
        if a not in near or weight != weights[a]:
            continue  # its neighbours have changed since
        clique = near.pop(a) | {a}
        if not any(clique <= other for other in holding[a]):
            cliques.append(clique)
            for b in clique:
                holding[b].append(clique)
        for b in clique - {a}:
            near[b] |= clique
            near[b] -= {a, b}
        for b in clique - {a}:
            weights[b] = _weight(near, b, sizes)
            heapq.heappush(queue, (weights[b], b))
    return [tuple(sorted(clique)) for clique in cliques]


def _weight(near: dict[int, set[int]], a: int, sizes: Sequence[int]) -> int:
    return math.prod((sizes[b] for b in near[a]), start=sizes[a])


def _span(maximal: list[Clique]) -> tuple[tuple[Clique, ...], tuple[int, ...], tuple[Clique, ...]]:
    """A maximum spanning tree of the cliques by what they share, from the largest clique on."""
    left = sorted(maximal, key=lambda c: (-len(c), c))
    cliques, parents, separators = [left.pop(0)], [-1], [()]
    best = {c: (len(set(c) & set(cliques[0])), 0) for c in left}
    order: list[Clique] = []
    while left:
        taken = max(left, key=lambda c: (best[c][0], [-a for a in c]))
        left.remove(taken)
        parent = best[taken][1]
        shared = tuple(sorted(set(taken) & set(cliques[parent])))
        cliques.append(taken)
        parents.append(parent)
        separators.append(shared)  # type: ignore[arg-type]
        order.append(taken)
        for c in left:
            common = len(set(c) & set(taken))
            if common > best[c][0]:
                best[c] = (common, len(cliques) - 1)
    return tuple(cliques), tuple(parents), tuple(separators)


def expand(table: Table, attributes: Clique, clique: Clique) -> Table:
    """A table over some attributes, ready to be broadcast over a clique that holds them."""
    shape = iter(table.shape)
    return table.reshape([next(shape) if a in attributes else 1 for a in clique])


def project(table: Table, clique: Clique, attributes: Clique) -> Table:
    """A clique's table summed down to some of its attributes."""
    away = tuple(i for i, a in enumerate(clique) if a not in attributes)
    return np.asarray(table.sum(axis=away)) if away else table


def _log_sum(table: Table, clique: Clique, attributes: Clique) -> Table:
    away = tuple(i for i, a in enumerate(clique) if a not in attributes)
    if not away:
        return table
    top = table.max(axis=away, keepdims=True)
    summed = np.log(np.exp(table - top).sum(axis=away))
    return np.asarray(summed + top.reshape(summed.shape))
