# ruff: noqa: E741 - l is the field's own name for it
"""The buckets of ``anatomy``: different values in each, or each like the whole table.

Where only diversity is asked for, buckets hold different values (``local_grouping.grouped``), as
many as the conditions need. Where a bucket must be like the table (t-closeness, β-likeness), rows
are *dealt* in the order of their values, one to each bucket in turn. Every bucket then has each
value's share to within one row. The smallest size for which nearly all buckets meet the conditions
is taken; the others are put together with those beside them until they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.slicing.condition_kernels import merged, unmet
from sherd.methods.slicing.diversity_feasibility import limit
from sherd.methods.slicing.group_conditions import shares
from sherd.methods.slicing.joint_grouping import joint_groups
from sherd.methods.slicing.local_grouping import grouped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.methods.slicing.group_conditions import Conditions
    from sherd.methods.slicing.sensitive_values import Sensitive

GROWTH = 1.25
"""How much larger dealt buckets become from one try to the next."""

MERGED = 0.02
"""The share of dealt buckets that may be put together with others."""


def bucketised(
    sensitive: Sensitive, l: int, conditions: Conditions, order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The bucket of every row; ``order`` decides which of the rows with equal values meet."""
    wanted = conditions.with_l(l)
    mine = sensitive.kept(order)
    values, heads = mine.elements()
    overall = shares(values, heads)
    if wanted.follow_the_table:
        group = _dealt(mine, wanted, values, heads, overall)
    else:
        nothing = np.zeros(len(order), dtype=np.int32)
        different = min(wanted.distinct, limit(mine, nothing, 1).l)
        if values.shape[1] > 1:
            group = joint_groups(values, int(heads[-1]), different)
        else:
            group = grouped(values[:, 0].copy(), int(heads[-1]), different)
    if conditions.asked():
        whole = np.zeros(len(order), dtype=np.int64)
        group = merged(whole, group, values, heads, overall, wanted.limits())
    buckets = np.empty(len(order), dtype=np.int64)
    buckets[order] = group
    return buckets


def _dealt(
    sensitive: Sensitive,
    wanted: Conditions,
    values: NDArray[np.int32],
    heads: NDArray[np.int64],
    overall: NDArray[np.float64],
) -> NDArray[np.int64]:
    n = len(values)
    turn = np.empty(n, dtype=np.int64)
    turn[np.lexsort(sensitive.codes.T[::-1])] = np.arange(n)
    size = float(max(wanted.distinct, 2))
    while True:
        n_groups = max(int(n / size), 1)
        group = turn % n_groups
        failing = unmet(group, values, heads, overall, wanted.limits())
        if failing <= MERGED * n_groups or n_groups == 1:
            return group
        size *= GROWTH
