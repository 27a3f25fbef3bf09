"""``arbdistdp-paper``: the protocol as wang2020 prints it, simulated in the clear.

For comparing utility only. It promises nothing: Algorithm 4 takes the parties' own values as
candidates for splits and opens how they interleave; Algorithm 3 multiplies rounded exponentials
of shares; Algorithm 5 lets each party know half of the squared Gaussians that make up the noise,
and what is left has no bounded density, so that no pure epsilon holds against a party.

Two things are read as meant and not as printed: Algorithm 3 compares the random number with the
running sum of the segments (as its figure says, and its example needs), not with each segment;
and exponentials are computed without the overflow that 64-bit numbers would have.

Notation: l digits after the decimal point that are kept; u = u1 + u2 a utility and its shares.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.specialising.plain_oracle import Histograms, leaf_counts
from sherd.methods.specialising.scores import scores

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.methods.specialising.specialise import Candidate, Cuts
    from sherd.randomness import Randomness

    Numbers = NDArray[np.int64]


class PaperOracle:
    """The paper's choices and noise, by one process that plays both parties.

    ``epsilon`` is the whole budget, ``choice`` what one choice may cost (epsilon').
    """

    def __init__(
        self,
        codes: Sequence[Numbers],
        sizes: Sequence[int],
        classes: Numbers,
        n_classes: int,
        *,
        epsilon: Fraction,
        choice: Fraction,
        randomness: Randomness,
        digits: int = 2,
    ) -> None:
        self._codes, self._classes, self._n_classes = codes, classes, n_classes
        self._epsilon, self._choice, self._digits = epsilon, choice, digits
        self._randomness = randomness
        self._histograms = Histograms.of(codes, sizes, classes, n_classes)
        self._occurs = [
            np.bincount(column, minlength=size) > 0
            for column, size in zip(codes, sizes, strict=True)
        ]

    def candidates(self, group: Sequence[Candidate]) -> list[int]:
        """Algorithm 4: of the splits in a group, those at values that occur in the data.

        A group that is not all ways to split one node is a choice of cuts and stays whole.
        """
        first = group[0]
        if any(
            (one.attribute, one.edges[0], one.edges[-1], one.fan)
            != (first.attribute, first.edges[0], first.edges[-1], 2)
            for one in group
        ):
            return list(range(len(group)))
        occurs = self._occurs[first.attribute]
        found = [place for place, one in enumerate(group) if occurs[one.edges[1]]]
        return found or list(range(len(group)))

    def choose(self, groups: Sequence[Sequence[Candidate]]) -> list[int]:
        """Algorithm 3 in every group."""
        return [self._choose(group) for group in groups]

    def _choose(self, group: Sequence[Candidate]) -> int:
        places = self.candidates(group)
        children, first = self._histograms.children([group[place] for place in places])
        utilities = scores("max", children, first)
        # The share a party holds is a sum of random numbers and perturbed counts.
        shares = self._randomness.below(utilities.astype(np.uint64) + np.uint64(1)).tolist()
        lengths = [
            segment(int(share), int(u) - int(share), self._choice, self._digits)
            for share, u in zip(shares, utilities.tolist(), strict=True)
        ]
        bits = sum(lengths).bit_length() + 64
        word = int.from_bytes(self._randomness.words(-(-bits // 64)).tobytes(), "little")
        return places[winner(lengths, word % max(1, sum(lengths)))]

    def count(self, cuts: Cuts, choices: int) -> Numbers:
        """Algorithm 5: four squared Gaussians make the noise, rounded at last."""
        assert choices >= 0
        exact = leaf_counts(self._codes, cuts, self._classes, self._n_classes)
        normals = np.random.default_rng(self._randomness.words(4))
        drawn = normals.normal(0.0, np.sqrt(1 / float(self._epsilon)), (4, *exact.shape)) ** 2
        noisy = np.rint(exact + drawn[0] + drawn[1] - drawn[2] - drawn[3])
        whole: Numbers = noisy.astype(np.int64)
        return whole


def segment(u1: int, u2: int, epsilon: Fraction, digits: int) -> int:
    """The product of the two parties' scaled and rounded exponentials (Example 5).

    >>> from fractions import Fraction
    >>> segment(3, 4, Fraction(1, 2), 1), segment(7, 2, Fraction(1, 2), 1)
    (567, 912)
    """
    return _scaled(u1, epsilon, digits) * _scaled(u2, epsilon, digits)


def _scaled(u: int, epsilon: Fraction, digits: int) -> int:
    with localcontext() as context:
        exponent = Decimal(epsilon.numerator * u) / Decimal(2 * epsilon.denominator)
        context.prec = 30 + int(exponent / 2) + digits  # all digits before the point, and more
        exponent = Decimal(epsilon.numerator * u) / Decimal(2 * epsilon.denominator)
        return int(exponent.exp() * 10**digits)


def winner(lengths: Sequence[int], drawn: int) -> int:
    """The segment in which a number lies when they are laid end to end.

    >>> winner([567, 912], 263), winner([567, 912], 567)
    (0, 1)
    """
    total = 0
    for place, length in enumerate(lengths):
        total += length
        if total > drawn:
            return place
    return len(lengths) - 1
