"""``dp``: Laplace noise on every value, at the width of its attribute's domain.

The plain mechanism of soria-comas2025, section 2, and its upper bound for information loss.
Neighbours differ in one substituted record, whose cell in attribute a moves by at most R;
noise of scale R/ε_a makes that cell ε_a-differentially private, other rows do not change, and
attributes compose sequentially. Departs from the paper in drawing discrete noise on a public
grid, which is exact, where floating-point Laplace noise leaks through its low bits.
"""

from __future__ import annotations

from sherd.guarantees import DifferentialPrivacy, Proposition
from sherd.methods.ranking.masking import Masking, plain_sums, whole_width
from sherd.methods.ranking.ranking_promise import Promise

METHOD = Masking(
    name="dp",
    title="Differential privacy by noise on every value",
    summary="Adds noise to every value, as wide as its attribute's domain requires. Safe and, "
    "at a small epsilon, nearly random.",
    least_k=0,
    promises={
        "paper": Promise(
            help="differential privacy of every record",
            notion=lambda epsilon: DifferentialPrivacy(epsilon=epsilon),
            covers="every released value of every protected attribute",
            source=Proposition(work="soria-comas2025", place="section 2; dwork2006"),
        ),
    },
    default_promise="paper",
    centre="value",
    reach="domain",
    sums=plain_sums,
    sensitivity=whole_width,
)
