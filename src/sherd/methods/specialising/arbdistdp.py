"""``arbdistdp``: the plan of a joint release, which its parties agree on.

Parameters, checks and hierarchies are those of ``diffgen``; the computation is that of
``sherd.joint``, by ``sherd party run`` at every party. What the plan promises is
(epsilon, delta)-differential privacy, to outsiders and, about the others' cells, to each party:
delta stands for the finite number of bits in the noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from sherd.errors import PlanError, SchemaError
from sherd.guarantees import DifferentialPrivacy, Guarantee, Proposition
from sherd.methods.ranking.ranking_promise import Promise
from sherd.methods.specialising.diffgen import PARAMETERS, DiffGen, SpecialisationSettings, settings
from sherd.methods.specialising.joint_specialisation import Agreement
from sherd.methods.specialising.shared_oracle import JOINT_UTILITIES
from sherd.release.method import Parameter
from sherd.secure.engine.cell_holders import Holes, Overlaps
from sherd.tables.schema import Missing, Outside

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.release.method import Outcome, Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

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
    changed: dict[str, dict[str, Any]] = {
        "utility": {"choices": JOINT_UTILITIES},
        "max_leaves": {"default": MAX_LEAVES},
    }
    return (
        *(replace(one, **changed.get(one.name, {})) for one in PARAMETERS),
        Parameter(
            name="overlaps",
            kind=str,
            choices=tuple(Overlaps),
            default=str(Overlaps.REFUSE),
            help="a cell that several parties hold: refuse the run, take the first named party's, "
            "or the value that most of them hold",
        ),
        Parameter(
            name="holes",
            kind=str,
            choices=tuple(Holes),
            default=str(Holes.REFUSE),
            help="a cell that no party holds: refuse the run, or count it as missing",
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
    promises: ClassVar[dict[str, Promise]] = {"dp": PROMISE}

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
        return replace(
            base,
            notion=DifferentialPrivacy(epsilon=rows * notion.epsilon, delta=factor * notion.delta),
            covers=PROMISE.covers,
            source=PROMISE.source,
            not_covered=PROMISE.not_covered,
        )

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
