"""How the claims of paper 000 are judged.

Rows are cells: a dataset, scenario, method and domain at one (ε, k), with its mean loss in every
reading and the standard error of it. Cells of k = 1, plain iDP, count only where it is spoken of.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from compared import EXTREME, Measured, Tally, every, mean
from losses import error_of

if TYPE_CHECKING:
    from reproduction import Rows

BASE = "centralised"
WIDE = "[0, 2·max]"
Judged = tuple[str, bool | None]


def measured(row: dict[str, Any], loss: str) -> Measured:
    """A cell's loss in one reading."""
    return Measured(value=row[loss], error=row[error_of(loss)])


def beside(rows: Rows, key: str, base: str, loss: str) -> list[tuple[Any, Measured, Measured]]:
    """Every cell, its loss, and that of the base with the same data, ε and k."""
    at = {(r["data"], r["epsilon"], r["k"]): measured(r, loss) for r in rows if r[key] == base}
    return [
        (r, measured(r, loss), at[r["data"], r["epsilon"], r["k"]]) for r in rows if r[key] != base
    ]


def differences(rows: Rows, key: str, base: str, loss: str) -> Rows:
    """Every cell minus the base's, to be drawn."""
    return [{**row, "difference": a.minus(b).value} for row, a, b in beside(rows, key, base, loss)]


def _steps(rows: Rows, along: str, across: str, loss: str) -> tuple[Tally, float]:
    """Steps along an axis by whether the loss falls, and the largest rise that is told."""
    pairs = []
    for fixed in sorted({r[across] for r in rows}):
        line = sorted((r for r in rows if r[across] == fixed), key=lambda r: r[along])
        pairs += [(measured(b, loss), measured(a, loss)) for a, b in itertools.pairwise(line)]
    rises = [b.value / a.value - 1 for b, a in pairs if b.minus(a).side_of(0.0) > 0]
    return Tally.of(pairs), max(rises, default=0.0)


def pattern(rows: Rows, *, loss: str, falls: float, rises: float, domain: str = WIDE) -> Judged:
    """Loss falls with ε, and with k, over the whole grid."""
    own = [r for r in rows if r["domain"] == domain]
    words, held = [], []
    for name, tally, rise in (
        ("ε", *_steps(own, "epsilon", "k", loss)),
        ("k", *_steps([r for r in own if r["k"] > 1], "k", "epsilon", loss)),
    ):
        most = f" (by up to {rise:.0%})" if tally.higher else ""
        words.append(f"a step up in {name}: {tally.words()}{most}")
        held.append(tally.holds(falls, against=rises))
    return "; ".join(words), every(held)


def ranking_helps(adult: Rows, wine: Rows, *, loss: str, share: float) -> Judged:
    """Clusters lose less than single values (k = 1), for every ε and k."""
    pairs = []
    for rows in ([r for r in adult if r["domain"] == WIDE], wine):
        plain = {r["epsilon"]: measured(r, loss) for r in rows if r["k"] == 1}
        pairs += [(measured(r, loss), plain[r["epsilon"]]) for r in rows if r["k"] > 1]
    ratios = [a.value / b.value for a, b in pairs]
    tally = Tally.of(pairs)
    return (
        f"{tally.words()} cells; {np.median(ratios):.0%} of plain iDP's loss in the median, "
        f"{min(ratios):.2%} at best",
        tally.holds(share),
    )


def plain_idp(adult: Rows, wine: Rows, *, loss: str, fall: float) -> Judged:
    """At k = 1 the loss barely falls from ε = 0.1 to 1."""
    ratios = []
    for rows in (adult, wine):
        own = {r["epsilon"]: r for r in rows if r["k"] == 1 and r["domain"] == WIDE}
        ratios.append(measured(own[1.0], loss).over(measured(own[0.1], loss)))
    falls = [Measured(value=1 - r.value, error=r.error) for r in ratios]
    return (
        f"from ε = 0.1 to 1 it falls by {falls[0].value:.1%} (Adult) and {falls[1].value:.1%} "
        "(wine)",
        every(f.at_most(fall) for f in falls),
    )


def local_wins(rows: Rows, *, loss: str, share: float) -> Judged:
    """iDP-IR loses less than DP-IR for every (ε, k)."""
    pairs = [(a, b) for r, a, b in beside(rows, "method", "dp-um", loss) if r["k"] > 1]
    gain = np.median([1 - a.value / b.value for a, b in pairs])
    tally = Tally.of(pairs)
    return (
        f"{tally.words()} cells; median gain {gain:.1%} of DP-IR's loss",
        tally.holds(share),
    )


def _cells(rows: Rows, scenario: str, loss: str) -> list[tuple[Any, Measured, Measured]]:
    """One scenario beside the baseline, clustered cells only."""
    return [
        (r, a, b)
        for r, a, b in beside(rows, "scenario", BASE, loss)
        if r["scenario"] == scenario and r["k"] > 1
    ]


def _relative(cells: list[tuple[Any, Measured, Measured]]) -> list[Measured]:
    """Differences to the baseline as shares of it."""
    ratios = [a.over(b) for _, a, b in cells]
    return [Measured(value=r.value - 1, error=r.error) for r in ratios]


def _said(share: Measured) -> str:
    return f"{share.value:+.1%} ± {2 * share.error:.1%}"


SMALL_K = 250
"""The paper's low k of Adult end here."""


def _by_k(rows: Rows, loss: str, order: str) -> tuple[list[Measured], list[Measured]]:
    """Relative differences of horizontal cells for small and for large k.

    Where ε is 0.5 or more: below, noise is so large that clusters, and who makes them, do not show.
    """
    cells = [c for c in _cells(rows, f"horizontal, {order}", loss) if c[0]["epsilon"] >= 0.5]
    small = _relative([c for c in cells if c[0]["k"] <= SMALL_K])
    large = _relative([c for c in cells if c[0]["k"] > SMALL_K])
    return small, large


def horizontal_small_k(rows: Rows, *, loss: str, order: str, share: float) -> Judged:
    """Adult, k from 50 to 250: horizontal differs little from centralised, less than above."""
    small, large = _by_k(rows, loss, order)
    most = max(m.value for m in small)
    overall = mean(small)
    size = Measured(value=abs(overall.value), error=overall.error)
    return (
        f"mean difference at ε ≥ 0.5 {_said(overall)} of the baseline (up to {most:+.0%} in a "
        f"cell), and {_said(mean(large))} for larger k",
        every((size.at_most(share), mean(small).minus(mean(large)).below(0.0))),
    )


def horizontal_grows(rows: Rows, *, loss: str, order: str) -> Judged:
    """Adult: for larger k horizontal loses more, and more than for small k."""
    small, large = (mean(part) for part in _by_k(rows, loss, order))
    return (
        f"mean difference at ε ≥ 0.5 {_said(large)} of the baseline for k > {SMALL_K}, "
        f"{_said(small)} below",
        every((Measured(value=0.0).minus(large).below(0.0), small.minus(large).below(0.0))),
    )


def local_order_hurts(rows: Rows, *, loss: str) -> Judged:
    """Orders by each owner's own frequencies differ more from the baseline than an agreed one."""
    found = []
    for order in ("local", "agreed"):
        small, large = _by_k(rows, loss, f"{order} order")
        found.append(mean([*small, *large]))
    local, agreed = found
    return (
        f"mean difference at ε ≥ 0.5 {_said(local)} of the baseline with local orders, "
        f"{_said(agreed)} with an agreed one",
        # four errors, as those of few runs are themselves uncertain and the gap is a small one
        agreed.minus(local).below(0.0, EXTREME),
    )


def vertical_equals(rows: Rows, *, loss: str, shares: str, difference: float) -> Judged:
    """Vertical differs from centralised by about 0.04 at the most."""
    gaps = [a.minus(b) for _, a, b in _cells(rows, f"vertical, {shares}", loss)]
    largest = max(abs(g.value) for g in gaps)
    surely = max(max(0.0, abs(g.value) - EXTREME * g.error) for g in gaps)
    held = True if largest <= difference else (False if surely > difference else None)
    return f"largest difference {largest:.3g}, {surely:.2g} of it beyond the noise", held


def vertical_any_k(rows: Rows, *, loss: str, shares: str, share: float) -> Judged:
    """How far vertical is from centralised does not depend on k."""
    cells = _cells(rows, f"vertical, {shares}", loss)
    ks = sorted({r["k"] for r, _, _ in cells})
    means = [mean(_relative([c for c in cells if c[0]["k"] == k])) for k in ks]
    low, high = (choose(means, key=lambda m: m.value) for choose in (min, max))
    span = high.minus(low)
    told = ", ".join(f"{m.value:+.1%} at {k}" for m, k in zip(means, ks, strict=True))
    return (
        f"mean difference in per cent of the baseline by k: {told} (± {2 * span.error:.1%})",
        span.near_zero(share),
    )


def thousands(rows: Rows, *, loss: str, least: float, most: float) -> Judged:
    """Wine at ε = 0.01 and 0.1: losses in the thousands."""
    cells = [r[loss] for r in rows if r["scenario"] == BASE and r["epsilon"] <= 0.1 and r["k"] > 1]
    middle = float(np.median(cells))
    return (
        f"{min(cells):.3g} to {max(cells):.3g}, median {middle:.3g}",
        least <= middle < most,
    )


def _wine(rows: Rows, loss: str, shares: str) -> dict[str, list[tuple[Any, Measured, Measured]]]:
    """Both fragmentations of wine; it has no categories, so that their order is no matter."""
    names = ("horizontal, local order", f"vertical, {shares}")
    return {name.partition(",")[0]: _cells(rows, name, loss) for name in names}


def below_300(rows: Rows, *, loss: str, shares: str, difference: float) -> Judged:
    """Wine at ε = 0.01 and 0.1: differences below 300 where losses are in the thousands."""
    words, largest, base = [], 0.0, 0.0
    for scenario, every_cell in _wine(rows, loss, shares).items():
        cells = [(a, b) for r, a, b in every_cell if r["epsilon"] <= 0.1]
        worst = max(a.minus(b).value for a, b in cells)
        words.append(f"{scenario} {worst:.3g}")
        largest = max(largest, worst)
        base = max(base, *(b.value for _, b in cells))
    return (
        f"largest difference, {', '.join(words)}; largest loss {base:.3g}",
        largest < difference <= base,
    )


def mostly_cream(rows: Rows, *, loss: str, shares: str, seen: float) -> Judged:
    """Wine: in most cells fragmented is as good as centralised, or better.

    Runs too few to see a difference of a share ``seen`` of the baseline say nothing of equality.
    """
    words, held = [], []
    for scenario, cells in _wine(rows, loss, shares).items():
        tally = Tally.of((a, b) for _, a, b in cells)
        noise = float(np.median([2 * r.error for r in _relative(cells)]))
        words.append(f"{scenario}: {tally.words(higher='above')} (noise {noise:.0%})")
        red = tally.higher > tally.cells / 2
        held.append(False if red else (True if noise <= seen else None))
    return "; ".join(words), every(held)


def wine_close(rows: Rows, *, loss: str, shares: str, share: float) -> Judged:
    """Wine at ε = 0.5 and 1: fragmented is as good as centralised, relative to the loss."""
    words, held = [], []
    for scenario, cells in _wine(rows, loss, shares).items():
        found = mean(_relative([c for c in cells if c[0]["epsilon"] in (0.5, 1.0)]))
        words.append(f"{scenario} {_said(found)}")
        held.append(found.between(-share, share))
    return f"mean difference in per cent of the baseline: {', '.join(words)}", every(held)


def wine_alike(rows: Rows, *, loss: str, shares: str, share: float) -> Judged:
    """Wine: both fragmentations differ alike from centralised."""
    means = {name: mean(_relative(cells)) for name, cells in _wine(rows, loss, shares).items()}
    words = ", ".join(f"{name} {_said(found)}" for name, found in means.items())
    gap = means["horizontal"].minus(means["vertical"])
    return (
        f"mean difference in per cent of the baseline: {words}",
        gap.between(-share, share),
    )


def all_similar(
    adult: Rows, wine: Rows, *, loss: str, order: str, shares: str, share: float, cells: float
) -> Judged:
    """Fragmented loses as much as centralised, cell by cell, on both datasets."""
    words, held = [], []
    for name, rows in (("Adult", adult), ("wine", wine)):
        for scenario in (f"horizontal, {order}", f"vertical, {shares}"):
            found = [m.between(-share, share) for m in _relative(_cells(rows, scenario, loss))]
            tally = Tally(
                lower=found.count(True), within=found.count(None), higher=found.count(False)
            )
            words.append(
                f"{name}, {scenario.partition(',')[0]}: {tally.words('similar', 'untold', 'not')}"
            )
            held.append(tally.holds(cells))
    return "; ".join(words), every(held)
