"""The oracle of several parties: each holds some cells of every record, nobody all of them.

Every cell has one holder, so each party's local counts are additive shares of the true ones
already: histograms need no cryptography. Utilities, noise, choices and leaf counts are computed
on secrets; what is opened is the place of each choice and the noisy counts, and, before that,
that every cell has been counted once.

Record ids, their order and the class are known to all parties (wang2020, section 2.3).

Where it departs from the paper's protocol, and why, is in docs/methods/arbdistdp.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import PlanError, TableError, VerificationError
from sherd.joint.bits import TIE_BITS, thresholds
from sherd.joint.plain import Histograms, part_of_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.joint.budget import Budget
    from sherd.joint.engine import JointEngine
    from sherd.joint.specialise import Candidate, Cuts

    Numbers = NDArray[np.int64]

LEAVES_AT_ONCE = 32
"""Leaves whose records are counted in one call."""

JOINT_UTILITIES = ("max", "gain", "spread")
"""Utilities that need sums and maxima only."""


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """One party's cells: the codes of every attribute, −1 where another party holds the cell."""

    codes: tuple[Numbers, ...]


class JointOracle:
    """Answers together with the other parties.

    ``fragments`` holds those of the parties that this process plays: one, or all in a test.
    """

    def __init__(
        self,
        engine: JointEngine,
        fragments: Mapping[int, Fragment],
        sizes: Sequence[int],
        classes: Numbers,
        n_classes: int,
        *,
        utility: str,
        budget: Budget,
        progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
    ) -> None:
        if utility not in JOINT_UTILITIES:
            raise PlanError(
                f"the utility '{utility}' cannot be computed jointly",
                must="one of " + ", ".join(JOINT_UTILITIES),
                do="info-gain needs logarithms, which the engines do not have",
            )
        self._engine, self._fragments = engine, fragments
        self._sizes, self._n_classes = sizes, n_classes
        self._utility, self._budget, self._progress = utility, budget, progress
        # Sorted by class, the records of a class are a block, and counts by class are sums.
        self._order = np.argsort(classes, kind="stable")
        self._blocks = np.concatenate([[0], np.cumsum(np.bincount(classes, minlength=n_classes))])
        self._histograms = {
            party: Histograms(one.codes, sizes, classes, n_classes)
            for party, one in fragments.items()
        }

    def check_cells(self) -> None:
        """Raise unless the parties' cells add up to a whole table, attribute by attribute."""
        n, shape = len(self._order), (len(self._sizes),)

        def held(party: int) -> Numbers:
            return np.array([int((c >= 0).sum()) for c in self._fragments[party].codes], np.int64)

        total = self._sum_of_parties(held, shape)
        if (self._engine.open(total, "cells held, by attribute") != n).any():
            raise TableError(
                "the parties' fragments do not make a whole table",
                must="every cell held by exactly one party",
                do="compare which cells each party is meant to hold",
            )

    def _sum_of_parties(self, own: Any, shape: tuple[int, ...]) -> Any:
        engine = self._engine
        total = engine.share(0, lambda: own(0), shape)
        for party in range(1, engine.parties):
            part = engine.share(party, lambda party=party: own(party), shape)  # type: ignore[misc]
            total = engine.add(total, part)
        return total

    def choose(self, groups: Sequence[Sequence[Candidate]]) -> list[int]:
        """Report-noisy-max in every group; the places are opened, nothing else."""
        engine, rate = self._engine, self._budget.choice_rate
        flat = [one for group in groups for one in group]
        utilities = self._utilities(flat)
        noisy = engine.add(utilities, self._geometric(len(flat), rate))
        ties = engine.random(len(flat), TIE_BITS)
        keys = engine.add(engine.scale(noisy, 2**TIE_BITS), ties)
        chosen, start = [], 0
        for group in groups:
            part = engine.take(keys, start, start + len(group))
            chosen.append(engine.reshape(engine.largest(part), (1,)))
            start += len(group)
        places: list[int] = engine.open(engine.join(chosen), "places of choices").tolist()
        if not all(0 <= place < len(group) for place, group in zip(places, groups, strict=True)):
            # From a journal or from computing parties; our own computation gives no others.
            raise VerificationError("a choice that was opened is none of the candidates")
        return places

    def _utilities(self, group: Sequence[Candidate]) -> Any:
        engine = self._engine
        fan = max(one.fan for one in group)
        shape = (len(group), fan, self._n_classes)
        counts = self._sum_of_parties(lambda party: self._children(party, group, fan), shape)
        if self._utility == "spread":
            sizes = engine.sum(counts)
            return engine.add(engine.sum(sizes), engine.scale(engine.maximum(sizes), -1))
        right = engine.sum(engine.maximum(counts))
        if self._utility == "max":
            return right
        nodes = self._sum_of_parties(
            lambda party: self._children(party, group, fan).sum(axis=1),
            (len(group), self._n_classes),
        )
        return engine.add(right, engine.scale(engine.maximum(nodes), -1))

    def _children(self, party: int, group: Sequence[Candidate], fan: int) -> Numbers:
        """A party's counts of every candidate's children, filled up with empty children."""
        counts, first = self._histograms[party].children(group)
        fans = np.array([one.fan for one in group])
        which = np.repeat(np.arange(len(group)), fans)
        padded = np.zeros((len(group), fan, self._n_classes), np.int64)
        padded[which, np.arange(len(which)) - first[which]] = counts
        return padded

    def _geometric(self, n: int, rate: Fraction) -> Any:
        """Geometric noise that nobody knows: one comparison a bit."""
        engine = self._engine
        limits = np.array(thresholds(rate), np.int64)
        words = engine.random(n * limits.size)
        below = engine.less(words, np.tile(limits, n))
        weights = np.tile(np.int64(1) << np.arange(limits.size), n)
        return engine.sum(engine.reshape(engine.scale(below, weights), (n, limits.size)))

    def count(self, cuts: Cuts, choices: int) -> Numbers:
        """The number of records of each leaf and class; opened with noise in it."""
        engine, rate = self._engine, self._budget.count_rate(choices)
        shape = tuple(len(cut) - 1 for cut in cuts)
        leaves = math.prod(shape)
        exact = []
        for start in range(0, leaves, LEAVES_AT_ONCE):
            some = np.arange(start, min(start + LEAVES_AT_ONCE, leaves))
            by_class = [self._inner(cuts, shape, some, c) for c in range(self._n_classes)]
            exact.append(engine.reshape(engine.stack(by_class), (some.size * self._n_classes,)))
            self._progress("counting", start + some.size, leaves)
        n = leaves * self._n_classes
        noise = self._geometric(2 * n, rate)
        noisy = engine.add(engine.join(exact), engine.take(noise, 0, n))
        noisy = engine.add(noisy, engine.scale(engine.take(noise, n, 2 * n), -1))
        return engine.open(noisy, "noisy counts").reshape(leaves, self._n_classes)

    def _inner(self, cuts: Cuts, shape: tuple[int, ...], leaves: Numbers, c: int) -> Any:
        rows = self._order[self._blocks[c] : self._blocks[c + 1]]
        wanted = np.unravel_index(leaves, shape)
        return self._engine.inner(
            lambda party: self._consistent(party, cuts, wanted, rows), len(rows), len(leaves)
        )

    def _consistent(
        self, party: int, cuts: Cuts, wanted: tuple[Numbers, ...], rows: Numbers
    ) -> NDArray[np.uint8]:
        """Which records, by all that a party holds of them, lie in which of the leaves."""
        found = np.ones((len(rows), len(wanted[0])), np.uint8)
        for codes, cut, parts in zip(self._fragments[party].codes, cuts, wanted, strict=True):
            if len(cut) == 2:
                continue
            # A cell that another party holds (code −1, so the last entry) contradicts nothing.
            agrees = np.ones((cut[-1] + 1, len(parts)), np.uint8)
            agrees[:-1] = part_of_code(cut)[:, None] == parts
            found &= agrees[codes[rows]]
        return found
