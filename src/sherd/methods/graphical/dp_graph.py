"""``dp-graph``: records drawn from a graphical model of noisy marginals.

After McKenna, Miklau and Sheldon (2021): measure low-order marginals with noise, fit the
distribution of maximum entropy, draw records from it. Everything released is computed from the
noisy marginals and from choices that are themselves private, so differential privacy covers it
all. With ``delta`` the noise is discrete Gaussian and accounted for as zCDP, without it discrete
Laplace and the promise is pure ε.

Departs from MST in bins from noisy fine 1-ways, in trees augmented by a class, in exact noise and
exact accounting, in a regularised fit (drawn towards independence), and in drawing by systematic
sampling. Neighbours: one record substituted, the number of records public.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from sherd.engines.database_counts import CountedAttribute
from sherd.errors import PlanError, SchemaError, did_you_mean, of_each
from sherd.guarantees import Adversary, DifferentialPrivacy, Guarantee, Proposition, Unit
from sherd.guarantees.concentrated import rho_of
from sherd.methods.graphical import row_sums
from sherd.methods.graphical.drawing import draw, refine
from sherd.methods.graphical.fragment_numbers import own_counts
from sherd.methods.graphical.learning import Design, Learned, learn
from sherd.methods.graphical.measuring import CodedTable, NoisyCounts
from sherd.methods.graphical.model_document import document
from sherd.methods.graphical.private_choice import NoisyChoice
from sherd.methods.graphical.public_grid import PublicGrid
from sherd.methods.graphical.public_rules import cuts, read_rules
from sherd.methods.graphical.row_questions import HistogramQuestion
from sherd.methods.graphical.spending import Spending
from sherd.methods.specialising.diffgen import assumptions
from sherd.release.method import Described, Outcome, Parameter, Run, epsilon_parameter
from sherd.release.traits import Suggestion, Traits
from sherd.tables.canonical_form import cell_type
from sherd.tables.schema import Missing, Schema, Type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.methods.graphical.measuring import CountSource
    from sherd.randomness import Randomness
    from sherd.release.plan import Plan
    from sherd.release.summed_rows import Answered, Question, RowOwners

Kinds = dict[str, pa.DataType]
CHOICES = ("tree", "all", "workload")

PARAMETERS: tuple[Parameter, ...] = (
    epsilon_parameter("spend this epsilon on the whole release"),
    Parameter(
        name="delta",
        kind=float,
        above=0,
        help="let the bound of epsilon fail with this probability, far below one in the number of "
        "records, and add less noise (Gaussian) in return; without delta the promise is pure "
        "epsilon",
    ),
    Parameter(
        name="choice",
        kind=str,
        choices=CHOICES,
        default="tree",
        help="measure a tree of marginals chosen under privacy, all pairs (triples with the "
        "class), or the workload you name",
    ),
    Parameter(
        name="class_attribute",
        kind=str,
        help="prepare the release for predicting this attribute: every marginal is measured "
        "together with it",
        metavar="ATTRIBUTE",
    ),
    Parameter(
        name="workload",
        kind=list,
        items=list,
        repeat=True,
        option="--marginal",
        metavar="A,B,…",
        help="measure the marginal of these 2 to 4 attributes, where the choice is workload",
    ),
    Parameter(
        name="rules",
        kind=list,
        items=dict,
        in_file=True,
        metavar="FILE",
        help="exclude combinations that cannot occur, as mappings of attributes to values; they "
        "must be known without looking at the data",
    ),
)

COVERS = "everything released: the marginals, the model and the records drawn from it"
SOURCE = Proposition(work="mckenna2021", place="section 3, with the changes of docs/methods")


def names_of(schema: Schema) -> tuple[str, ...]:
    """The attributes that a model is made of."""
    if not (names := schema.protected):
        raise SchemaError(
            "the schema has nothing to protect",
            must="at least one quasi-identifier or sensitive attribute",
            do="give an attribute that can be masked one of these roles, and its type",
        )
    return names


def design_of(plan: Plan, schema: Schema) -> Design:
    """What plan and schema say, checked; nothing of the data is needed."""
    names = names_of(schema)
    rules = read_rules(plan["rules"] or (), schema, names)
    workload = _workload(plan, names)
    target = plan["class_attribute"]
    if target is not None:
        _check_class(schema, target, names)

    def grid(name: str) -> PublicGrid:
        keeps = schema.missing_policy(name) is Missing.KEEP
        return PublicGrid.of(schema[name], keeps_missing=keeps, cuts=cuts(rules, name))

    return Design(
        grids=tuple(of_each(grid, names)),
        kind=kind_of(plan),
        total=total_of(plan, schema),
        choice=plan["choice"],
        target=None if target is None else names.index(target),
        workload=workload,
        rules=rules,
    )


def kind_of(plan: Plan) -> Literal["laplace", "gaussian"]:
    """Which noise a plan asks for."""
    return "laplace" if plan["delta"] is None else "gaussian"


def total_of(plan: Plan, schema: Schema) -> Fraction:
    """What one record may cost: ε, or ρ.

    A person with m rows is promised m times epsilon. For pure ε that is the cost of each row; of
    ρ, m substituted records cost m² times as much, so each may cost ρ(m·ε, δ)/m².
    """
    epsilon = plan.exact("epsilon")
    if plan["delta"] is None:
        return epsilon
    if plan["delta"] >= 1:
        raise PlanError("the 'delta' parameter is not valid", must="above 0 and below 1")
    rows = schema.rows_per_unit
    return rho_of(epsilon * rows, plan.exact("delta")) / rows**2


def _check_class(schema: Schema, target: str, names: tuple[str, ...]) -> None:
    if target not in names:
        raise PlanError(
            f"the class '{target}' is not released by this method",
            must="one of " + ", ".join(names),
            do=did_you_mean(target, names) or None,
        )
    kind = schema[target].type
    if not (kind.labelled or kind is Type.BOOLEAN):
        raise PlanError(
            f"the class '{target}' is of type {kind}",
            must="a category, ordinal or boolean",
            do="recode it into groups first",
        )


def _workload(plan: Plan, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    given = plan["workload"]
    if (plan["choice"] == "workload") != bool(given):
        raise PlanError(
            "the choice and the workload do not fit together",
            must="a workload where the choice is workload, and only there",
            do="name the marginals as lists of attributes, or leave out one of the two",
        )
    found: list[tuple[int, ...]] = []
    for one in given or ():
        if isinstance(one, str) or not isinstance(one, tuple) or not 2 <= len(set(one)) <= 4:
            raise PlanError("the workload cannot be understood", must="lists of 2 to 4 attributes")
        unknown = sorted(str(name) for name in one if name not in names)
        if unknown:
            raise PlanError(
                "the workload names what is not released",
                must="one of " + ", ".join(names),
                got=", ".join(unknown),
            )
        found.append(tuple(sorted({names.index(name) for name in one})))
    if len(set(found)) < len(found):
        raise PlanError("the workload names a marginal twice", must="distinct marginals")
    return tuple(found)


class DPGraph:
    """The method as the contract of ``sherd.release.method`` wants it."""

    name = "dp-graph"
    title = "Records drawn from a graphical model of noisy marginals"
    summary = (
        "Counts how often values occur together, with noise, fits a model to the noisy counts and "
        "draws as many new records from it. No released row belongs to a person."
    )
    parameters = PARAMETERS
    traits = Traits(
        family="graphical",
        rows_are_drawn=True,
        noise="sherd.auditing.noise.model_noise:check",
        drawing="sherd.auditing.case.record_drawing:drawn_rows",
        documents=("model",),
        verifier="sherd.verifying.graphical_models:verify",
        verified_in_pieces=True,
        facts="sherd.verifying.graphical_models:expected_facts",
        alternative={},
        query="sherd.methods.graphical.measured_answers:answer",
        engines=("memory", "database"),
        # Of fewer records, noise at ε = 1 leaves little of how attributes go together.
        suggestion=Suggestion(
            place=1,
            gives="new records that keep how attributes go together; "
            "differential privacy of everything released",
            all_differential=True,
            settings={"epsilon": 1.0, "delta": 1e-9},
            least_rows=1_000,
        ),
    )

    def describe(self) -> list[Described]:
        """The promises of the method, in general."""
        return [
            Described(
                name=None,
                promise=DifferentialPrivacy.definition()
                + "; with delta, but for a probability of at most δ",
                covers=COVERS,
                source=SOURCE.words(),
            )
        ]

    def check(self, plan: Plan, schema: Schema) -> None:
        """Refuse a plan that the schema does not allow."""
        design_of(plan, schema)

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""
        design_of(plan, schema)
        rows = schema.rows_per_unit if schema.unit is not None else 1
        return Guarantee(
            notion=DifferentialPrivacy(
                epsilon=float(plan["epsilon"]) * rows, delta=float(plan["delta"] or 0)
            ),
            unit=Unit.RECORD if schema.unit is None else Unit.PERSON,
            covers=COVERS,
            adversary=Adversary.SEES_RELEASE,
            assumes=assumptions(schema, names_of(schema)),
            source=SOURCE,
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Measure the table, and draw a release from what was measured."""
        coded = code(table, schema, design_of(plan, schema))
        kinds = {name: table.schema.field(name).type for name in table.column_names}
        return self._released(coded, schema, plan, run, kinds)

    # where the table is: sherd.release.table_source

    def counted(self, plan: Plan, schema: Schema) -> list[CountedAttribute]:
        """Every attribute of the model, on its public grid."""
        return [
            CountedAttribute(
                name=grid.name, codes=partial(grid.codes, missing_values=schema.missing_values)
            )
            for grid in design_of(plan, schema).grids
        ]

    def run_on_counts(self, counts: CountSource, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Draw a release from noisy counts of a table that stays where it is."""
        kinds = {name: cell_type(schema[name]) for name in schema.released}
        return self._released(counts, schema, plan, run, kinds)

    def _released(
        self, counts: CountSource, schema: Schema, plan: Plan, run: Run, kinds: Kinds
    ) -> Outcome:
        design = design_of(plan, schema)
        learned = learn(
            design,
            NoisyCounts(counts, run.randomness),
            NoisyChoice(counts, run.randomness, design.kind),
            run.progress,
        )
        return released(learned, schema, kinds, generator(run))

    # by rows, from sums: sherd.release.summed_rows

    def check_rows(self, plan: Plan, schema: Schema) -> None:
        """Refuse a plan that sums of histograms cannot carry out."""
        row_sums.check_design(design_of(plan, schema))

    def next_question(
        self, plan: Plan, schema: Schema, among: RowOwners, answered: Answered
    ) -> dict[str, Any] | None:
        """The histograms to ask for after these answers."""
        design = design_of(plan, schema)
        question = row_sums.next_question(design, among, _read(design, answered))
        return None if question is None else question.as_data()

    def length(self, plan: Plan, schema: Schema, question: Question) -> int:
        """How many counts answer a question."""
        return HistogramQuestion.read(design_of(plan, schema), question).length

    def price(self, plan: Plan, schema: Schema, questions: Sequence[Question]) -> Fraction:
        """What all these histograms cost; never more than the plan has."""
        design = design_of(plan, schema)
        account = Spending(kind=design.kind, total=design.total)
        for one in questions:
            account.spend(HistogramQuestion.read(design, one).cost)
        return account.spent

    def own_numbers(
        self,
        table: pa.Table,
        schema: Schema,
        plan: Plan,
        among: RowOwners,
        question: Question,
        randomness: Randomness,
    ) -> NDArray[np.int64]:
        """One owner's noisy histograms."""
        design = design_of(plan, schema)
        asked = HistogramQuestion.read(design, question)
        return own_counts(code(table, schema, design), among, asked, randomness)

    def release_rows(
        self, plan: Plan, schema: Schema, among: RowOwners, answered: Answered, run: Run
    ) -> Outcome:
        """Records drawn from the model that the sums lead to."""
        design = design_of(plan, schema)
        learned = row_sums.learn_from_sums(design, among, _read(design, answered))
        kinds = {name: PLAIN.get(schema[name].type, pa.string()) for name in schema.protected}
        return released(learned, schema, kinds, generator(run))


def _read(design: Design, answered: Answered) -> list[tuple[HistogramQuestion, NDArray[np.int64]]]:
    return [(HistogramQuestion.read(design, one), sums) for one, sums in answered]


def code(table: pa.Table, schema: Schema, design: Design) -> CodedTable:
    """The fine code of every cell: the only thing made of the table."""
    columns = [grid.codes(table.column(grid.name), schema.missing_values) for grid in design.grids]
    return CodedTable(columns, [grid.size for grid in design.grids])


def generator(run: Run) -> np.random.Generator:
    """Random numbers for post-processing, seeded from the run's own source."""
    return np.random.default_rng([int(word) for word in run.randomness.words(4)])


PLAIN: dict[Type, Any] = {
    Type.NUMBER: pa.float64(),
    Type.INTEGER: pa.int64(),
    Type.DATE: pa.date32(),
    Type.DATETIME: pa.timestamp("us", tz="UTC"),
    Type.BOOLEAN: pa.bool_(),
}


def released(learned: Learned, schema: Schema, kinds: Kinds, rng: np.random.Generator) -> Outcome:
    """The release that a learned model leads to; no data takes part."""
    bins = draw(learned.model, learned.rows, rng)
    columns = {}
    for grid, binning in zip(learned.design.grids, learned.binnings, strict=True):
        drawn = bins.pop(0)  # of many rows, no more is held than is needed
        kind = kinds[grid.name]
        if pa.types.is_null(kind):  # that a column has no value at all is a fact about the data
            kind = PLAIN.get(schema[grid.name].type, pa.string())
        columns[grid.name] = grid.column(refine(drawn, binning, rng), rng, kind)
    order = [name for name in kinds if name in columns]
    facts = {
        "rows": learned.rows,
        "measured": [
            [learned.design.grids[a].name for a in one.request.marginal.attributes]
            for one in learned.measured
        ],
        "left_out": list(schema.untouched),
    }
    return Outcome(
        tables={"data": pa.table({name: columns[name] for name in order})},
        facts=facts,
        documents={"model": document(learned)},
    )


METHOD = DPGraph()
