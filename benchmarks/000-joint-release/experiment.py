"""Del Vasto-Terrientes, Martínez, Sánchez: data releases over fragmented data (Figures 2 to 6).

Settings and tables are in ``fragmented``, claims and tolerances in ``expected.yaml``, judges in
``fragmented_claims``. Method iDP-IR is ``idp-ls`` with the paper's promise, plain iDP for k = 1;
DP-IR is ``dp-um``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import fragmented_claims as judges
from fragmented import centralised, grid, horizontal, vertical
from fragmented_claims import BASE, differences
from losses import READINGS as LOSSES
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


CLAIMS = (
    Claim(id="F2-pattern", figures=("2",), judge=judges.pattern, switches=("loss", "domain")),
    Claim(id="F3-pattern", figures=("3",), judge=judges.pattern, switches=("loss",)),
    Claim(id="IR-helps", figures=("2", "3"), judge=judges.ranking_helps, switches=("loss",)),
    Claim(id="k1-minimal", figures=("2", "3"), judge=judges.plain_idp, switches=("loss",)),
    Claim(id="F4-better", figures=("4",), judge=judges.local_wins, switches=("loss",)),
    Claim(id="F5-horizontal-small-k", figures=("5",), judge=judges.horizontal_small_k,
          switches=("loss", "order")),
    Claim(id="F5-horizontal-large-k", figures=("5",), judge=judges.horizontal_grows,
          switches=("loss", "order")),
    Claim(id="F5-local-order", figures=("5",), judge=judges.local_order_hurts, switches=("loss",)),
    Claim(id="F5-vertical", figures=("5",), judge=judges.vertical_equals,
          switches=("loss", "shares")),
    Claim(id="F5-vertical-k", figures=("5",), judge=judges.vertical_any_k,
          switches=("loss", "shares")),
    Claim(id="F6-alike", figures=("6",), judge=judges.wine_alike, switches=("loss", "shares")),
    Claim(id="F6-cream", figures=("6",), judge=judges.mostly_cream, switches=("loss", "shares")),
    Claim(id="F6-thousands", figures=("6",), judge=judges.thousands, switches=("loss",)),
    Claim(id="F6-below-300", figures=("6",), judge=judges.below_300, switches=("loss", "shares")),
    Claim(id="F6-close", figures=("6",), judge=judges.wine_close, switches=("loss", "shares")),
    Claim(id="C-similar", figures=("5", "6"), judge=judges.all_similar,
          switches=("loss", "order", "shares")),
)  # fmt: skip
