# ruff: noqa: E741 - l is the field's own name for it
"""How well can an attacker tell who is in the table? A threshold attack, measured.

Half of the table's own records are sliced, the other half are real people who are not in
what was sliced. The attacker scores a tuple of quasi-identifiers by how many records the
release lets it match,

    m(t) = Σ_B |B| · Π_i cnt_{i,B}[t_i] / |B|,

and says "in" above a threshold. The advantage is the share of members caught minus that of
non-members accused, at the best threshold. Made-up tuples as non-members would flatter the
release, since few of them match anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.slicing.attribute_codes import Coded, combined
from sherd.methods.slicing.bucket_pipeline import BucketSettings, bucketed, coarse, subset
from sherd.methods.slicing.diversity_feasibility import limit, meets_conditions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.slicing.bucket_pipeline import Coarse
    from sherd.methods.slicing.column_layout import ColumnLayout
    from sherd.methods.slicing.sensitive_values import Sensitive
    from sherd.randomness import Randomness

ENOUGH = 20_000
"""Records used for the measurement; a larger table is sampled.

Ten thousand members and as many others: the standard error of each share is at most 0.005.
"""

WORRYING = 0.1
"""An advantage above this is worth a warning."""


@dataclass(frozen=True, kw_only=True)
class Membership:
    """The attack's result: its advantage, with so many members and as many non-members."""

    advantage: float
    members: int


def best_advantage(members: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """The largest difference of the two shares above a threshold.

    >>> best_advantage(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
    0.5
    """
    scores = np.concatenate([members, others])
    order = np.argsort(-scores, kind="stable")
    inside = np.concatenate([np.ones(len(members), bool), np.zeros(len(others), bool)])[order]
    gain = np.cumsum(inside) / len(members) - np.cumsum(~inside) / len(others)
    ordered = scores[order]
    last = np.append(ordered[1:] != ordered[:-1], True)  # a threshold cannot part equal scores
    return float(max(gain[last].max(), 0.0))


def measure(
    coded: Mapping[str, Coded],
    layout: ColumnLayout,
    sensitive: Sensitive,
    settings: BucketSettings,
    randomness: Randomness,
) -> Membership | None:
    """Slice half of the records and attack; None where the table is too small for it."""
    n = min(len(sensitive.codes), ENOUGH)
    half = n // 2
    if half < 2 * settings.l or half < 2 * (settings.min_frequency or 1):
        return None
    drawn = randomness.permutation(len(sensitive.codes))[: 2 * half]
    inside, outside = drawn[:half], drawn[half:]
    mine, members = sensitive.kept(inside), subset(coded, inside)
    parts = coarse(members, layout, half, settings.min_frequency, randomness, need_columns=False)
    # Half of the records may allow a smaller l than all of them.
    l = min(settings.l, limit(mine, *parts.q).l)
    if not meets_conditions(mine, parts.q[0], settings.conditions):
        return None
    quick = replace(settings, l=l, scope="any", beta=1.0)
    buckets = bucketed(members, layout, parts, mine, quick, randomness)
    scored = _scores(*_codes(coded, layout, parts, inside, outside), buckets, half)
    return Membership(advantage=best_advantage(scored[:half], scored[half:]), members=half)


def _codes(
    coded: Mapping[str, Coded],
    layout: ColumnLayout,
    parts: Coarse,
    inside: NDArray[np.int64],
    outside: NDArray[np.int64],
) -> tuple[list[NDArray[np.int32]], list[int]]:
    """Column values of members, then of the others, in one numbering."""
    from sherd.methods.slicing.boxes import locate

    both = np.concatenate([inside, outside])
    columns: list[NDArray[np.int32]] = []
    sizes: list[int] = []
    for names, cells in zip((*layout.columns[:-1], layout.beside), parts.cells, strict=True):
        if not names:
            continue
        mine = [coded[name] for name in names]
        if cells is None:
            codes, size = combined([c.codes[both] for c in mine], [c.size for c in mine])
        else:
            rows = np.column_stack([c.codes[outside] for c in mine])
            elsewhere = locate(np.ascontiguousarray(rows), cells.low, cells.high)
            codes, size = np.concatenate([cells.of_row, elsewhere]), cells.count
        columns.append(codes)
        sizes.append(size)
    return columns, sizes


def _scores(
    columns: Sequence[NDArray[np.int32]],
    sizes: Sequence[int],
    buckets: NDArray[np.int64],
    n_members: int,
) -> NDArray[np.float64]:
    """m(t) of every tuple, the first ``n_members`` of which are in the buckets."""
    from sherd.methods.slicing.tuple_matching import index, matches

    n_buckets = int(buckets.max()) + 1
    inverted = [
        index(column[:n_members], size, buckets, n_buckets)
        for column, size in zip(columns, sizes, strict=True)
    ]
    heads = np.concatenate([entry[0] for entry in inverted])
    spans = np.concatenate([[0], np.cumsum([size + 1 for size in sizes])]).astype(np.int64)
    shifts = np.concatenate([[0], np.cumsum([len(entry[1]) for entry in inverted])])
    sizes_of = np.bincount(buckets, minlength=n_buckets)
    scores: NDArray[np.float64] = matches(
        np.column_stack(columns).astype(np.int32),
        heads,
        spans,
        shifts.astype(np.int64),
        np.concatenate([entry[1] for entry in inverted]),
        np.concatenate([entry[2] for entry in inverted]),
        sizes_of,
    )
    return scores
