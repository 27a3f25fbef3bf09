"""Soria-Comas et al.: privacy and utility by iDP and microaggregation (Figures 3 to 6).

Settings and tables are in ``masked``, claims and tolerances in ``expected.yaml``, judges in
``loss_claims`` and ``forest_claims``. What the paper leaves open: whether the class attribute is
masked too and the distance (switches), and the forest's settings (here: scikit-learn's defaults,
100 trees).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import forest_claims as forests
import loss_claims as sse
from losses import READINGS as LOSSES
from masked import KEPT, MASKED, classification, losses
from plots import curves
from reproduction import Claim, Figure, Rows

TITLE = "Conciliating privacy and utility in data releases via individual DP and microaggregation"
ABOUT = (
    "Soria-Comas, Sánchez, Domingo-Ferrer, Martínez and Del Vasto-Terrientes, Transactions on Data "
    "Privacy 18 (2025). Information loss and classification of DP, DP-UM, iDP-LS and iDP-CBLS."
)
READINGS = {"loss": LOSSES, "classes": (KEPT, MASKED)}
READINGS_ABOUT = {
    "loss": "The paper divides a distance by the variance and puts 1/m before the root; both are "
    "printed so, but with attributes in dollars a division by the variance makes all losses tiny.",
    "classes": "Forests are trained on “masked records”; the lists of masked attributes leave out "
    "those that make the classes. Masked, they are one more attribute, put into classes afterwards "
    "(computed for α = 1.5 only).",
}


def _lines(rows: Rows, loss: str) -> Any:
    return curves(rows, "k", loss, "line", "panel", label="mean SSE")


def _forests(rows: Rows, classes: str) -> Any:
    own = [row for row in rows if row["classes"] == classes]
    bounds = [
        {**row, "line": "original training data", "F-measure": row["original"]} for row in own
    ]
    return curves([*own, *bounds], "k", "F-measure", "line", "panel", log=False, across=2)


FIGURES = (
    Figure(number="3", title="Census: mean SSE", compute=lambda s: losses("census", s),
           draw=_lines, switches=("loss",)),
    Figure(number="4", title="White wine: mean SSE", compute=lambda s: losses("wine", s),
           draw=_lines, switches=("loss",)),
    Figure(number="5", title="Census: F-measures", compute=lambda s: classification("census", s),
           draw=_forests, switches=("classes",)),
    Figure(number="6", title="White wine: F-measures",
           compute=lambda s: classification("wine", s), draw=_forests, switches=("classes",)),
)  # fmt: skip


def _on(figures: str, switch: str, **judges: Any) -> list[Claim]:
    """The same claims about several figures; a judge's name with dashes is the claim's."""
    return [
        Claim(id=f"F{n}-{name.replace('_', '-')}", figures=(n,), judge=judge, switches=(switch,))
        for name, judge in judges.items()
        for n in figures
    ]


CLAIMS = (
    *_on("34", "loss", dp=sse.dp_is_random, similar=sse.ls_like_um, k=sse.falls_with_k,
         ls=sse.ls_below_um, ls_epsilon=sse.gap_grows, ls_alpha=sse.gap_proportional,
         alpha=sse.smaller_domains, cbls=sse.orders_of_magnitude("dp", "dp-um", "idp-ls"),
         cbls_epsilon=sse.hundred_times_epsilon, cbls_alpha=sse.domain_free,
         cbls_k=sse.small_k_is_best, cbls_large_k=sse.large_k_costs,
         cbls_dp=sse.orders_of_magnitude("dp"), cbls_rivals=sse.rivals_larger_epsilon),
    *(Claim(id=f"F{n}-records", figures=(n,), judge=forests.counted) for n in "56"),
    *_on("5", "classes", ls=forests.gap_around("idp-ls")),
    *_on("56", "classes", ls_k=forests.grows_with_k, ls_alpha=forests.narrow_is_better,
         ls_stable=forests.stable_from, cbls_better=forests.cbls_above_ls),
    *_on("5", "classes", cbls=forests.gap_at_most("idp-cbls"),
         cbls_ls=forests.tenth_of_epsilon),
    *_on("56", "classes", cbls_k=forests.large_k_hurts),
    Claim(id="F6-times", figures=("6",), judge=forests.times_more),
    *_on("6", "classes", rare=forests.rare_is_harder, cbls=forests.reaches_and_improves),
)  # fmt: skip
