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
from sherd.methods.specialising.plain_oracle import Histograms, part_of_code
from sherd.secure.engine.noise_bits import TIE_BITS, thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.methods.specialising.epsilon_shares import Budget
    from sherd.methods.specialising.specialise import Candidate, Cuts
    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]

RECORDS_AT_ONCE = 2**15
"""Records that are counted in one call: what bounds the memory it takes."""

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
        leaves = math.prod(len(cut) - 1 for cut in cuts)
        n = leaves * self._n_classes
        by_class = [self._count_class(cuts, c) for c in range(self._n_classes)]
        exact = engine.reshape(engine.stack(by_class), (n,))
        noise = self._geometric(2 * n, rate)
        noisy = engine.add(exact, engine.take(noise, 0, n))
        noisy = engine.add(noisy, engine.scale(engine.take(noise, n, 2 * n), -1))
        return engine.open(noisy, "noisy counts").reshape(leaves, self._n_classes)

    def _count_class(self, cuts: Cuts, c: int) -> Any:
        """The records of a class in each leaf, some records after the other."""
        rows = self._order[self._blocks[c] : self._blocks[c + 1]]
        split = divided([len(cut) - 1 for cut in cuts])
        left, right = (
            math.prod(len(cut) - 1 for cut in part) for part in (cuts[:split], cuts[split:])
        )
        # Pieces of equal length, filled up with records that lie nowhere: one program for all.
        pieces = -(-len(rows) // RECORDS_AT_ONCE)
        size = -(-len(rows) // pieces) if pieces else 0
        total = None
        for piece in range(max(1, pieces)):
            some = rows[piece * size : (piece + 1) * size]
            found = self._engine.inner(
                lambda party, some=some: (  # type: ignore[misc]
                    self._consistent(party, cuts, range(split), some, size),
                    self._consistent(party, cuts, range(split, len(cuts)), some, size),
                ),
                size,
                left,
                right,
            )
            total = found if total is None else self._engine.add(total, found)
            done = int(self._blocks[c]) + min((piece + 1) * size, len(rows))
            self._progress("counting", done, len(self._order))
        return total

    def _consistent(
        self, party: int, cuts: Cuts, attributes: range, rows: Numbers, size: int
    ) -> NDArray[np.uint8]:
        """Which records, by all that a party holds of some attributes, lie in which combination."""
        shape = tuple(len(cuts[a]) - 1 for a in attributes)
        wanted = np.unravel_index(np.arange(math.prod(shape)), shape) if shape else ()
        found = np.zeros((size, math.prod(shape)), np.uint8)
        found[: len(rows)] = 1
        for a, parts in zip(attributes, wanted, strict=True):
            cut = cuts[a]
            if len(cut) == 2:
                continue
            # A cell that another party holds (code −1, so the last entry) contradicts nothing.
            agrees = np.ones((cut[-1] + 1, len(parts)), np.uint8)
            agrees[:-1] = part_of_code(cut)[:, None] == parts
            found[: len(rows)] &= agrees[self._fragments[party].codes[a][rows]]
        return found


def divided(shape: Sequence[int]) -> int:
    """Where to divide attributes in two so that both halves have few combinations.

    >>> divided([2, 3, 1, 4]), divided([5])
    (3, 1)
    """
    costs = [math.prod(shape[:i]) + math.prod(shape[i:]) for i in range(len(shape) + 1)]
    return min(range(len(costs)), key=lambda i: (costs[i], -i))
