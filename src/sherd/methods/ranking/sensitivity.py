"""How far one record can move each cluster's sum, and what that costs in all.

Everything is in steps of the attribute's axis, whose low end is 0 and whose high end is R.

Notation: u, u′, u″ the smallest, second and third smallest position of a cluster, v, v′, v″
the largest; sizes cancel, because noise is added to sums.

=========  ====================================================  ====================
method     sensitivity of the sum                                source
=========  ====================================================  ====================
dp-um      R                                                     soria-comas2025, 3.1
idp-ls     max(R − u, v)                                         Prop. 8
idp-cbls   max(E↑, E↓), E↑ = (v − u′) + (u″ − u′) + (v − v′)     Prop. 9, expr. (1)
=========  ====================================================  ====================

**What re-clustering costs.** Clusters are made from the data, so one substituted record moves
values across every boundary between its old and its new place. The worst substitutions are the
smallest value to the high end and the largest to the low end (sums of order statistics are
monotone, so every other change is smaller in every cluster). Upwards, cluster j loses u_j and
gains u_{j+1} (R at the end); its sum moves by δ_j = u_{j+1} − u_j, for trimmed sums by E↑_j.
Downwards by v_j − v_{j−1} (v_0 = 0), or E↓_j. The privacy loss of the ordered vector of
centroids under noise of scale b_j is therefore exactly max over both directions of Σ_j δ_j / b_j.

>>> from types import SimpleNamespace as N
>>> halves = N(low=(np.array([0, 3]),), high=(np.array([0, 3]),))      # 0,0,0,½,½,½ on [0, 1]
>>> float(loss(shifts_of_means(halves, 6), local(halves, 6)))
1.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.guarantees.centroid_loss import loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.methods.ranking.individual_ranking import Clusters

__all__ = [
    "Shifts",
    "cluster_based",
    "local",
    "loss",
    "shifts_of_means",
    "shifts_of_trimmed",
    "trimmed",
]

Shifts = tuple["NDArray[np.int64]", "NDArray[np.int64]"]
"""How far the worst substitution moves each cluster's sum: upwards, and downwards."""


def local(clusters: Clusters, width: int) -> NDArray[np.int64]:
    """Proposition 8: the largest change of each cluster's sum by one of its own records."""
    return np.maximum(width - clusters.low[0], clusters.high[0])


def trimmed(clusters: Clusters) -> NDArray[np.int64]:
    """Each sum after replacing one smallest and one largest value by the second ones."""
    sums: NDArray[np.int64] = (
        clusters.sums - clusters.low[0] + clusters.low[1] - clusters.high[0] + clusters.high[1]
    )
    return sums


def cluster_based(clusters: Clusters) -> NDArray[np.int64]:
    """Proposition 9, expression (1): the same for trimmed sums, from the cluster alone."""
    up, down = shifts_of_trimmed(clusters)
    return np.maximum(up, down)


def shifts_of_means(clusters: Clusters, width: int) -> Shifts:
    """Changes of the plain sums under the two worst substitutions, clusters recomputed."""
    smallest, largest = clusters.low[0], clusters.high[0]
    return np.diff(smallest, append=width), np.diff(largest, prepend=0)


def shifts_of_trimmed(clusters: Clusters) -> Shifts:
    """Changes of the trimmed sums under the two worst substitutions, clusters recomputed."""
    u, u2, u3 = clusters.low
    v, v2, v3 = clusters.high
    return (v - u2) + (u3 - u2) + (v - v2), (v2 - u) + (v2 - v3) + (u2 - u)
