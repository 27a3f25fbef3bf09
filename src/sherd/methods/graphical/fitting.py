"""Fitting: the distribution of maximum entropy that noisy marginals lead to.

Minimises Σ ‖n·p_i − y_i‖²/(2 s_i²) + κ·KL(p ‖ q) over all distributions p of the bins, where p_i
is the marginal of p that measurement i is about and q the product of single attributes' shares,
as the noisy 1-ways show them. The first term is the likelihood of the noise, the second draws p
towards independence where the noise leaves it open. By duality p is q times a product of
factors exp(λ_i), and λ minimises

    log Z(λ) − Σ λ_i·y_i/n + Σ (κ s_i²/n²)·‖λ_i‖²/2,

smooth and strictly convex: solved by L-BFGS. At the optimum λ_i = (y_i − n·p_i)·n/(κ s_i²), so
the marginals of the model say what its factors are, which is how a release is re-checked.

Floating point is harmless here: everything is computed from noisy numbers.

Notation: p the model, q the start, n records, y_i noisy counts, s_i their deviation, κ the
``strength``, λ_i factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.graphical.junction_tree import Clique, JunctionTree, expand, project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Table = NDArray[np.float64]

FORBIDDEN = -1e9
"""The log-potential of a combination that a public rule excludes."""

LEAST_SHARE = 1e-6
"""What a bin has in the start at least, so that measurements can raise it."""

LEAST_RIDGE = 1e-5
"""κ s²/n² at least, so that the problem stays well conditioned where there is little noise."""

MOST_WORK = 3e7
"""Steps times cells of the junction tree, at most: a few seconds."""

ENOUGH = 1e-3
"""The gradient that a fit must reach to be one: such as do not get longer, up to ``LONGER``."""

LONGER = 20
"""How many times the work a fit may take that is not yet one."""

MEMORY = 20
"""Steps that L-BFGS remembers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """A noisy marginal to fit: shares of all records, and the variance of a share."""

    attributes: Clique
    shares: Table
    variance: Table


@dataclass(frozen=True, kw_only=True, eq=False)
class Zero:
    """Combinations that cannot occur: true where a public rule excludes them."""

    attributes: Clique
    excluded: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A fitted model: the tree, each clique's marginal, each target's and its factor λ."""

    tree: JunctionTree
    marginals: tuple[Table, ...]
    fitted: tuple[Table, ...]
    factors: tuple[Table, ...]
    steps: int
    gradient: float

    def marginal(self, attributes: Clique) -> Table | None:
        """The marginal over attributes of one clique; None where no clique holds them all."""
        for clique, table in zip(self.tree.cliques, self.marginals, strict=True):
            if set(attributes) <= set(clique):
                return project(table, clique, attributes)
        return None


class _Problem:
    """The dual problem: value and gradient at a vector of all factors."""

    def __init__(
        self,
        tree: JunctionTree,
        targets: Sequence[Target],
        start: Sequence[Table],
        zeros: Sequence[Zero],
        strength: float,
        least_ridge: float,
    ) -> None:
        self.tree, self.targets = tree, targets
        self.homes = [tree.home(one.attributes) for one in targets]
        ends = np.cumsum([one.shares.size for one in targets])
        self.parts = [
            slice(end - one.shares.size, end) for end, one in zip(ends, targets, strict=True)
        ]
        self.shares = np.concatenate([one.shares.ravel() for one in targets])
        self.ridge = np.maximum(
            strength * np.concatenate([one.variance.ravel() for one in targets]), least_ridge
        )
        self.base = [np.zeros([tree.sizes[a] for a in clique]) for clique in tree.cliques]
        for attribute, shares in enumerate(start):
            home = tree.home((attribute,))
            logarithm = np.log(np.maximum(shares, LEAST_SHARE))
            self.base[home] += expand(logarithm, (attribute,), tree.cliques[home])
        for zero in zeros:
            home = tree.home(zero.attributes)
            clique = tree.cliques[home]
            mask = expand(np.where(zero.excluded, FORBIDDEN, 0.0), zero.attributes, clique)
            self.base[home] += mask

    def marginals(self, factors: Table) -> tuple[list[Table], float]:
        """Each clique's marginal, and log Z."""
        potentials = [base.copy() for base in self.base]
        for target, home, part in zip(self.targets, self.homes, self.parts, strict=True):
            table = factors[part].reshape(target.shares.shape)
            potentials[home] += expand(table, target.attributes, self.tree.cliques[home])
        return self.tree.calibrate(potentials)

    def fitted(self, marginals: Sequence[Table]) -> list[Table]:
        """The marginal of every target."""
        return [
            project(marginals[home], self.tree.cliques[home], target.attributes)
            for target, home in zip(self.targets, self.homes, strict=True)
        ]

    def value(self, factors: Table) -> tuple[float, Table]:
        """The dual's value and gradient."""
        marginals, total = self.marginals(factors)
        fitted = np.concatenate([one.ravel() for one in self.fitted(marginals)])
        pulled = self.ridge * factors
        value = total - inner(factors, self.shares) + 0.5 * inner(pulled, factors)
        return value, fitted - self.shares + pulled


def fit(
    tree: JunctionTree,
    targets: Sequence[Target],
    *,
    start: Sequence[Table],
    zeros: Sequence[Zero] = (),
    strength: float,
    least_ridge: float = LEAST_RIDGE,
    steps: int = 1000,
    tolerance: float = 1e-5,
) -> Model:
    """The model of maximum entropy for these targets, on a tree that holds them all."""
    problem = _Problem(tree, targets, start, zeros, strength, least_ridge)
    steps = min(steps, int(MOST_WORK / tree.cells))
    # The dual's curvature is at most a share's variance plus the ridge.
    scale = 1 / (np.maximum(problem.shares, 1e-4) + problem.ridge)
    factors, used, gradient = _minimise(problem, scale, steps, tolerance)
    marginals, _ = problem.marginals(factors)
    return Model(
        tree=tree,
        marginals=tuple(marginals),
        fitted=tuple(problem.fitted(marginals)),
        factors=tuple(
            factors[part].reshape(one.shares.shape)
            for part, one in zip(problem.parts, targets, strict=True)
        ),
        steps=used,
        gradient=gradient,
    )


def _minimise(
    problem: _Problem, scale: Table, steps: int, tolerance: float
) -> tuple[Table, int, float]:
    """L-BFGS with a diagonal start and backtracking."""
    point = np.zeros(len(problem.shares))
    value, gradient = problem.value(point)
    past: list[tuple[Table, Table, float]] = []
    step = 0
    while (steep := float(np.abs(gradient).max())) > tolerance:
        if step >= steps * (LONGER if steep > ENOUGH else 1):
            break
        direction = _direction(gradient, past, scale)
        slope = inner(gradient, direction)
        if slope >= 0:
            past, direction = [], -scale * gradient
            slope = inner(gradient, direction)
        length = 1.0
        while True:
            tried = point + length * direction
            new_value, new_gradient = problem.value(tried)
            if new_value <= value + 1e-4 * length * slope or length < 1e-6:
                break
            length /= 2
        moved, turned = tried - point, new_gradient - gradient
        curved = inner(moved, turned)
        if curved > 0:
            past = [*past[-MEMORY + 1 :], (moved, turned, 1 / curved)]
        if new_value > value:
            break
        point, value, gradient = tried, new_value, new_gradient
        step += 1
    return point, step, float(np.abs(gradient).max())


def inner(one: Table, other: Table) -> float:
    """The inner product, added up in one thread.

    BLAS would share such short vectors out: its threads wait for each other longer than they add,
    and the sum would depend on how many of them there are.
    """
    return float(np.einsum("i,i->", one, other))


def _direction(gradient: Table, past: list[tuple[Table, Table, float]], scale: Table) -> Table:
    """The two-loop recursion."""
    found = gradient.copy()
    weights = []
    for moved, turned, inverse in reversed(past):
        weight = inverse * inner(moved, found)
        weights.append(weight)
        found -= weight * turned
    if past:
        moved, turned, inverse = past[-1]
        found *= scale / (inverse * inner(turned, scale * turned))
    else:
        found *= scale
    for (moved, turned, inverse), weight in zip(past, reversed(weights), strict=True):
        found += (weight - inverse * inner(turned, found)) * moved
    return -found
