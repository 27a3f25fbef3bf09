"""Every measure the audit knows: definition, range, meaning, label. The documentation's source.

``docs/reference/measures.md`` lists the same, by test. Measures of whether a promise holds stand
here.
"""

from __future__ import annotations

from sherd.auditing.catalogue.risk_measures import RISK
from sherd.auditing.catalogue.utility_measures import UTILITY
from sherd.auditing.verdict.measure import Label, Side, Spec

PROMISE: tuple[Spec, ...] = (
    Spec(
        code="epsilon-frozen",
        title="Measured ε, noise of the actual table",
        side=Side.PROMISE,
        definition="95 % lower bound of the privacy loss between a worst-case table and its worst "
        "neighbour, clusters recomputed, both with the noise scales of the first",
        range="0 to ∞",
        meaning="above the claim: the promise does not hold once clusters are recomputed",
        label=Label.PUBLISHABLE,
        needs=("run",),
    ),
    Spec(
        code="epsilon-recomputed",
        title="Measured ε, real runs",
        side=Side.PROMISE,
        definition="the same with the method really run on both tables, clusters and scales "
        "recomputed",
        range="0 to ∞",
        meaning="what an attacker who compares real runs can tell; the claim of differential "
        "privacy must bound it, individual differential privacy does not try to",
        label=Label.PUBLISHABLE,
        needs=("run",),
    ),
    Spec(
        code="loss-factor",
        title="Exact loss on this table",
        side=Side.PROMISE,
        definition="ε that the ordered centroids of this very table spend when the worst record "
        "changes and clusters are recomputed, under this table's noise",
        range="0 to ∞",
        meaning="above the claimed ε: the claim rests on taking the clusters as public",
        needs=("run",),
    ),
)

CATALOGUE: dict[str, Spec] = {spec.code: spec for spec in (*UTILITY, *RISK, *PROMISE)}
"""Every measure by its code, in the order of the report."""
