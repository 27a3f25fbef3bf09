"""``idp-ls`` (iDP-IR): cluster means with noise at their local sensitivity (Proposition 8).

Soria-comas2025, section 3.2.1; iDP-IR in delvasto2025. The local sensitivity of a mean is
max(hi − u, v − lo) over the cluster's size, with the clusters taken as fixed. They are not: with
clusters recomputed, the ordered centroids of an attribute spend up to (1 + ln 2)·ε_a. ``paper``
says so and computes how much; ``centroids`` enlarges the scales until it is at most ε_a.
"""

from __future__ import annotations

from sherd.guarantees import Assumption, IndividualDP, Proposition
from sherd.methods.ranking.masking import Masking, plain_sums
from sherd.methods.ranking.ranking_promise import Promise
from sherd.methods.ranking.sensitivity import local, shifts_of_means

METHOD = Masking(
    name="idp-ls",
    title="Individual differential privacy by local sensitivity (iDP-IR)",
    summary="Replaces values by noisy means of k neighbours in rank, with less noise where a "
    "cluster lies in the middle of the domain.",
    least_k=1,
    promises={
        "paper": Promise(
            help="the papers' scales, with the clusters taken as public",
            notion=lambda epsilon: IndividualDP(epsilon=epsilon),
            covers="the cluster centroids, with the clusters taken as public and fixed",
            source=Proposition(work="soria-comas2025", place="Prop. 8"),
            assumes=(
                Assumption.FIXED_CLUSTERING,
                Assumption.ROW_STRUCTURE_RELEASED,
                Assumption.FROZEN_SCALE,
            ),
        ),
        "centroids": Promise(
            help="scales enlarged to cover clusters recomputed",
            notion=lambda epsilon: IndividualDP(epsilon=epsilon),
            covers="the ordered centroids of each attribute, clusters recomputed, under the noise "
            "of the actual table; not which rows they stand in",
            source=Proposition(work="sherd", place="docs/methods/idp-ls, loss of re-clustering"),
            assumes=(Assumption.ROW_STRUCTURE_RELEASED, Assumption.FROZEN_SCALE),
        ),
    },
    default_promise=None,
    centre="mean",
    reach="local",
    sums=plain_sums,
    sensitivity=local,
    shifts=shifts_of_means,
)
