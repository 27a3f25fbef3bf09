"""Information gain for secure computation: t log2 t as the largest of some straight lines.

Engines have sums, products and maxima of whole numbers and no logarithms. So t log2 t is replaced
by its chords over public knots (0 to 8 one by one, then four to the octave, the last one n), in
units of 2^−``FRACTION_BITS``: the chords' slopes are rounded to whole numbers, which keeps them in
order, and each goes on where the one before ends. Such a function f is convex, so it is the largest
of its lines. With it F(S) = f(|S|) − Σ_cls f(|S^cls|), and the utility is F(D_v) − Σ_c F(D_c).

Notation: v a node, c its children, S a set of at most n records, S^cls those of a class.

Sensitivity, rounding included. Everything is a whole number, so nothing is rounded but the slopes,
and they are part of f. Let d(t) = f(t + 1) − f(t): some slope, never falling with t, 0 at t = 0.
A record of class i added to S changes F(S) by d(|S|) − d(|S^i|), which is between 0 and the last
slope s since |S^i| ≤ |S|. The utility is a difference of two such terms (of v and of the child that
takes the record), so it changes by at most s in either direction, and by at most 2s when a record
is substituted. A chord of t log2 t below n is no steeper than its tangent at n, so
s ≤ ⌈2^8 (log2 n + 1/ln 2)⌉, and ``scores.sensitivity("info-gain", n)`` is more than 2s.

Accuracy: a chord over [a, qa] is above t log2 t by at most a(q − 1)²/(8 ln 2), with q ≤ 5/4 less
than 0.012 bits a record, and a slope is off by at most 2^−9 bits a record.

>>> lines = entropy_lines(1000)
>>> exact = 700 * math.log2(700)
>>> abs(int(lines.at(np.array([700]))[0]) / 256 - exact) < 0.012 * 700
True
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.methods.specialising.scores import UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines whose largest is f: slopes in rising order, and what each is at 0."""

    slopes: Numbers
    at_zero: Numbers

    def at(self, counts: Numbers) -> Numbers:
        """The value of f for every count, in the clear."""
        found: Numbers = (counts[..., None] * self.slopes + self.at_zero).max(axis=-1)
        return found

    def shared(self, engine: JointEngine, counts: Any, size: int) -> Any:
        """The same for a flat secret of ``size`` counts: one maximum for each."""
        beside = engine.stack([counts] * len(self.slopes))
        sloping = engine.scale(beside, self.slopes)
        placed = np.broadcast_to(self.at_zero, (size, len(self.slopes)))
        return engine.maximum(engine.add(sloping, np.ascontiguousarray(placed)))


def entropy_lines(n: int) -> Lines:
    """The lines for counts up to n.

    >>> entropy_lines(3).slopes.tolist(), entropy_lines(3).at_zero.tolist()
    ([0, 512, 705], [0, -512, -898])
    """
    slopes, at_zero, height = [0], [0], 0
    for left, right in itertools.pairwise(_knots(n)):
        slope = round(UNIT * (_xlogx(right) - _xlogx(left)) / (right - left))
        if slope > slopes[-1]:
            slopes.append(slope)
            at_zero.append(height - slope * left)
        height += slopes[-1] * (right - left)
    return Lines(slopes=np.array(slopes, np.int64), at_zero=np.array(at_zero, np.int64))


def lined_gain(children: Numbers, first: Numbers, n: int) -> Numbers:
    """The utility of every candidate in the clear, as ``scores.scores`` has it."""
    lines = entropy_lines(n)

    def entropy(counts: Numbers) -> Numbers:
        whole: Numbers = lines.at(counts.sum(axis=1)) - lines.at(counts).sum(axis=1)
        return whole

    nodes = np.add.reduceat(children, first, axis=0)
    gained: Numbers = entropy(nodes) - np.add.reduceat(entropy(children), first)
    return gained


def _knots(n: int) -> Sequence[int]:
    """Public places from 0 to n.

    >>> _knots(20)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20]
    """
    octaves = range(3, max(n, 1).bit_length() + 1)
    every = [*range(9), *(2**e * quarter // 4 for e in octaves for quarter in (5, 6, 7, 8))]
    return [*(knot for knot in every if knot < n), max(n, 1)]


def _xlogx(count: int) -> float:
    return count * math.log2(count) if count else 0.0
