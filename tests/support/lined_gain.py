"""Information gain by straight lines in the clear: what the shared oracle computes on secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.specialising.shared_oracle import entropy_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


def lined_gain(children: Numbers, first: Numbers, n: int) -> Numbers:
    """The utility of every candidate in the clear, as ``scores.scores`` has it."""
    lines = entropy_lines(n)

    def entropy(counts: Numbers) -> Numbers:
        whole: Numbers = lines.at(counts.sum(axis=1)) - lines.at(counts).sum(axis=1)
        return whole

    nodes = np.add.reduceat(children, first, axis=0)
    gained: Numbers = entropy(nodes) - np.add.reduceat(entropy(children), first)
    return gained
