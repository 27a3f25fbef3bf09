"""The oracle of several parties: each holds some cells of every record, nobody all of them.

Every cell has one holder, which ``secure.engine.cell_holders`` sees to, so each party's local
counts are additive shares of the true ones already: histograms need no cryptography. Cells that
nobody holds are missing: as many as the records less those held, again a sum of local counts.
Utilities, noise, choices and leaf counts are computed on secrets; what is opened is the place of
each choice and the noisy counts.

Record ids, their order and the class are known to all parties (wang2020, section 2.3).
docs/methods/arbdistdp.md says where this departs from the paper's protocol, and why.

Information gain is computed from t log2 t as the largest of some straight lines. Engines have sums,
products and maxima of whole numbers and no logarithms. So t log2 t is replaced
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

from sherd.errors import PlanError, VerificationError
from sherd.methods.specialising.plain_oracle import Histograms
from sherd.methods.specialising.scores import UNIT, UTILITIES
from sherd.methods.specialising.secure_leaf_counts import LeafCounter, pieces, sum_of_parties
from sherd.methods.specialising.specialise import Candidate
from sherd.secure.engine.noise_bits import TIE_BITS, shared_geometric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.specialising.scores import Budget
    from sherd.methods.specialising.secure_leaf_counts import PartyCells
    from sherd.methods.specialising.specialise import Cuts
    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]


class JointOracle:
    """Answers together with the other parties.

    ``cells`` holds those of the parties that this process plays: one, or all in a test. With
    ``holes``, a cell that nobody holds has its attribute's last code, that of missing ones.
    """

    def __init__(
        self,
        engine: JointEngine,
        cells: Mapping[int, PartyCells],
        sizes: Sequence[int],
        classes: Numbers,
        n_classes: int,
        *,
        utility: str,
        budget: Budget,
        holes: bool = False,
        progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
    ) -> None:
        if utility not in UTILITIES:
            raise PlanError(
                f"the utility '{utility}' cannot be computed jointly",
                must="one of " + ", ".join(UTILITIES),
            )
        self._engine, self._cells, self._holes = engine, cells, holes
        self._sizes, self._n_classes = sizes, n_classes
        self._utility, self._budget, self._progress = utility, budget, progress
        # Sorted by class, the records of a class are a block, and counts by class are sums.
        self._order = np.argsort(classes, kind="stable")
        self._blocks = np.concatenate([[0], np.cumsum(np.bincount(classes, minlength=n_classes))])
        self._histograms = {
            party: Histograms.of(one.codes, sizes, classes, n_classes)
            for party, one in cells.items()
        }
        for party, one in cells.items() if holes else ():
            # What nobody holds: of all records, which the first party counts, less those held.
            whole = np.bincount(classes, minlength=n_classes) * (party == 0)
            for a, column in enumerate(one.codes):
                held = np.bincount(classes[column >= 0], minlength=n_classes)
                self._histograms[party].add_to_last(a, whole - held)

    def choose(self, groups: Sequence[Sequence[Candidate]]) -> list[int]:
        """Report-noisy-max in every group; the places are opened, nothing else."""
        engine, rate = self._engine, self._budget.choice_rate
        flat = [one for group in groups for one in group]
        utilities = self._utilities(flat)
        noisy = engine.add(utilities, shared_geometric(engine, len(flat), rate))
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
        counts = sum_of_parties(engine, lambda party: self._children(party, group, fan), shape)
        if self._utility == "spread":
            sizes = engine.sum(counts)
            return engine.add(engine.sum(sizes), engine.scale(engine.maximum(sizes), -1))
        if self._utility == "info-gain":
            return self._information_gains(group, counts, fan)
        right = engine.sum(engine.maximum(counts))
        if self._utility == "max":
            return right
        nodes = sum_of_parties(
            engine,
            lambda party: self._children(party, group, fan).sum(axis=1),
            (len(group), self._n_classes),
        )
        return engine.add(right, engine.scale(engine.maximum(nodes), -1))

    def _information_gains(self, group: Sequence[Candidate], counts: Any, fan: int) -> Any:
        """What is left of every node's entropy in its children, taken off."""
        engine, n_classes = self._engine, self._n_classes
        left = engine.sum(self._entropies(counts, (len(group), fan)))
        # Candidates for one node share its entropy, which is the dearer part.
        spans = [(one.attribute, one.edges[0], one.edges[-1]) for one in group]
        nodes = {span: place for place, span in enumerate(dict.fromkeys(spans))}
        whole = [Candidate(attribute=a, edges=(low, high)) for a, low, high in nodes]
        own = sum_of_parties(
            engine, lambda party: self._children(party, whole, 1), (len(whole), 1, n_classes)
        )
        entropies = engine.reshape(self._entropies(own, (len(whole), 1)), (len(whole),))
        each = [engine.take(entropies, nodes[span], nodes[span] + 1) for span in spans]
        return engine.add(engine.join(each), engine.scale(left, -1))

    def _entropies(self, counts: Any, shape: tuple[int, int]) -> Any:
        """F of every set of records whose counts by class are given."""
        engine, n_classes, sets = self._engine, self._n_classes, math.prod(shape)
        sizes = engine.reshape(engine.sum(counts), (sets,))
        both = engine.join([sizes, engine.reshape(counts, (sets * n_classes,))])
        values = entropy_lines(len(self._order)).shared(engine, both, sets * (1 + n_classes))
        whole = engine.take(values, 0, sets)
        parts = engine.sum(
            engine.reshape(engine.take(values, sets, sets * (1 + n_classes)), (*shape, n_classes))
        )
        return engine.add(engine.reshape(whole, shape), engine.scale(parts, -1))

    def _children(self, party: int, group: Sequence[Candidate], fan: int) -> Numbers:
        """A party's counts of every candidate's children, filled up with empty children."""
        counts, first = self._histograms[party].children(group)
        fans = np.array([one.fan for one in group])
        which = np.repeat(np.arange(len(group)), fans)
        padded = np.zeros((len(group), fan, self._n_classes), np.int64)
        padded[which, np.arange(len(which)) - first[which]] = counts
        return padded

    def count(self, cuts: Cuts, choices: int) -> Numbers:
        """The number of records of each leaf and class; opened with noise in it."""
        engine, rate = self._engine, self._budget.count_rate(choices)
        leaves = math.prod(len(cut) - 1 for cut in cuts)
        n = leaves * self._n_classes
        by_class = [self._count_class(cuts, c) for c in range(self._n_classes)]
        exact = engine.reshape(engine.stack(by_class), (n,))
        noise = shared_geometric(engine, 2 * n, rate)
        noisy = engine.add(exact, engine.take(noise, 0, n))
        noisy = engine.add(noisy, engine.scale(engine.take(noise, n, 2 * n), -1))
        return engine.open(noisy, "noisy counts").reshape(leaves, self._n_classes)

    def _count_class(self, cuts: Cuts, c: int) -> Any:
        """The records of a class in each leaf, some records after the other."""
        counter = LeafCounter(engine=self._engine, cells=self._cells, cuts=cuts, holes=self._holes)
        parts, size = pieces(self._order[self._blocks[c] : self._blocks[c + 1]])
        total, done = None, int(self._blocks[c])
        for rows in parts:
            counts = counter.count(rows, size)
            total = counts if total is None else self._engine.add(total, counts)
            done += len(rows)
            self._progress("counting", done, len(self._order))
        return total


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines whose largest is f: slopes in rising order, and what each is at 0."""

    slopes: Numbers
    at_zero: Numbers

    def at(self, counts: Numbers) -> Numbers:
        """The value of f for every count, in the clear."""
        largest: Numbers = (counts[..., None] * self.slopes + self.at_zero).max(axis=-1)
        return largest

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
