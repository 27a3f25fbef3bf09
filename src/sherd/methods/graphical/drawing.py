"""Drawing: records from a model, so that their counts are the model's up to rounding.

Attributes are drawn clique by clique from the root of the junction tree. The records that agree
in what a clique shares with its parent are a group; its m records take the clique's other
attributes by systematic sampling, so each combination is taken by m times its probability,
rounded up or down. Records of a group come in random order, which makes what is drawn
independent of all else. Independent draws would add the noise of sampling on top.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.methods.graphical.coarsening import Binning
    from sherd.methods.graphical.fitting import Model

    Codes = NDArray[np.integer[Any]]


AT_ONCE = 2**16
"""Records whose places are worked out at once: what bounds the memory it takes."""


def draw(model: Model, n: int, rng: np.random.Generator) -> list[Codes]:
    """The bin of every attribute of n records, in random order."""
    tree = model.tree
    drawn: dict[int, Codes] = {}
    for clique, separator, table in zip(
        tree.cliques, tree.separators, model.marginals, strict=True
    ):
        new = tuple(a for a in clique if a not in drawn)
        kept = tuple(a for a in clique if a in drawn)
        assert set(kept) == set(separator)
        joint = np.moveaxis(
            table, [clique.index(a) for a in (*kept, *new)], list(range(len(clique)))
        )
        groups = math.prod(tree.sizes[a] for a in kept)
        joint = np.maximum(joint.reshape(groups, -1), 0.0)
        group = np.zeros(n, np.min_scalar_type(groups))
        for a in kept:
            group *= tree.sizes[a]
            group += drawn[a]
        taken = systematic(joint, group, rng)
        for a in reversed(new):
            drawn[a] = (taken % tree.sizes[a]).astype(np.min_scalar_type(tree.sizes[a]))
            taken //= tree.sizes[a]
    return [drawn[a] for a in range(len(tree.sizes))]


def systematic(weights: NDArray[np.float64], group: Codes, rng: np.random.Generator) -> Codes:
    """For each record one column of its group's row of weights, by systematic sampling.

    >>> rng = np.random.default_rng(1)
    >>> taken = systematic(np.array([[1.0, 3.0]]), np.zeros(8, np.int64), rng)
    >>> np.bincount(taken).tolist()
    [2, 6]
    """
    n, columns = len(group), weights.shape[1]
    order = rng.permutation(np.arange(n, dtype=np.min_scalar_type(n)))
    order = order[np.argsort(group[order], kind="stable")]
    sizes = np.bincount(group, minlength=len(weights))
    starts = np.cumsum(sizes) - sizes
    totals = weights.sum(axis=1)
    # A group that the model leaves empty holds records by rounding only: any column will do.
    shares = np.where(totals[:, None] > 0, weights, 1.0)
    shares = shares / shares.sum(axis=1, keepdims=True)
    upto = np.cumsum(shares, axis=1)
    upto /= upto[:, -1:]  # so that what follows the last share above 0 is exactly 1 as well
    # Each group's cumulative shares lie between its number and the next.
    line = (upto + np.arange(len(weights))[:, None]).ravel()
    offset = rng.random(len(weights))
    taken = np.empty(n, np.min_scalar_type(columns))
    for start in range(0, n, AT_ONCE):
        some = order[start : start + AT_ONCE]
        ordered = group[some].astype(np.int64)
        rank = np.arange(start, start + len(some)) - starts[ordered]
        place = (rank + offset[ordered]) / sizes[ordered]
        at = np.searchsorted(line, place + ordered, side="right")
        taken[some] = np.clip(at - ordered * columns, 0, columns - 1)
    return taken


def refine(bins: Codes, binning: Binning, rng: np.random.Generator) -> Codes:
    """The fine cell of every record, spread within its bin as the binning says."""
    place = np.array(binning.bins)
    weights = np.zeros((binning.size, len(place)))
    weights[place, np.arange(len(place))] = binning.within
    return systematic(weights, bins, rng)
