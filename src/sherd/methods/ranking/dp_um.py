"""``dp-um`` (DP-IR): cluster means with noise at the domain's width over the cluster's size.

Section 3.1 of soria-comas2025, DP-IR in delvasto2025. The papers argue by parallel
composition, which does not apply, since clusters are made from the data; the promise holds
all the same, because the changes of consecutive sums telescope to at most R (see
``sensitivity``): the ordered centroids are ε-differentially private.

``strict`` releases just those, without rows, made ascending again. ``paper`` puts them back
into rows, which shows which records share a cluster.
"""

from __future__ import annotations

from sherd.guarantees import Assumption, DifferentialPrivacy, Proposition
from sherd.methods.ranking.masking import Masking, plain_sums, whole_width
from sherd.methods.ranking.ranking_promise import Promise
from sherd.methods.ranking.sensitivity import shifts_of_means

METHOD = Masking(
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
)
