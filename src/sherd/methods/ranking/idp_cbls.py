"""``idp-cbls``: trimmed cluster means with noise at their cluster-based local sensitivity.

Soria-comas2025, section 3.2.2 and Proposition 9: one smallest value of a cluster is replaced
by the second smallest and one largest by the second largest ({3,3,3,4,5,6,6} stays as it is),
so that the sensitivity depends on the cluster alone, expression (1); the printed (2) has x″ where
x′ belongs. With the clusters recomputed, the ordered centroids of an attribute spend up to
p·ε_a, p the number of clusters; and a cluster of equal values is published without any noise.
``paper`` says so and computes both; ``centroids`` enlarges the scales, above a floor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.guarantees import Assumption, IndividualDP, Proposition
from sherd.methods.ranking.masking import Masking
from sherd.methods.ranking.ranking_promise import Promise
from sherd.methods.ranking.sensitivity import cluster_based, shifts_of_trimmed, trimmed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sherd.methods.ranking.individual_ranking import Clusters
    from sherd.methods.ranking.sensitivity import Shifts


def _sensitivity(clusters: Clusters, width: int) -> NDArray[np.int64]:
    del width  # the domain plays no part: that is the point of the method
    return cluster_based(clusters)


def _shifts(clusters: Clusters, width: int) -> Shifts:
    del width
    return shifts_of_trimmed(clusters)


METHOD = Masking(
    name="idp-cbls",
    title="Individual differential privacy by cluster-based local sensitivity",
    summary="Replaces values by noisy trimmed means of k neighbours in rank, with noise as wide "
    "as the cluster itself. Close to the original data, and weakly protected.",
    least_k=3,
    promises={
        "paper": Promise(
            help="the papers' scales, with the clusters taken as public",
            notion=lambda epsilon: IndividualDP(epsilon=epsilon),
            covers="the cluster centroids, with the clusters taken as public and fixed",
            source=Proposition(work="soria-comas2025", place="Prop. 9"),
            assumes=(
                Assumption.FIXED_CLUSTERING,
                Assumption.ROW_STRUCTURE_RELEASED,
                Assumption.FROZEN_SCALE,
            ),
            not_covered=(
                "clusters whose values are all equal: they are published as they are, without "
                "any noise, unless --min-scale sets a floor",
            ),
        ),
        "centroids": Promise(
            help="scales enlarged to cover clusters recomputed, above a floor",
            notion=lambda epsilon: IndividualDP(epsilon=epsilon),
            covers="the ordered centroids of each attribute, clusters recomputed, under the noise "
            "of the actual table; not which rows they stand in",
            source=Proposition(work="sherd", place="docs/methods/idp-cbls, loss of re-clustering"),
            assumes=(Assumption.ROW_STRUCTURE_RELEASED, Assumption.FROZEN_SCALE),
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
