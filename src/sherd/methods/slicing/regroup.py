# ruff: noqa: C901, E741 - a compiled loop is one piece; l is the field's own name
"""Regrouping: the rows of every bucket into groups of about l, each q by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.compiled import compiled
from sherd.methods.slicing.joint_grouping import joint_groups
from sherd.methods.slicing.local_grouping import local_groups

if TYPE_CHECKING:
    from sherd.methods.slicing.tuple_partitioning import Ints, Longs


@compiled
def regrouped(
    rows: Ints, n_dims: int, starts: Longs, n_values: int, sensitive: Ints, l: int
) -> tuple[Longs, int]:
    """The group of every row: each bucket regrouped, each q in a bucket by itself.

    ``sensitive`` holds the sensitive codes of the rows, in the order of ``rows``; all attributes
    have one numbering, and a place without a value is −1.
    """
    n = rows.shape[0]
    result = np.empty(n, dtype=np.int64)
    n_groups = 0
    # Codes are made local to what is regrouped: a bucket knows few of many values.
    local = np.full(n_values, -1, dtype=np.int64)
    for b in range(len(starts)):
        lo = starts[b]
        hi = starts[b + 1] if b + 1 < len(starts) else n
        by_q = np.argsort(rows[lo:hi, n_dims], kind="mergesort")
        begin = 0
        while begin < hi - lo:
            q = rows[lo + by_q[begin], n_dims]
            end = begin
            while end < hi - lo and rows[lo + by_q[end], n_dims] == q:
                end += 1
            inside = np.full((end - begin, sensitive.shape[1]), -1, dtype=np.int32)
            known = 0
            for i in range(begin, end):
                for c in range(sensitive.shape[1]):
                    value = sensitive[lo + by_q[i], c]
                    if value < 0:
                        continue
                    if local[value] < 0:
                        local[value] = known
                        known += 1
                    inside[i - begin, c] = local[value]
            for i in range(begin, end):
                for c in range(sensitive.shape[1]):
                    if sensitive[lo + by_q[i], c] >= 0:
                        local[sensitive[lo + by_q[i], c]] = -1
            if sensitive.shape[1] > 1:
                group = joint_groups(inside, known, l)
            else:
                group = local_groups(inside[:, 0].copy(), known, l)
            for i in range(begin, end):
                result[lo + by_q[i]] = n_groups + group[i - begin]
            n_groups += group.max() + 1
            begin = end
    return result, n_groups
