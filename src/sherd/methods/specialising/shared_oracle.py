"""The oracle of several parties: each holds some cells of every record, nobody all of them.

Every cell has one holder, which ``secure.engine.cell_holders`` sees to, so each party's local
counts are additive shares of the true ones already: histograms need no cryptography. Cells that
nobody holds are missing: as many as the records less those held, again a sum of local counts.
Utilities, noise, choices and leaf counts are computed on secrets; what is opened is the place of
each choice and the noisy counts.

Record ids, their order and the class are known to all parties (wang2020, section 2.3).

Where it departs from the paper's protocol, and why, is in docs/methods/arbdistdp.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import PlanError, VerificationError
from sherd.methods.specialising.entropy_lines import entropy_lines
from sherd.methods.specialising.plain_oracle import Histograms
from sherd.methods.specialising.secure_leaf_counts import LeafCounter, pieces
from sherd.methods.specialising.specialise import Candidate
from sherd.secure.engine.noise_bits import TIE_BITS, shared_geometric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.specialising.epsilon_shares import Budget
    from sherd.methods.specialising.secure_leaf_counts import PartyCells
    from sherd.methods.specialising.specialise import Cuts
    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]

JOINT_UTILITIES = ("max", "gain", "info-gain", "spread")
"""Utilities that sums and maxima suffice for; ``info-gain`` by ``entropy_lines``."""


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
        if utility not in JOINT_UTILITIES:
            raise PlanError(
                f"the utility '{utility}' cannot be computed jointly",
                must="one of " + ", ".join(JOINT_UTILITIES),
            )
        self._engine, self._cells, self._holes = engine, cells, holes
        self._sizes, self._n_classes = sizes, n_classes
        self._utility, self._budget, self._progress = utility, budget, progress
        # Sorted by class, the records of a class are a block, and counts by class are sums.
        self._order = np.argsort(classes, kind="stable")
        self._blocks = np.concatenate([[0], np.cumsum(np.bincount(classes, minlength=n_classes))])
        self._histograms = {
            party: Histograms(one.codes, sizes, classes, n_classes) for party, one in cells.items()
        }
        for party, one in cells.items() if holes else ():
            # What nobody holds: of all records, which the first party counts, less those held.
            whole = np.bincount(classes, minlength=n_classes) * (party == 0)
            for a, column in enumerate(one.codes):
                held = np.bincount(classes[column >= 0], minlength=n_classes)
                self._histograms[party].add_to_last(a, whole - held)

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
        counts = self._sum_of_parties(lambda party: self._children(party, group, fan), shape)
        if self._utility == "spread":
            sizes = engine.sum(counts)
            return engine.add(engine.sum(sizes), engine.scale(engine.maximum(sizes), -1))
        if self._utility == "info-gain":
            return self._information_gains(group, counts, fan)
        right = engine.sum(engine.maximum(counts))
        if self._utility == "max":
            return right
        nodes = self._sum_of_parties(
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
        own = self._sum_of_parties(
            lambda party: self._children(party, whole, 1), (len(whole), 1, n_classes)
        )
        entropies = engine.reshape(self._entropies(own, (len(whole), 1)), (len(whole),))
        each = [engine.take(entropies, nodes[span], nodes[span] + 1) for span in spans]
        return engine.add(engine.join(each), engine.scale(left, -1))

    def _entropies(self, counts: Any, shape: tuple[int, int]) -> Any:
        """F of every set of records whose counts by class are given."""
        engine, n_classes, sets = self._engine, self._n_classes, math.prod(shape)
        sizes = engine.reshape(engine.sum(counts), (sets,))
        both = engine.join([sizes, engine.reshape(counts, (sets * n_classes,))])
        found = entropy_lines(len(self._order)).shared(engine, both, sets * (1 + n_classes))
        whole = engine.take(found, 0, sets)
        parts = engine.sum(
            engine.reshape(engine.take(found, sets, sets * (1 + n_classes)), (*shape, n_classes))
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
            found = counter.count(rows, size)
            total = found if total is None else self._engine.add(total, found)
            done += len(rows)
            self._progress("counting", done, len(self._order))
        return total
