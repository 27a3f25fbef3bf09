"""How the claims of paper 001 about information loss are judged (Figures 3 and 4).

Rows are cells: a method at one (α, ε, k), with its mean loss in every reading and the standard
error of it. "Similar" is a factor, as the paper's figures have a logarithmic scale.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from compared import EXTREME, Measured, Tally, every, mean
from losses import error_of
from masked import ALPHAS, EPSILONS, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reproduction import Rows

    Cells = dict[tuple[str, float, float, int], Measured]
    Pairs = Iterable[tuple[Measured, Measured]]

Judged = tuple[str, bool | None]


def cells_of(rows: Rows, loss: str) -> Cells:
    """The loss of every method, α, ε and k."""
    return {
        (r["method"], r["alpha"], r["epsilon"], r["k"]): Measured(
            value=r[loss], error=r[error_of(loss)]
        )
        for r in rows
    }


def _ks(cells: Cells) -> list[int]:
    return sorted({k for _, _, _, k in cells})


def _by_epsilon(pairs: dict[float, list[tuple[Measured, Measured]]]) -> tuple[str, Tally]:
    """Counts for each ε in words, and all of them together."""
    tallies = {epsilon: Tally.of(own) for epsilon, own in pairs.items()}
    whole = Tally()
    for tally in tallies.values():
        whole = whole.plus(tally)
    parts = "; ".join(f"ε = {epsilon:g}: {tally.words()}" for epsilon, tally in tallies.items())
    return whole.words() if whole.lower == whole.cells else f"{whole.words()} ({parts})", whole


def dp_is_random(rows: Rows, *, loss: str, fall: float, share: float) -> Judged:
    """DP has the highest loss, and it barely falls from ε = 0.01 to 1."""
    at = cells_of(rows, loss)
    first = _ks(at)[0]
    ratios = [at["dp", a, 1.0, first].over(at["dp", a, 0.01, first]) for a in ALPHAS]
    falls = [Measured(value=1 - r.value, error=r.error) for r in ratios]
    words, tally = _by_epsilon({
        e: [
            (m, at["dp", key[1], e, first])
            for key, m in at.items()
            if key[0] != "dp" and key[2] == e
        ]
        for e in EPSILONS
    })  # fmt: skip
    return (
        f"it falls by {max(f.value for f in falls):.1%} at the most; the others beside it: {words}",
        every((tally.holds(share), *(f.at_most(fall) for f in falls))),
    )


def falls_with_k(rows: Rows, *, loss: str, share: float) -> Judged:
    """DP-UM and iDP-LS lose less with the larger of any two k."""
    at = cells_of(rows, loss)
    words, tally = _by_epsilon({
        e: [
            (at[method, alpha, e, large], at[method, alpha, e, small])
            for method, alpha in itertools.product(("dp-um", "idp-ls"), ALPHAS)
            for small, large in itertools.combinations(_ks(at), 2)
        ]
        for e in EPSILONS
    })  # fmt: skip
    return f"the larger of two k beside the smaller: {words}", tally.holds(share)


def _beside_um(at: Cells, epsilon: float) -> list[tuple[Measured, Measured]]:
    """iDP-LS and DP-UM with the same α and k."""
    return [
        (at["idp-ls", a, epsilon, k], at["dp-um", a, epsilon, k]) for a in ALPHAS for k in _ks(at)
    ]


def ls_like_um(rows: Rows, *, loss: str, factor: float, share: float) -> Judged:
    """DP-UM and iDP-LS lose alike."""
    at = cells_of(rows, loss)
    pairs = [pair for e in EPSILONS for pair in _beside_um(at, e)]
    near = _near(pairs, factor)
    ratios = [a.value / b.value for a, b in pairs]
    return (
        f"{near.words('alike', 'untold', 'not')} cells (within {factor:g} times); iDP-LS has "
        f"{min(ratios):.0%} to {max(ratios):.0%} of DP-UM's loss, {np.median(ratios):.0%} in the "
        "median",
        near.holds(share),
    )


def _near(pairs: Pairs, factor: float) -> Tally:
    """In how many cells two losses are within a factor of each other, untold, and not.

    Judged by the loss itself where both are measured; noise counts only where they are not near.
    """
    found = []
    for a, b in pairs:
        ratio = a.over(b)
        if 1 / factor <= ratio.value <= factor:
            found.append(True)
        else:
            found.append(None if a.minus(b).side_of(0.0) == 0 else False)
    return Tally(lower=found.count(True), within=found.count(None), higher=found.count(False))


def ls_below_um(rows: Rows, *, loss: str, share: float) -> Judged:
    """iDP-LS loses less than DP-UM."""
    at = cells_of(rows, loss)
    words, tally = _by_epsilon({e: _beside_um(at, e) for e in EPSILONS})
    return words, tally.holds(share)


def _gain(pairs: list[tuple[Measured, Measured]]) -> Measured:
    """By which share iDP-LS loses less than DP-UM, in the mean of cells."""
    ratio = mean([a.over(b) for a, b in pairs])
    return Measured(value=1 - ratio.value, error=ratio.error)


def _said(share: Measured) -> str:
    return f"{share.value:.1%} ± {2 * share.error:.1%}"


def gap_grows(rows: Rows, *, loss: str) -> Judged:
    """The two differ more, relative to the loss, for higher ε: in all, and back in no step."""
    at = cells_of(rows, loss)
    gains = [_gain(_beside_um(at, e)) for e in EPSILONS]
    words = ", ".join(f"{_said(g)} at ε = {e:g}" for g, e in zip(gains, EPSILONS, strict=True))
    back = any(b.minus(a).side_of(0.0) < 0 for a, b in itertools.pairwise(gains))
    whole = gains[-1].minus(gains[0]).side_of(0.0)
    held = False if back or whole < 0 else (True if whole > 0 else None)
    return f"iDP-LS loses less by {words} (mean of cells)", held


def gap_proportional(rows: Rows, *, loss: str, room: float) -> Judged:
    """The share by which iDP-LS loses less is the same for both α."""
    at = cells_of(rows, loss)
    words, held = [], []
    for e in EPSILONS:
        narrow, wide = (
            _gain([(at["idp-ls", a, e, k], at["dp-um", a, e, k]) for k in _ks(at)]) for a in ALPHAS
        )
        words.append(f"ε = {e:g}: {_said(narrow)} and {_said(wide)}")
        held.append(wide.minus(narrow).near_zero(room))
    return f"iDP-LS loses less, α = 1.5 and 3: {'; '.join(words)}", every(held)


def smaller_domains(rows: Rows, *, loss: str, share: float) -> Judged:
    """The three domain-based methods lose less with α = 1.5 than with 3."""
    at = cells_of(rows, loss)
    words, tally = _by_epsilon({
        e: [
            (m, at[key[0], 3.0, e, key[3]])
            for key, m in at.items()
            if key[1:3] == (1.5, e) and key[0] != "idp-cbls"
            and (key[0] != "dp" or key[3] == _ks(at)[0])
        ]
        for e in EPSILONS
    })  # fmt: skip
    return f"α = 1.5 beside 3: {words}", tally.holds(share)


def _best(at: Cells, epsilon: float, methods: tuple[str, ...]) -> Measured:
    """The least loss of some methods at one ε."""
    own = [m for key, m in at.items() if key[0] in methods and key[2] == epsilon]
    return min(own, key=lambda m: m.value)


def _log10(ratio: Measured) -> Measured:
    """A ratio in orders of magnitude."""
    return Measured(value=math.log10(ratio.value), error=ratio.error / ratio.value / math.log(10))


def orders_of_magnitude(*others: str) -> object:
    """iDP-CBLS loses less than the others named by several orders of magnitude.

    The best of the others beside it for every (α, k), in the mean of the logarithms.
    """

    def judge(rows: Rows, *, loss: str, orders: float) -> Judged:
        at = cells_of(rows, loss)
        gains = []
        for e in EPSILONS:
            ratios = [
                min((at[m, a, e, k] for m in others), key=lambda m: m.value).over(
                    at["idp-cbls", a, e, k]
                )
                for a, k in itertools.product(ALPHAS, _ks(at))
            ]
            gains.append(mean([_log10(r) for r in ratios]))
        words = ", ".join(f"10^{g.value:.1f} at ε = {e:g}" for g, e in zip(
            gains, EPSILONS, strict=True))  # fmt: skip
        held = every(Measured(value=-g.value, error=g.error).at_most(-orders) for g in gains)
        return f"mean gain over α and k: {words}", held

    return judge


def hundred_times_epsilon(rows: Rows, *, loss: str, factor: float) -> Judged:
    """iDP-CBLS at ε = 0.01 and its best k loses what the others do at ε = 1 and the largest k."""
    at = cells_of(rows, loss)
    last = _ks(at)[-1]
    words, logs = [], []
    for alpha, method in itertools.product(ALPHAS, ("dp-um", "idp-ls")):
        own = {key: m for key, m in at.items() if key[1] == alpha}
        ratio = _best(own, 0.01, ("idp-cbls",)).over(at[method, alpha, 1.0, last])
        words.append(f"{ratio.value:.2g} times {NAMES[method]} (α = {alpha:g})")
        logs.append(_log10(ratio))
    limit = math.log10(factor)
    whole = mean(logs)
    return (
        f"the loss of iDP-CBLS is {', '.join(words)}; {10**whole.value:.2g} times in the mean of "
        "logarithms",
        whole.between(-limit, limit),
    )


def rivals_larger_epsilon(rows: Rows, *, loss: str, factor: float) -> Judged:
    """iDP-CBLS loses no more than DP and DP-UM do with 10 and 100 times its ε."""
    at = cells_of(rows, loss)
    words, held = [], []
    for own, other in ((0.01, 0.1), (0.1, 1.0), (0.01, 1.0)):
        ratio = _best(at, own, ("idp-cbls",)).over(_best(at, other, ("dp", "dp-um")))
        words.append(f"{ratio.value:.2g} times (ε = {own:g} against {other:g})")
        held.append(_log10(ratio).at_most(math.log10(factor)))
    return f"its least loss beside their least: {', '.join(words)}", every(held)


def domain_free(rows: Rows, *, loss: str, factor: float, share: float) -> Judged:
    """iDP-CBLS does not depend on the domain."""
    at = cells_of(rows, loss)
    pairs = [
        (at["idp-cbls", 3.0, e, k], at["idp-cbls", 1.5, e, k]) for e in EPSILONS for k in _ks(at)
    ]
    near = _near(pairs, factor)
    ratios = [a.value / b.value for a, b in pairs]
    return (
        f"α = 3 beside 1.5: {near.words('alike', 'within noise', 'not')} cells (within {factor:g} "
        f"times); their ratio in the median {np.median(ratios):.2f}",
        near.holds(share),
    )


def small_k_is_best(rows: Rows, *, loss: str, least: int, most: int) -> Judged:
    """iDP-CBLS is best for k from 5 to 15."""
    at = cells_of(rows, loss)
    words, held = [], []
    for epsilon in EPSILONS:
        line = {k: at["idp-cbls", 1.5, epsilon, k] for k in _ks(at)}
        best = min(line, key=lambda k: line[k].value)
        inside, outside = (
            min((k for k in line if (least <= k <= most) is inner), key=lambda k: line[k].value)
            for inner in (True, False)
        )
        times = line[inside].value / line[outside].value
        words.append(f"ε = {epsilon:g}: {best} (k = {inside} has {times:.2g} times k = {outside})")
        # the two compared were chosen among many
        held.append(line[inside].minus(line[outside]).below(0.0, EXTREME))
    return f"best k: {', '.join(words)}", every(held)


def large_k_costs(rows: Rows, *, loss: str, least: int, most: int, factor: float) -> Judged:
    """iDP-CBLS loses a little more with the largest k than with k from 5 to 15."""
    at = cells_of(rows, loss)
    last = _ks(at)[-1]
    words, held = [], []
    for epsilon in EPSILONS:
        small = mean([at["idp-cbls", 1.5, epsilon, k] for k in _ks(at) if least <= k <= most])
        large = at["idp-cbls", 1.5, epsilon, last]
        ratio = large.over(small)
        side = large.minus(small).side_of(0.0)
        told = {-1: "falls", 0: "within noise", 1: "rises"}[side]
        words.append(f"ε = {epsilon:g}: {ratio.value:.2g} times ({told})")
        held.append(None if side == 0 else side > 0 and ratio.value <= factor)
    return f"k = {last} beside k from {least} to {most}: {', '.join(words)}", every(held)
