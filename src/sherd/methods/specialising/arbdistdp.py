"""``arbdistdp``: the joint release of arbitrarily partitioned records (wang2020, Algorithm 1).

Parameters, checks and hierarchies are those of ``diffgen``; ``sherd party run`` computes, at every
party. The plan promises (epsilon, delta)-differential privacy.

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

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sherd.errors import PlanError, SchemaError
from sherd.guarantees import DifferentialPrivacy, Guarantee, Proposition
from sherd.methods.ranking.ranking_promise import Promise
from sherd.methods.specialising.diffgen import PARAMETERS, DiffGen, SpecialisationSettings, settings
from sherd.methods.specialising.partition import Partition
from sherd.methods.specialising.secure_leaf_counts import PartyCells
from sherd.methods.specialising.shared_oracle import JointOracle
from sherd.randomness import Randomness
from sherd.release.method import Parameter
from sherd.secure.engine.cell_holders import Holes, Overlaps, check_holders, settle_overlaps
from sherd.secure.engine.noise_bits import delta, distance
from sherd.tables.schema import Missing, Outside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.specialising.hierarchy import Hierarchy
    from sherd.methods.specialising.scores import Budget
    from sherd.release.method import Outcome, Run
    from sherd.release.plan import Plan
    from sherd.secure.engine.cell_holders import Masks
    from sherd.secure.engine.interface import JointEngine
    from sherd.tables.schema import Schema

    Numbers = NDArray[np.int64]


MAX_LEAVES = 2048
"""Leaves cost time and traffic, which grow with their square root: about a gigabyte for as many
leaves and 45,000 records."""

PROMISE = Promise(
    help="differential privacy of every record, to outsiders and to each party",
    notion=lambda epsilon: DifferentialPrivacy(epsilon=epsilon),
    covers="everything released, and everything the parties see of each other's cells; they know "
    "the record ids and the class already",
    source=Proposition(work="wang2020", place="Algorithm 1, with the changes of docs/methods"),
    not_covered=(
        "parties that do not follow the protocol, and computing parties that collude (both of two, "
        "against the owners that do not compute; two of three)",
        "to the other parties: who is among the records that all of them have, whether every cell "
        "has one holder and, where the plan settles overlaps, which of its own cells count",
    ),
)


def _parameters() -> tuple[Parameter, ...]:
    return (
        *(
            replace(one, default=MAX_LEAVES) if one.name == "max_leaves" else one
            for one in PARAMETERS
        ),
        Parameter(
            name="overlaps",
            kind=str,
            choices=tuple(Overlaps),
            default=str(Overlaps.REFUSE),
            help="if several parties hold a cell, refuse the run, take the value of the party "
            "named first, or the value that most of them hold",
        ),
        Parameter(
            name="holes",
            kind=str,
            choices=tuple(Holes),
            default=str(Holes.REFUSE),
            help="if no party holds a cell, refuse the run or count the cell as missing",
        ),
    )


class ArbDistDP(DiffGen):
    """The plan of a joint release; running it takes several parties."""

    name = "arbdistdp"
    title = "Joint release of arbitrarily partitioned records"
    summary = (
        "Generalised records with noisy counts, like diffgen, computed by parties that each hold "
        "some cells of every record and show them to nobody; see `sherd party`."
    )
    parameters = _parameters()
    traits = replace(
        DiffGen.traits, facts="sherd.verifying.stated_facts:jointly_generalised", needs=("joint",)
    )
    promise: ClassVar[Promise] = PROMISE

    def check(self, plan: Plan, schema: Schema) -> None:
        """As diffgen; and nothing may be dropped, for nobody sees a whole record."""
        super().check(plan, schema)
        for name in (*schema.protected, *filter(None, [plan["class_attribute"]])):
            if schema.missing_policy(name) is Missing.DROP or (
                schema.outside_policy(name) is Outside.DROP
            ):
                raise SchemaError(
                    f"records would be dropped because of the attribute '{name}'",
                    must="no `drop` for `missing` or `outside` in a joint release",
                    do="keep or recode missing cells, and clamp what lies outside",
                )
        if plan["holes"] == Holes.MISSING:
            self._check_holes(settings(plan, schema))

    def _check_holes(self, chosen: SpecialisationSettings) -> None:
        for one in chosen.hierarchies:
            if not one.keeps_missing:
                raise SchemaError(
                    f"the attribute '{one.name}' has no place for missing cells",
                    must="`missing: keep` in the schema where the plan has `holes: missing`",
                    do="keep missing cells in the schema, or refuse holes",
                )

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; the number of records matters for no part of it."""
        base = super().guarantee(plan, schema)
        notion = agreement(plan, settings(plan, schema), 2).notion()
        rows = schema.rows_per_unit if schema.unit is not None else 1
        # Group privacy: (mε, m·exp((m − 1)ε)·δ) for a person with m rows.
        factor = rows * math.exp((rows - 1) * notion.epsilon)
        person = DifferentialPrivacy(epsilon=rows * notion.epsilon, delta=factor * notion.delta)
        return replace(base, notion=person)

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Refuse: one process that holds all cells needs no joint computation."""
        del table, schema, plan, run
        raise PlanError(
            "a joint release takes several parties",
            do="run `sherd party run` at each of them; one owner alone uses diffgen",
        )


def agreement(plan: Plan, chosen: SpecialisationSettings, n: int) -> Agreement:
    """What the parties agree on, for n records."""
    return Agreement(
        hierarchies=chosen.hierarchies,
        class_name=plan["class_attribute"],
        class_labels=chosen.class_labels,
        utility=chosen.utility,
        budget=chosen.budget(plan, n),
        max_leaves=chosen.leaves(plan, n) if n > 2 else int(plan["max_leaves"]),
        overlaps=Overlaps(plan["overlaps"]),
        holes=Holes(plan["holes"]),
    )


METHOD = ArbDistDP()


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
    return Partition.of(
        agreement.hierarchies,
        oracle,
        h=agreement.budget.specialisations,
        max_leaves=agreement.max_leaves,
        class_name=agreement.class_name,
        class_labels=agreement.class_labels,
        progress=progress,
    )
