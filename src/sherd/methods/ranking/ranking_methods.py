"""The five ranking methods: what each says of itself, and what it sums, promises and adds noise to.

They are values of one class, `Masking`. They differ in which sum is taken of a cluster, in how
far a record can move it, and in what re-clustering adds to that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sherd.guarantees import Assumption, DifferentialPrivacy, IndividualDP, Proposition
from sherd.methods.ranking.masking import Masking, plain_sums, whole_width
from sherd.methods.ranking.ranking_promise import Promise
from sherd.methods.ranking.sensitivity import (
    cluster_based,
    local,
    shifts_of_means,
    shifts_of_trimmed,
    trimmed,
)
from sherd.release.traits import Suggestion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sherd.methods.ranking.individual_ranking import Clusters
    from sherd.methods.ranking.sensitivity import Shifts

DP = Masking(
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
"""``dp``: Laplace noise on every value, at the width of its attribute's domain.

The plain mechanism of soria-comas2025, section 2, and its upper bound for information loss.
Neighbours differ in one substituted record, whose cell in attribute a moves by at most R;
noise of scale R/ε_a makes that cell ε_a-differentially private, other rows do not change, and
attributes compose sequentially. Departs from the paper in drawing discrete noise on a public
grid, which is exact, where floating-point Laplace noise leaks through its low bits.
"""

IDP = Masking(
    name="idp",
    title="Individual differential privacy by noise on every value",
    summary="Adds noise to every value, as wide as the farthest end of the domain is from it. "
    "Down to half the noise of dp, for a weaker promise.",
    least_k=0,
    promises={
        "paper": Promise(
            help="individual differential privacy of every record",
            notion=lambda epsilon: IndividualDP(epsilon=epsilon),
            covers="every released value of every protected attribute, under the noise of the "
            "actual table",
            source=Proposition(work="delvasto2025", place="sections 3.2 and 5.1.1"),
            assumes=(Assumption.FROZEN_SCALE,),
        ),
    },
    default_promise="paper",
    centre="value",
    reach="local",
    sums=plain_sums,
    sensitivity=local,
)
"""``idp``: Laplace noise on every value, at the farthest distance the value itself can move.

The k = 1 case of delvasto2025: the local sensitivity of a value x is max(hi − x, x − lo),
so the noise is at most that of ``dp`` and at least half of it. Individual differential
privacy (Definition 5 of soria-comas2025): the scale is taken as that of the actual table.
"""

DP_UM = Masking(
    name="dp-um",
    title="Differential privacy by univariate microaggregation (DP-IR)",
    summary="Replaces values by noisy means of k neighbours in rank. The noise shrinks with k; "
    "in its strict form the only one of the five that is differential privacy as released.",
    least_k=1,
    promises={
        "paper": Promise(
            help="differential privacy of the centroids, put back into rows",
            notion=lambda epsilon: DifferentialPrivacy(epsilon=epsilon),
            covers="the ordered centroids of each attribute, clusters recomputed; not which rows "
            "they stand in",
            source=Proposition(work="soria-comas2025", place="section 3.1"),
            assumes=(Assumption.ROW_STRUCTURE_RELEASED,),
        ),
        "strict": Promise(
            help="differential privacy of all that is released: the ordered centroids, no rows",
            notion=lambda epsilon: DifferentialPrivacy(epsilon=epsilon),
            covers="everything that is released, which is the ordered centroids of each attribute, "
            "and refusal as an outcome: no value of a record decides whether a run is refused",
            source=Proposition(work="sherd", place="docs/methods/dp-um, telescoping argument"),
            not_covered=("anything about how attributes go together: no rows are released",),
            rows=False,
        ),
    },
    default_promise="paper",
    centre="mean",
    reach="domain",
    sums=plain_sums,
    sensitivity=whole_width,
    shifts=shifts_of_means,
    suggestion=Suggestion(
        place=2,
        gives="no records, only how each attribute is distributed; "
        "differential privacy of everything released",
        all_differential=True,
        settings={"epsilon": 1.0, "k": 10, "guarantee": "strict"},
    ),
)
"""``dp-um`` (DP-IR): cluster means with noise at the domain's width over the cluster's size.

Section 3.1 of soria-comas2025, DP-IR in delvasto2025. The papers argue by parallel
composition, which does not apply, since clusters are made from the data; the promise holds
all the same, because the changes of consecutive sums telescope to at most R (see
``sensitivity``): the ordered centroids are ε-differentially private.

``strict`` releases just those, without rows, made ascending again. ``paper`` puts them back
into rows, which shows which records share a cluster.
"""

_FIXED = Promise(
    help="the papers' scales, with the clusters taken as public",
    notion=lambda epsilon: IndividualDP(epsilon=epsilon),
    covers="the cluster centroids, with the clusters taken as public and fixed",
    source=Proposition(work="soria-comas2025", place="Prop. 8"),
    assumes=(
        Assumption.FIXED_CLUSTERING,
        Assumption.ROW_STRUCTURE_RELEASED,
        Assumption.FROZEN_SCALE,
    ),
)
_RECOMPUTED = Promise(
    help="scales enlarged to cover recomputed clusters",
    notion=lambda epsilon: IndividualDP(epsilon=epsilon),
    covers="the ordered centroids of each attribute, clusters recomputed, under the noise of the "
    "actual table; not which rows they stand in",
    source=Proposition(work="sherd", place="docs/methods/idp-ls, loss of re-clustering"),
    assumes=(Assumption.ROW_STRUCTURE_RELEASED, Assumption.FROZEN_SCALE),
)

IDP_LS = Masking(
    name="idp-ls",
    title="Individual differential privacy by local sensitivity (iDP-IR)",
    summary="Replaces values by noisy means of k neighbours in rank, with less noise where a "
    "cluster lies in the middle of the domain.",
    least_k=1,
    promises={"paper": _FIXED, "centroids": _RECOMPUTED},
    default_promise=None,
    centre="mean",
    reach="local",
    sums=plain_sums,
    sensitivity=local,
    shifts=shifts_of_means,
)
"""``idp-ls`` (iDP-IR): cluster means with noise at their local sensitivity (Proposition 8).

Soria-comas2025, section 3.2.1; iDP-IR in delvasto2025. The local sensitivity of a mean is
max(hi − u, v − lo) over the cluster's size, with the clusters taken as fixed. They are not: with
clusters recomputed, the ordered centroids of an attribute spend up to (1 + ln 2)·ε_a. ``paper``
says so and computes how much; ``centroids`` enlarges the scales until it is at most ε_a.
"""


def _sensitivity(clusters: Clusters, width: int) -> NDArray[np.int64]:
    del width  # the domain plays no part: that is the point of the method
    return cluster_based(clusters)


def _shifts(clusters: Clusters, width: int) -> Shifts:
    del width
    return shifts_of_trimmed(clusters)


IDP_CBLS = Masking(
    name="idp-cbls",
    title="Individual differential privacy by cluster-based local sensitivity",
    summary="Replaces values by noisy trimmed means of k neighbours in rank, with noise as wide "
    "as the cluster itself. Close to the original data, and weakly protected.",
    least_k=3,
    promises={
        "paper": replace(
            _FIXED,
            source=Proposition(work="soria-comas2025", place="Prop. 9"),
            not_covered=(
                "clusters whose values are all equal: they are published as they are, without "
                "any noise, unless --min-scale sets a floor",
            ),
        ),
        "centroids": replace(
            _RECOMPUTED,
            help="scales enlarged to cover recomputed clusters, above a floor",
            source=Proposition(work="sherd", place="docs/methods/idp-cbls, loss of re-clustering"),
        ),
    },
    default_promise=None,
    depth=3,
    centre="trimmed",
    reach="cluster",
    sums=trimmed,
    sensitivity=_sensitivity,
    shifts=_shifts,
)
"""``idp-cbls``: trimmed cluster means with noise at their cluster-based local sensitivity.

Soria-comas2025, section 3.2.2 and Proposition 9: one smallest value of a cluster is replaced
by the second smallest and one largest by the second largest ({3,3,3,4,5,6,6} stays as it is),
so that the sensitivity depends on the cluster alone, expression (1); the printed (2) has x″ where
x′ belongs. With the clusters recomputed, the ordered centroids of an attribute spend up to
p·ε_a, p the number of clusters; and a cluster of equal values is published without any noise.
``paper`` says so and computes both; ``centroids`` enlarges the scales, above a floor.
"""
