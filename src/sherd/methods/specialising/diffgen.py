"""``diffgen``: generalised records with noisy counts, by top-down specialisation.

mohammed2011 (DiffGen) for one owner, with the choices and the budget of wang2020, Algorithm 1
(see ``specialise``). Values are generalised step by step; each step is chosen under
differential privacy by how well it tells the classes apart; the leaves' counts get discrete
Laplace noise, leaves without records included.

Departs from the papers in taking split points of measured attributes from a public grid
instead of the values that occur, in choosing by permute-and-flip (never worse in expectation
than the exponential mechanism), in calibrating everything to substituted records, so that the
class is covered too, and in exact discrete noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sherd.engines.database_counts import CountedAttribute
from sherd.errors import PlanError, SchemaError, of_each
from sherd.guarantees import (
    Adversary,
    Assumption,
    DifferentialPrivacy,
    Guarantee,
    Proposition,
    Unit,
)
from sherd.methods.ranking.ranking_promise import Promise
from sherd.methods.specialising.hierarchy import BINS, MISSING, Hierarchy
from sherd.methods.specialising.partition import Partition
from sherd.methods.specialising.plain_oracle import ExactNoise, PlainOracle, oracle_over
from sherd.methods.specialising.scores import NEED_CLASS, UTILITIES, Budget, sensitivity
from sherd.release.method import Described, Outcome, Parameter, Run, epsilon_parameter
from sherd.release.traits import Traits
from sherd.tables.schema import Missing, Outside, Schema, Type

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.graphical.measuring import CountSource
    from sherd.methods.specialising.plain_oracle import CountingOracle
    from sherd.release.plan import Plan

PARAMETERS: tuple[Parameter, ...] = (
    epsilon_parameter("spend this epsilon on the whole release: half on choices, half on counts"),
    Parameter(
        name="h",
        kind=int,
        least=1,
        default=10,
        help="specialise this many times",
    ),
    Parameter(
        name="class_attribute",
        kind=str,
        help="prepare the release for predicting this attribute: it is not generalised, and each "
        "of its values is counted separately",
        metavar="ATTRIBUTE",
    ),
    Parameter(
        name="utility",
        kind=str,
        choices=UTILITIES,
        help="score specialisations by max (the paper's; records that a majority vote gets right) "
        "or gain (how many more it gets right), info-gain, or spread, which needs no class; the "
        "default is max with a class and spread without",
    ),
    Parameter(
        name="bins",
        kind=int,
        least=2,
        default=BINS,
        help="choose splits of measured attributes on a public grid of this many cells",
    ),
    Parameter(
        name="signal",
        kind=float,
        least=0,
        default=1.0,
        help="make only so many combinations of values that a class of each holds, on average, as "
        "many records as this many standard deviations of noise; 0 sets no limit",
    ),
    Parameter(
        name="max_leaves",
        kind=int,
        least=1,
        default=100_000,
        help="make at most this many combinations of values, whatever the number of records",
    ),
)

PROMISE = Promise(
    help="differential privacy of every record",
    notion=lambda epsilon: DifferentialPrivacy(epsilon=epsilon),
    covers="everything released: which values are told apart, and the counts of every combination "
    "of them, the class included",
    source=Proposition(work="mohammed2011", place="Theorem 2; wang2020, Algorithm 1"),
)


@dataclass(frozen=True, kw_only=True)
class SpecialisationSettings:
    """What plan and schema say, ready for a run."""

    hierarchies: tuple[Hierarchy, ...]
    class_hierarchy: Hierarchy | None
    class_labels: tuple[str, ...]
    utility: str

    def budget(self, plan: Plan, n: int) -> Budget:
        """How epsilon is shared out for n records."""
        return Budget(
            epsilon=plan.exact("epsilon"),
            specialisations=plan["h"],
            numeric=sum(one.numeric for one in self.hierarchies),
            sensitivity=sensitivity(self.utility, n),
        )

    def leaves(self, plan: Plan, n: int) -> int:
        """The most leaves that n records are spread over; n is public."""
        wanted = self.budget(plan, n).leaves(n, len(self.class_labels), plan.exact("signal"))
        return min(wanted, int(plan["max_leaves"]))


def settings(plan: Plan, schema: Schema) -> SpecialisationSettings:
    """The hierarchies and the utility of a plan; raises where they do not fit together."""
    target = plan["class_attribute"]
    features = [name for name in schema.protected if name != target]
    if not features:
        raise SchemaError(
            "the schema has nothing to generalise",
            must="at least one quasi-identifier or sensitive attribute besides the class",
        )
    utility = plan["utility"] or ("spread" if target is None else "max")
    if target is None and utility in NEED_CLASS:
        raise PlanError(
            f"the utility '{utility}' needs a class",
            must="spread, where no class is given",
            do="name a class_attribute, or leave out the utility",
        )
    labelled = _class_hierarchy(schema, target) if target is not None else None

    def hierarchy(name: str) -> Hierarchy:
        keeps = schema.missing_policy(name) is Missing.KEEP
        return Hierarchy.of(schema[name], bins=plan["bins"], keeps_missing=keeps)

    return SpecialisationSettings(
        hierarchies=tuple(of_each(hierarchy, features)),
        class_hierarchy=labelled,
        class_labels=("",) if labelled is None else _class_labels(labelled),
        utility=utility,
    )


def _class_hierarchy(schema: Schema, target: str) -> Hierarchy:
    attribute = schema[target]
    if target not in schema.released:
        raise PlanError(f"the class '{target}' is an identifier", must="an attribute to release")
    if not (attribute.type.labelled or attribute.type is Type.BOOLEAN):
        raise PlanError(
            f"the class '{target}' is of type {attribute.type}",
            must="a category, ordinal or boolean",
            do="recode it into groups first",
        )
    keeps = schema.missing_policy(target) is Missing.KEEP
    return Hierarchy.of(attribute, keeps_missing=keeps)


def _class_labels(one: Hierarchy) -> tuple[str, ...]:
    """The labels in the order of their codes."""
    given = one.axis.labels or ("false", "true")
    labels = dict(zip(one.code_of_position, given, strict=True))
    return tuple(
        labels.get(code, MISSING if one.keeps_missing and code == one.size - 1 else "")
        for code in range(one.size)
    )


def assumptions(schema: Schema, names: tuple[str, ...]) -> tuple[Assumption, ...]:
    """What a guarantee over these attributes takes for granted."""
    assumed = [Assumption.PUBLIC_SIZE, Assumption.PARAMETERS_PUBLIC, Assumption.REFUSALS_SEEN]
    for name in names:
        attribute = schema[name]
        if attribute.type.measured:
            assumed.append(Assumption.PUBLIC_BOUNDS)
        elif attribute.type.labelled:
            from_data = attribute.values_from_data
            assumed.append(
                Assumption.ORDER_FROM_DATA if from_data else Assumption.PUBLIC_CATEGORIES
            )
        dropped = schema.outside_policy(name) is Outside.DROP
        if dropped or schema.missing_policy(name) is Missing.DROP:
            assumed.append(Assumption.RECORDS_DROPPED)
    if schema.unit is None:
        assumed.append(Assumption.ONE_ROW_PER_PERSON)
    return tuple(dict.fromkeys(assumed))


class DiffGen:
    """The method as the contract of ``sherd.release.method`` wants it."""

    name = "diffgen"
    title = "Generalised records with noisy counts"
    summary = (
        "Generalises values step by step where it tells a class attribute's values apart, and "
        "releases how many records of each class every combination of groups has, with noise."
    )
    parameters = PARAMETERS
    traits = Traits(
        family="specialising",
        tables=("data", "records"),
        verifier="sherd.verifying.generalised_records:verify",
        verified_in_pieces=True,
        facts="sherd.verifying.stated_facts:generalised",
        drawing="sherd.auditing.case.method_drawing:records",
        noise="sherd.auditing.noise.count_noise:check",
        engines=("memory", "database"),
    )
    promise: ClassVar[Promise] = PROMISE

    def describe(self) -> list[Described]:
        """The one promise of the method, in general."""
        one = self.promise
        return [
            Described(
                name=None,
                promise=one.notion(1.0).definition(),
                covers=one.covers,
                not_covered=one.not_covered,
                source=one.source.words(),
            )
        ]

    def check(self, plan: Plan, schema: Schema) -> None:
        """Refuse a plan that the schema does not allow."""
        settings(plan, schema)

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""
        chosen = settings(plan, schema)
        names = tuple(one.name for one in chosen.hierarchies)
        if chosen.class_hierarchy is not None:
            names += (chosen.class_hierarchy.name,)
        per_person = schema.rows_per_unit if schema.unit is not None else 1
        return Guarantee(
            notion=self.promise.notion(float(plan["epsilon"]) * per_person),
            unit=Unit.RECORD if schema.unit is None else Unit.PERSON,
            covers=self.promise.covers,
            adversary=Adversary.SEES_RELEASE,
            assumes=assumptions(schema, names),
            source=self.promise.source,
            not_covered=self.promise.not_covered,
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Generalise the table; ``data`` holds the counts, ``records`` a row for each record."""
        return _outcome(partition_of(table, schema, plan, run), schema, plan, table.num_rows)

    # where the table is: sherd.release.table_source

    def counted(self, plan: Plan, schema: Schema) -> list[CountedAttribute]:
        """Every attribute on its hierarchy, and the class as the last."""
        chosen = settings(plan, schema)
        every = (*chosen.hierarchies, *filter(None, (chosen.class_hierarchy,)))
        return [
            CountedAttribute(
                name=one.name, codes=partial(one.codes, missing_values=schema.missing_values)
            )
            for one in every
        ]

    def run_on_counts(self, counts: CountSource, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """The same of a table that stays where it is."""
        chosen = settings(plan, schema)
        oracle = oracle_over(
            counts,
            [one.size for one in chosen.hierarchies],
            None if chosen.class_hierarchy is None else len(chosen.class_labels),
            utility=chosen.utility,
            budget=chosen.budget(plan, counts.rows),
            noise=ExactNoise(run.randomness),
        )
        partition = _specialised(chosen, oracle, plan, run, counts.rows)
        return _outcome(partition, schema, plan, counts.rows)


def _outcome(partition: Partition, schema: Schema, plan: Plan, rows: int) -> Outcome:
    return Outcome(
        tables={"data": partition.weighted(), "records": partition.expanded(rows)},
        facts=facts(partition, schema, plan, rows),
    )


def facts(partition: Partition, schema: Schema, plan: Plan, rows: int) -> dict[str, object]:
    """What a manifest says of a partition: the steps that led to it, all of them released."""
    steps = []
    for step in partition.specialised.steps:
        one = partition.hierarchies[step.attribute]
        value = one.label(step.edges[0], step.edges[-1])
        steps.append({"attribute": one.name, "value": value, "edges": list(step.edges)})
    return {
        "rows": rows,
        "leaves": partition.leaves,
        "specialisations": steps,
        "left_out": [name for name in schema.untouched if name != plan["class_attribute"]],
    }


def partition_of(table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Partition:
    """The partition of a prepared table, as a value that can be printed and drawn."""
    chosen = settings(plan, schema)
    codes, classes = encode(table, schema, chosen)
    oracle = PlainOracle(
        codes,
        [one.size for one in chosen.hierarchies],
        classes,
        len(chosen.class_labels),
        utility=chosen.utility,
        budget=chosen.budget(plan, table.num_rows),
        noise=ExactNoise(run.randomness),
    )
    return _specialised(chosen, oracle, plan, run, table.num_rows)


def _specialised(
    chosen: SpecialisationSettings, oracle: CountingOracle, plan: Plan, run: Run, rows: int
) -> Partition:
    return Partition.of(
        chosen.hierarchies,
        oracle,
        h=plan["h"],
        max_leaves=chosen.leaves(plan, rows),
        class_name=plan["class_attribute"],
        class_labels=chosen.class_labels,
        progress=run.progress,
    )


def encode(
    table: pa.Table, schema: Schema, chosen: SpecialisationSettings
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """The codes of every attribute, and of the class (0 where there is none)."""
    codes = [one.codes(table.column(one.name), schema.missing_values) for one in chosen.hierarchies]
    target = chosen.class_hierarchy
    if target is None:
        return codes, np.zeros(table.num_rows, np.int64)
    return codes, target.codes(table.column(target.name), schema.missing_values)


METHOD = DiffGen()
