"""The exact privacy loss of ordered centroids: one function for who protects and who audits.

Each says by its own account how far the worst substitution of a record moves every cluster's sum,
and what scale of noise the sum has. Laplace noise of scale b hides a shift of δ at a cost of δ / b,
and the costs of the clusters add up.

>>> import numpy as np
>>> loss((np.array([3, 3]), np.array([0, 3])), np.array([6.0, 3.0]))
1.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


def loss(
    shifts: Iterable[NDArray[np.int64] | NDArray[np.float64]],
    scales: NDArray[np.float64] | NDArray[np.int64],
) -> float:
    """The privacy loss of the worst of some changes, each of which moves sums by ``shifts``.

    Where a sum moves but meets no noise the loss is infinite.
    """
    totals = []
    for shift in shifts:
        moved = shift > 0
        if (moved & (scales <= 0)).any():
            return float("inf")
        totals.append(float(np.sum(shift[moved] / scales[moved])))
    return max(totals)
