"""``arbdistdp``: the joint release of arbitrarily partitioned records (wang2020, Algorithm 1).

Every record's cells are split between the parties in any way; all know the record ids, their
order and the class. They specialise top-down together and release generalised records with
noisy counts, as one owner's ``diffgen`` does. The algorithm is that of ``specialise``; who
answers is the ``JointOracle``, over any ``JointEngine``.

What each party gets to know: the places of choices and the noisy counts, that is the release.
Neighbours of a party's view differ in the other parties' cells of one record, so utilities and
counts change as much as they do for an outsider: both are promised (epsilon, delta), where delta
stands for the finite number of bits in the noise (see ``bits``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.guarantees import DifferentialPrivacy
from sherd.methods.specialising.partition import Partition
from sherd.methods.specialising.secure_leaf_counts import PartyCells
from sherd.methods.specialising.shared_oracle import JointOracle
from sherd.methods.specialising.specialise import specialise
from sherd.randomness import Randomness
from sherd.secure.engine.cell_holders import Holes, Overlaps, check_holders, settle_overlaps
from sherd.secure.engine.noise_bits import delta, distance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.specialising.epsilon_shares import Budget
    from sherd.methods.specialising.hierarchy import Hierarchy
    from sherd.secure.engine.cell_holders import Masks
    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What the parties agree on before any share leaves: all of it is public among them."""

    hierarchies: tuple[Hierarchy, ...]
    class_name: str | None
    class_labels: tuple[str, ...]
    utility: str
    budget: Budget
    max_leaves: int
    overlaps: Overlaps = Overlaps.REFUSE
    holes: Holes = Holes.REFUSE

    def notion(self) -> DifferentialPrivacy:
        """What is promised to outsiders and, about the others' cells, to the parties."""
        epsilon = float(self.budget.epsilon)
        candidates = sum(one.size for one in self.hierarchies)
        choices = distance(self.budget.choices * candidates, self.budget.choice_rate)
        cells = 2 * self.max_leaves * len(self.class_labels)
        counts = distance(cells, self.budget.count_rate(self.budget.choices))
        return DifferentialPrivacy(epsilon=epsilon, delta=delta(epsilon, choices + counts))


def cells_of(codes: Sequence[Numbers], held: Sequence[NDArray[np.bool_]]) -> dict[int, PartyCells]:
    """The parties' cells of a pooled table: ``held`` says, for each party, which.

    For tests and comparisons, where one process plays all parties.
    """
    return {
        party: PartyCells(
            codes=tuple(np.where(mine[:, a], column, -1) for a, column in enumerate(codes))
        )
        for party, mine in enumerate(held)
    }


def _system_words(_party: int, n: int) -> NDArray[np.uint64]:
    return Randomness.from_system().words(n)


def release(
    engine: JointEngine,
    cells: Mapping[int, PartyCells],
    classes: Numbers,
    agreement: Agreement,
    *,
    masks: Masks = _system_words,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Partition:
    """Run the joint release; every party gets the same partition.

    ``masks`` gives a party's own words, the same when the run is started again.
    """
    sizes = [one.size for one in agreement.hierarchies]
    codes = {party: one.codes for party, one in cells.items()}
    codes = settle_overlaps(engine, codes, sizes, len(classes), agreement.overlaps, masks)
    check_holders(engine, codes, (len(classes), len(sizes)), agreement.holes)
    oracle = JointOracle(
        engine,
        {party: PartyCells(codes=own) for party, own in codes.items()},
        sizes,
        classes,
        len(agreement.class_labels),
        utility=agreement.utility,
        budget=agreement.budget,
        holes=agreement.holes is Holes.MISSING,
        progress=progress,
    )
    specialised = specialise(
        agreement.hierarchies,
        oracle,
        h=agreement.budget.specialisations,
        max_leaves=agreement.max_leaves,
        progress=progress,
    )
    return Partition(
        hierarchies=agreement.hierarchies,
        specialised=specialised,
        class_name=agreement.class_name,
        class_labels=agreement.class_labels,
        counts=oracle.count(specialised.cuts, specialised.choices),
    )
