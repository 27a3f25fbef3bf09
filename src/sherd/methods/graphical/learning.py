"""Learning: from a measurer to a model, step by step. The only place where all of it meets.

1. fine 1-ways, noisy (the data is asked);
2. bins from them (post-processing);
3. which marginals: named by the plan, all, or a tree chosen under privacy (the data is asked);
4. the chosen marginals, noisy (the data is asked);
5. a model of bounded size fitted to them (post-processing).

The data is asked through ``Measurer`` and ``Chooser`` only, whoever holds it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from sherd.methods.graphical import public_rules
from sherd.methods.graphical.clique_choice import (
    MOST_CELLS,
    affordable,
    candidates,
    join,
    joins,
    product,
    telling,
    tree_cells,
)
from sherd.methods.graphical.coarsening import Binning, coarsen, nonnegative
from sherd.methods.graphical.drawing import draw
from sherd.methods.graphical.fitting import LEAST_RIDGE, Model, Target, fit
from sherd.methods.graphical.junction_tree import Clique, JunctionTree
from sherd.methods.graphical.measuring import CodedTable, Marginal, Measurement, Noise, Request
from sherd.methods.graphical.private_choice import MarginalCandidate, cost_of, rate_of
from sherd.methods.graphical.spending import CHOICES, ONE_WAYS, Spending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.graphical.measuring import Measurer
    from sherd.methods.graphical.private_choice import Chooser
    from sherd.methods.graphical.public_grid import PublicGrid

    Shares = NDArray[np.float64]

FURTHER = 20.0
"""Records a deviation and root of a marginal's cells, from which more than a tree is measured."""

MOST_TREES = 30_000
"""Junction trees that are tried for marginals beyond the tree: those of 39 attributes."""

STRENGTH = 3.0
"""How strongly a model is drawn towards independence where noise is as large as all records."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """What plan and schema say: public, and complete before any data is read."""

    grids: tuple[PublicGrid, ...]
    kind: Literal["laplace", "gaussian"]
    total: Fraction
    choice: Literal["tree", "all", "workload"]
    target: int | None = None
    workload: tuple[Clique, ...] = ()
    rules: tuple[public_rules.Rule, ...] = ()

    def __post_init__(self) -> None:
        public_rules.check_possible(self.rules, self.grids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """Everything that was learned: all of it is released."""

    design: Design
    rows: int
    binnings: tuple[Binning, ...]
    fine: tuple[Measurement, ...]
    measured: tuple[Measurement, ...]
    used: tuple[int, ...]
    rate: Fraction | None
    picks: int
    spent: Fraction
    start: tuple[Shares, ...]
    model: Model


def learn(
    design: Design,
    measurer: Measurer,
    chooser: Chooser | None,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Learned:
    """Ask for noisy numbers as the design says, and fit a model to them."""
    account = Spending(kind=design.kind, total=design.total)
    asked = DataAccess(measurer=measurer, chooser=chooser, account=account)
    numbers = ask_all(design, asked, progress)
    fine, binnings, start = numbers.fine, numbers.binnings, numbers.start
    measured, rate, picks = numbers.measured, numbers.rate, numbers.picks
    used = within_size(design, binnings, start, measured, measurer.rows)
    model = fit_model(design, binnings, fine, [measured[i] for i in used], start, measurer.rows)
    progress("measuring", 3, 3)
    return Learned(
        design=design,
        rows=measurer.rows,
        binnings=binnings,
        fine=tuple(fine),
        measured=tuple(measured),
        used=used,
        rate=rate,
        picks=picks,
        spent=account.spent,
        start=start,
        model=model,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyNumbers:
    """All that was asked of the data, and the bins it was asked for."""

    fine: list[Measurement]
    binnings: tuple[Binning, ...]
    start: tuple[Shares, ...]
    measured: list[Measurement]
    rate: Fraction | None
    picks: int


def ask_all(
    design: Design,
    asked: DataAccess,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> NoisyNumbers:
    """Ask for everything that a design needs to know of the data."""
    fine = asked.measurer.measure(_fine_requests(design, asked.account))
    progress("measuring", 1, 3)
    binnings = bins_of(design, fine, asked.measurer.rows)
    start = starts(binnings, fine, asked.measurer.rows)
    measured, rate, picks = _measure_chosen(design, asked, binnings, fine, start)
    progress("measuring", 2, 3)
    return NoisyNumbers(
        fine=fine, binnings=binnings, start=start, measured=measured, rate=rate, picks=picks
    )


def _fine_requests(design: Design, account: Spending) -> list[Request]:
    """The fine 1-ways, all with the same noise; they get everything where nothing follows."""
    wanted = [
        Marginal(attributes=(a,), bins=(tuple(range(grid.size)),))
        for a, grid in enumerate(design.grids)
    ]
    follows = _possible(design)
    share = design.total * (ONE_WAYS if follows else 1) / len(wanted)
    noise = Noise.costing(design.kind, share)
    account.spend(noise.cost * len(wanted))
    return [Request(marginal=one, noise=noise) for one in wanted]


def _possible(design: Design) -> list[Clique]:
    if design.choice == "workload":
        return list(design.workload)
    return candidates(len(design.grids), design.target)


def bins_of(design: Design, fine: Sequence[Measurement], rows: int) -> tuple[Binning, ...]:
    """Bins of every attribute from its noisy 1-way; the class keeps all its labels."""
    return tuple(
        coarsen(
            one.counts,
            math.sqrt(one.request.noise.variance),
            grid,
            rows=rows,
            kinds=public_rules.kinds(design.rules, grid),
            every=a == design.target,
        )
        for a, (grid, one) in enumerate(zip(design.grids, fine, strict=True))
    )


def starts(
    binnings: Sequence[Binning], fine: Sequence[Measurement], rows: int
) -> tuple[Shares, ...]:
    """The shares of every attribute's bins, as its noisy 1-way shows them."""
    return tuple(
        np.bincount(one.bins, nonnegative(noisy.counts, float(rows)), minlength=one.size) / rows
        for one, noisy in zip(binnings, fine, strict=True)
    )


def _marginal(clique: Clique, binnings: Sequence[Binning]) -> Marginal:
    return Marginal(attributes=clique, bins=tuple(binnings[a].bins for a in clique))


@dataclass(frozen=True, kw_only=True, eq=False)
class DataAccess:
    """Whoever answers about the data, and what may be spent on it."""

    measurer: Measurer
    chooser: Chooser | None
    account: Spending

    def measure(self, wanted: Sequence[Marginal], amount: Fraction) -> list[Measurement]:
        """Measurements that together cost an amount at most."""
        if not wanted:
            return []
        noises = self.account.noises(wanted, amount)
        requests = [Request(marginal=m, noise=e) for m, e in zip(wanted, noises, strict=True)]
        return self.measurer.measure(requests)


def _measure_chosen(
    design: Design,
    asked: DataAccess,
    binnings: Sequence[Binning],
    fine: Sequence[Measurement],
    start: Sequence[Shares],
) -> tuple[list[Measurement], Fraction | None, int]:
    """The chosen marginals, the rate of the choices, and how many choices were paid for."""
    sizes = [one.size for one in binnings]
    rows, account = asked.measurer.rows, asked.account
    possible = [c for c in _possible(design) if math.prod(sizes[a] for a in c) <= MOST_CELLS]
    marginals = {clique: _marginal(clique, binnings) for clique in possible}
    picks = max(1, len(design.grids) - 1 - (design.target is not None))
    if design.choice != "tree" or len(possible) <= picks:
        return asked.measure(list(marginals.values()), account.left), None, 0
    more = further_picks(design, list(marginals.values()), picks, rows)
    rate = rate_of(design.kind, design.total * CHOICES / (picks + more))
    account.spend(cost_of(design.kind, rate) * (picks + more))
    expected = {c: np.rint(product(start, c) * rows).astype(np.int64) for c in possible}
    tree = _pick_tree(design, asked, marginals, expected, picks, rate)
    share = account.left * Fraction(len(tree), len(tree) + more)
    measured = asked.measure([marginals[c] for c in tree], share)
    if not more:
        return measured, rate, picks
    model = fit_model(design, binnings, fine, measured, start, rows)
    drawn = CodedTable(draw(model, rows, np.random.default_rng(0)), sizes)
    plain = [tuple(range(size)) for size in sizes]
    left = {
        c: drawn.histogram(Marginal(attributes=c, bins=tuple(plain[a] for a in c)))
        for c in possible
        if c not in tree
    }
    further = _pick_further(asked, marginals, left, tree, sizes, more, rate)
    measured += asked.measure([marginals[c] for c in further], account.left)
    return measured, rate, picks + more


def further_picks(design: Design, possible: Sequence[Marginal], picks: int, rows: int) -> int:
    """How many marginals to measure beyond a tree: as many again, where noise leaves room.

    Each is chosen among those that leave the model small, so a tree is tried for every candidate:
    of many attributes, fewer are chosen.
    Decided by public and noisy numbers: the deviation that each would get beside the records.
    """
    amount = design.total * (1 - ONE_WAYS - CHOICES) / (2 * picks)
    deviation = math.sqrt(Noise.costing(design.kind, amount).variance)
    cells = sum(one.cells for one in possible) / len(possible)
    if deviation * math.sqrt(cells) * FURTHER > rows:
        return 0
    return min(picks, len(possible) - picks, MOST_TREES // len(possible))


def _pick_tree(
    design: Design,
    asked: DataAccess,
    marginals: Mapping[Clique, Marginal],
    expected: Mapping[Clique, NDArray[np.int64]],
    picks: int,
    rate: Fraction,
) -> list[Clique]:
    """Cliques that connect all attributes, each chosen under privacy among those that help."""
    assert asked.chooser is not None
    listed = {c: MarginalCandidate(marginal=m, expected=expected[c]) for c, m in marginals.items()}
    groups = {a: a for a in range(len(design.grids)) if a != design.target}
    chosen: list[Clique] = []
    for _ in range(picks):
        helpful = [c for c in listed if joins(groups, c, design.target)]
        if not helpful:
            break
        place = asked.chooser.choose([listed[c] for c in helpful], rate)
        join(groups, helpful[place], design.target)
        chosen.append(helpful[place])
    return chosen


def _pick_further(
    asked: DataAccess,
    marginals: Mapping[Clique, Marginal],
    expected: Mapping[Clique, NDArray[np.int64]],
    chosen: Sequence[Clique],
    sizes: Sequence[int],
    picks: int,
    rate: Fraction,
) -> list[Clique]:
    """Cliques that a model of the tree gets most wrong, as long as its size stays bounded."""
    assert asked.chooser is not None
    listed = {c: MarginalCandidate(marginal=marginals[c], expected=e) for c, e in expected.items()}
    further: list[Clique] = []
    for _ in range(picks):
        fits = [
            c
            for c in listed
            if c not in further and tree_cells([*chosen, *further, c], sizes) <= MOST_CELLS
        ]
        if not fits:
            break
        further.append(fits[asked.chooser.choose([listed[c] for c in fits], rate)])
    return further


def within_size(
    design: Design,
    binnings: Sequence[Binning],
    start: Sequence[Shares],
    measured: Sequence[Measurement],
    rows: int,
) -> tuple[int, ...]:
    """Which measurements the model is fitted to, so that its junction tree stays bounded."""
    sizes = [one.size for one in binnings]
    ranked = {}
    for i, one in enumerate(measured):
        clique = one.request.marginal.attributes
        expected = product(start, clique) * rows
        ranked[clique] = (telling(one.counts, expected, one.request.noise.variance), i)
    zeros = public_rules.zeros(design.rules, design.grids, [one.bins for one in binnings])
    kept = affordable(
        [(worth, clique) for clique, (worth, _) in ranked.items()],
        sizes,
        always=[zero.attributes for zero in zeros],
    )
    return tuple(sorted(ranked[clique][1] for clique in kept))


def fit_model(
    design: Design,
    binnings: Sequence[Binning],
    fine: Sequence[Measurement],
    measured: Sequence[Measurement],
    start: Sequence[Shares],
    rows: int,
) -> Model:
    """The model that the measurements lead to."""
    targets = []
    for one, noisy in zip(binnings, fine, strict=True):
        counts = np.bincount(one.bins, noisy.counts, minlength=one.size)
        cells = np.bincount(one.bins, minlength=one.size)
        targets.append(
            Target(
                attributes=noisy.request.marginal.attributes,
                shares=counts / rows,
                variance=np.asarray(cells * (noisy.request.noise.variance / rows**2), np.float64),
            )
        )
    for noisy in measured:
        variance = noisy.request.noise.variance / rows**2
        targets.append(
            Target(
                attributes=noisy.request.marginal.attributes,
                shares=noisy.counts / rows,
                variance=np.full(noisy.counts.shape, variance),
            )
        )
    zeros = public_rules.zeros(design.rules, design.grids, [one.bins for one in binnings])
    factors = itertools.chain(
        (one.attributes for one in targets), (one.attributes for one in zeros)
    )
    tree = JunctionTree.of(factors, [one.size for one in binnings])
    return fit(
        tree,
        targets,
        start=start,
        zeros=zeros,
        strength=strength_of([one.request.noise for one in measured or fine], rows),
        least_ridge=least_ridge(rows),
    )


def strength_of(noises: Sequence[Noise], rows: int) -> float:
    """How strongly a model is drawn towards independence: by the records beside the noise.

    κ = 3·(n/s)^⅔, where 1/s² is the sum of 1/sᵢ² over all that is fitted to, and no sᵢ is less
    than one record. Beside the likelihood, of which κ s²/n² is the weight, that is less the more
    records there are for a deviation. Only the noise's scale is looked at, no count.
    """
    precision = math.fsum(1 / max(1.0, one.variance) for one in noises)
    return float(STRENGTH * (rows * math.sqrt(precision)) ** (2 / 3))


def least_ridge(rows: int) -> float:
    """A twentieth of a record's share, or what keeps the fit of many records well conditioned."""
    return max(LEAST_RIDGE, 0.05 / rows)
