"""Del Vasto-Terrientes, Martínez, Sánchez: data releases over fragmented data (Figures 2 to 6).

Settings and tables are in ``fragmented``, claims and tolerances in ``expected.yaml``. Method iDP-IR
is ``idp-ls`` with the paper's promise, plain iDP for k = 1; DP-IR is ``dp-um``.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from fragmented import centralised, grid, horizontal, vertical
from losses import READINGS as LOSSES
from losses import error_of
from plots import heat_maps
from reproduction import Claim, Figure, Rows, Setting

TITLE = "Privacy- & utility-preserving data releases over fragmented data using individual DP"
ABOUT = (
    "Del Vasto-Terrientes, Martínez and Sánchez, ICISSP 2025. Information loss of iDP-IR over "
    "epsilon and k: centralised, against plain iDP and DP-IR, horizontally and vertically "
    "fragmented."
)
READINGS = {
    "loss": LOSSES,
    "domain": ("[0, 2·max]", "[0, 1·max]"),
    "order": ("local order", "agreed order"),
    "shares": ("equal", "by attributes"),
}
READINGS_ABOUT = {
    "loss": "The paper divides a distance by the variance and puts 1/l before the root; by its "
    "words the distance is an average and its numbers are those of a division by σ.",
    "domain": "The paper names [0, 2·max] for wine and is silent on Adult.",
    "order": "Categories are sorted by frequency, by each owner for itself (as the paper says of "
    "Adult) or by agreement (as our protocol does).",
    "shares": "Of ε an owner of columns gets 1/m, as printed, or in proportion to its attributes, "
    "as our protocol does.",
}
BASE = "centralised"


def figure_2(setting: Setting) -> Rows:
    """Adult, centralised, with both readings of its domains."""
    wide = grid("adult", "idp-ls", centralised, setting, BASE)
    return wide + grid("adult", "idp-ls", centralised, setting, BASE, domain=1.0)


def figure_3(setting: Setting) -> Rows:
    """Wine, centralised."""
    return grid("wine", "idp-ls", centralised, setting, BASE)


def figure_4(setting: Setting) -> Rows:
    """DP-IR beside iDP-IR, both datasets."""
    return [
        row
        for name in ("adult", "wine")
        for method in ("idp-ls", "dp-um")
        for row in grid(name, method, centralised, setting, BASE)
    ]


def fragmented(name: str, setting: Setting) -> Rows:
    """Every fragmentation, in every reading, and the baseline of the same run."""
    return [
        *grid(name, "idp-ls", centralised, setting, BASE),
        *grid(name, "idp-ls", horizontal(local=True), setting, "horizontal, local order"),
        *grid(name, "idp-ls", horizontal(local=False), setting, "horizontal, agreed order"),
        *grid(name, "idp-ls", vertical(by_attributes=False), setting, "vertical, equal"),
        *grid(name, "idp-ls", vertical(by_attributes=True), setting, "vertical, by attributes"),
    ]


def differences(rows: Rows, key: str, base: str, loss: str) -> Rows:
    """Every cell minus the cell of the base with the same data, ε and k."""
    at = {(r["data"], r["epsilon"], r["k"]): r for r in rows if r[key] == base}
    found = []
    for row in rows:
        if row[key] != base:
            other = at[row["data"], row["epsilon"], row["k"]]
            error = float(np.hypot(row[error_of(loss)], other[error_of(loss)]))
            gap = row[loss] - other[loss]
            found.append({**row, "difference": gap, "base": other[loss], "error": error})
    return found


def _mean_sse(rows: Rows, loss: str) -> Any:
    return heat_maps(rows, loss, "domain", "mean SSE")


def _against_dp(rows: Rows, loss: str) -> Any:
    cells = differences(rows, "method", "dp-um", loss)
    return heat_maps(cells, "difference", "data", "iDP-IR minus DP-IR")


def _against_base(rows: Rows, loss: str) -> Any:
    cells = differences(rows, "scenario", BASE, loss)
    # as in the paper: what is below the baseline is drawn as 0
    clipped = [{**r, "difference": max(0.0, r["difference"])} for r in cells]
    return heat_maps(clipped, "difference", "scenario", "mean SSE above the centralised one")


FIGURES = (
    Figure(number="2", title="Adult, iDP-IR, centralised: mean SSE", compute=figure_2,
           draw=_mean_sse, switches=("loss",)),
    Figure(number="3", title="Wine Quality, iDP-IR, centralised: mean SSE", compute=figure_3,
           draw=_mean_sse, switches=("loss",)),
    Figure(number="4", title="iDP-IR minus DP-IR", compute=figure_4, draw=_against_dp,
           switches=("loss",), readings="Below 0 (blue), iDP-IR loses less."),
    Figure(number="5", title="Adult, fragmented minus centralised",
           compute=lambda s: fragmented("adult", s), draw=_against_base, switches=("loss",),
           readings="As in the paper, differences below 0 are drawn as 0; the tables keep them."),
    Figure(number="6", title="Wine Quality, fragmented minus centralised",
           compute=lambda s: fragmented("wine", s), draw=_against_base, switches=("loss",),
           readings="As in the paper, differences below 0 are drawn as 0; the tables keep them."),
)  # fmt: skip


def _falls(rows: Rows, along: str, across: str, loss: str) -> tuple[int, int, float]:
    """In how many steps along an axis the loss falls, of how many, and the largest rise."""
    falls = steps = 0
    rise = 0.0
    for fixed in sorted({r[across] for r in rows}):
        line = sorted((r for r in rows if r[across] == fixed), key=lambda r: r[along])
        for a, b in itertools.pairwise(line):
            steps += 1
            # A rise within two standard errors of the runs counts as no change.
            noise = 2 * np.hypot(a[error_of(loss)], b[error_of(loss)])
            falls += b[loss] <= a[loss] + noise
            rise = max(rise, b[loss] / a[loss] - 1)
    return falls, steps, rise


def pattern(rows: Rows, *, loss: str, domain: str = "[0, 2·max]") -> tuple[str, bool | None]:
    """Loss falls with ε, and with k, over the whole grid."""
    own = [r for r in rows if r["domain"] == domain]
    by_epsilon = _falls(own, "epsilon", "k", loss)
    by_k = _falls([r for r in own if r["k"] > 1], "k", "epsilon", loss)
    return (
        f"falls with ε in {by_epsilon[0]} of {by_epsilon[1]} steps and with k in {by_k[0]} of "
        f"{by_k[1]} (largest rise with k: {by_k[2]:.0%})",
        by_epsilon[0] == by_epsilon[1] and by_k[0] == by_k[1],
    )


def ranking_helps(adult: Rows, wine: Rows, *, loss: str) -> tuple[str, bool | None]:
    """Clusters lose less than single values (k = 1), for every ε and k."""
    cells, good, ratios = 0, 0, []
    for rows in ([r for r in adult if r["domain"] == "[0, 2·max]"], wine):
        plain = {r["epsilon"]: r[loss] for r in rows if r["k"] == 1}
        for r in rows:
            if r["k"] > 1:
                cells += 1
                good += r[loss] < plain[r["epsilon"]]
                ratios.append(r[loss] / plain[r["epsilon"]])
    return (
        f"less in {good} of {cells} cells; {np.median(ratios):.0%} of plain iDP's loss in the "
        f"median, {min(ratios):.2%} at best",
        good == cells,
    )


def plain_idp(adult: Rows, wine: Rows, *, loss: str, fall: float) -> tuple[str, bool | None]:
    """At k = 1 the loss barely falls from ε = 0.1 to 1."""
    falls = []
    for rows in (adult, wine):
        own = {r["epsilon"]: r[loss] for r in rows if r["k"] == 1 and r["domain"] == "[0, 2·max]"}
        falls.append(1 - own[1.0] / own[0.1])
    return (
        f"from ε = 0.1 to 1 it falls by {falls[0]:.1%} (Adult) and {falls[1]:.1%} (wine)",
        max(falls) < fall,
    )


def local_wins(rows: Rows, *, loss: str) -> tuple[str, bool | None]:
    """iDP-IR loses less than DP-IR for every (ε, k)."""
    cells = [r for r in differences(rows, "method", "dp-um", loss) if r["k"] > 1]
    wins = sum(r["difference"] < 2 * r["error"] for r in cells)
    gain = np.median([-r["difference"] / r["base"] for r in cells])
    return (
        f"not worse in {wins} of {len(cells)} cells, median gain {gain:.1%} of DP-IR's loss",
        wins == len(cells),
    )


def _cells(rows: Rows, scenario: str, loss: str) -> Rows:
    """The differences of one scenario to the baseline, clustered cells only."""
    return [
        r
        for r in differences(rows, "scenario", BASE, loss)
        if r["scenario"] == scenario and r["k"] > 1
    ]


def _beyond_noise(cells: Rows) -> float:
    """The largest difference that four standard errors do not explain.

    Four, not two: it is the largest of many cells, and errors of few runs are themselves uncertain.
    """
    return max(max(0.0, abs(r["difference"]) - 4 * r["error"]) for r in cells)


def _mean(cells: Rows) -> tuple[float, float]:
    """Mean difference and its standard error."""
    errors = [r["error"] for r in cells]
    return (
        float(np.mean([r["difference"] for r in cells])),
        float(np.sqrt(np.sum(np.square(errors))) / len(cells)),
    )


def horizontal_small_k(
    rows: Rows, *, loss: str, order: str, difference: float
) -> tuple[str, bool | None]:
    """Adult, k from 50 to 250: horizontal differs little from centralised."""
    cells = [r for r in _cells(rows, f"horizontal, {order}", loss) if r["k"] <= 250]
    largest = _beyond_noise(cells)
    share = max(abs(r["difference"]) / r["base"] for r in cells if r["epsilon"] >= 0.5)
    return (
        f"largest difference beyond the noise of the runs {largest:.3g}; at ε ≥ 0.5 up to "
        f"{share:.0%} of the baseline",
        largest < difference,
    )


def horizontal_grows(rows: Rows, *, loss: str, order: str) -> tuple[str, bool | None]:
    """Adult: for larger k horizontal loses more than for small k."""
    cells = [r for r in _cells(rows, f"horizontal, {order}", loss) if r["epsilon"] >= 0.5]
    small, small_error = _mean([r for r in cells if r["k"] <= 250])
    large, large_error = _mean([r for r in cells if r["k"] > 250])
    room = 2 * np.hypot(small_error, large_error)
    words = f"mean difference {small:.4g} for k ≤ 250, {large:.4g} above (ε ≥ 0.5, ± {room:.2g})"
    return words, None if abs(large - small) < room else bool(large > small)


def local_order_hurts(rows: Rows, *, loss: str) -> tuple[str, bool | None]:
    """Orders by each owner's own frequencies lose more than an agreed one."""
    found = {}
    for order in ("local", "agreed"):
        cells = [r for r in _cells(rows, f"horizontal, {order} order", loss) if r["epsilon"] >= 0.5]
        found[order] = _mean(cells)
    gap = found["local"][0] - found["agreed"][0]
    room = 2 * np.hypot(found["local"][1], found["agreed"][1])
    words = (
        f"mean difference {found['local'][0]:.4g} with local orders, {found['agreed'][0]:.4g} "
        f"with an agreed one (ε ≥ 0.5, ± {room:.2g})"
    )
    return words, None if abs(gap) < room else bool(gap > 0)


def vertical_equals(
    rows: Rows, *, loss: str, shares: str, difference: float
) -> tuple[str, bool | None]:
    """Vertical differs from centralised by about 0.04 at the most."""
    cells = _cells(rows, f"vertical, {shares}", loss)
    largest = max(abs(r["difference"]) for r in cells)
    beyond = _beyond_noise(cells)
    return (
        f"largest difference {largest:.3g}, {beyond:.3g} beyond the noise of the runs",
        beyond <= difference,
    )


def thousands(rows: Rows, *, loss: str, least: float, most: float) -> tuple[str, bool | None]:
    """Wine at ε = 0.01 and 0.1: losses in the thousands."""
    cells = [r[loss] for r in rows if r["scenario"] == BASE and r["epsilon"] <= 0.1 and r["k"] > 1]
    middle = float(np.median(cells))
    return (
        f"{min(cells):.3g} to {max(cells):.3g}, median {middle:.3g}",
        least <= middle < most,
    )


def below_300(rows: Rows, *, loss: str, shares: str, difference: float) -> tuple[str, bool | None]:
    """Wine at ε = 0.01 and 0.1: differences below 300 where losses are in the thousands."""
    words, largest, base = [], 0.0, 0.0
    for scenario in ("horizontal, local order", f"vertical, {shares}"):
        cells = [r for r in _cells(rows, scenario, loss) if r["epsilon"] <= 0.1]
        worst = max(cells, key=lambda r: r["difference"])
        words.append(f"{scenario}: {worst['difference']:.3g}")
        largest = max(largest, worst["difference"])
        base = max(base, *(r["base"] for r in cells))
    return (
        f"largest difference, {', '.join(words)}; largest loss {base:.3g}",
        largest < difference <= base,
    )


def wine_close(rows: Rows, *, loss: str, shares: str, share: float) -> tuple[str, bool | None]:
    """Wine: fragmented is as good as centralised, relative to the loss."""
    found = {}
    for scenario in ("horizontal, local order", f"vertical, {shares}"):
        cells = _cells(rows, scenario, loss)
        found[scenario] = float(np.median([r["difference"] / r["base"] for r in cells]))
    words = ", ".join(f"{s}: {v:+.1%}" for s, v in found.items())
    return f"median difference in per cent of the baseline: {words}", max(found.values()) < share


CLAIMS = (
    Claim(id="F2-pattern", figures=("2",), judge=pattern, switches=("loss", "domain")),
    Claim(id="F3-pattern", figures=("3",), judge=pattern, switches=("loss",)),
    Claim(id="IR-helps", figures=("2", "3"), judge=ranking_helps, switches=("loss",)),
    Claim(id="k1-minimal", figures=("2", "3"), judge=plain_idp, switches=("loss",)),
    Claim(id="F4-better", figures=("4",), judge=local_wins, switches=("loss",)),
    Claim(id="F5-horizontal-small-k", figures=("5",), judge=horizontal_small_k,
          switches=("loss", "order")),
    Claim(id="F5-horizontal-large-k", figures=("5",), judge=horizontal_grows,
          switches=("loss", "order")),
    Claim(id="F5-local-order", figures=("5",), judge=local_order_hurts, switches=("loss",)),
    Claim(id="F5-vertical", figures=("5",), judge=vertical_equals, switches=("loss", "shares")),
    Claim(id="F6-thousands", figures=("6",), judge=thousands, switches=("loss",)),
    Claim(id="F6-below-300", figures=("6",), judge=below_300, switches=("loss", "shares")),
    Claim(id="F6-close", figures=("6",), judge=wine_close, switches=("loss", "shares")),
)  # fmt: skip
