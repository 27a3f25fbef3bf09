"""What the five ranking methods share: parameters, checks, the promise, and the run.

A method of this family is a value of ``Masking``: which sums it takes of a cluster, how
sensitive they are, and which promises it can make. Notation: R the width of an attribute's
axis in steps, ε_a its share of epsilon.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.engines import ENGINES, InMemory
from sherd.errors import PlanError, SchemaError, of_each
from sherd.methods.ranking.allocation import Scales, cluster_sizes, epsilons
from sherd.methods.ranking.column_masking import ColumnJob, mask_column
from sherd.methods.ranking.ranking_promise import Promise, promise
from sherd.randomness.order import inverse
from sherd.release.method import (
    REAL_SPEND,
    Committed,
    Described,
    Finding,
    Outcome,
    Parameter,
    Run,
    epsilon_parameter,
)
from sherd.release.traits import Suggestion, Traits
from sherd.tables.axis import Axis
from sherd.tables.coding import arrow_array
from sherd.tables.number_scale import axis_of
from sherd.tables.schema import Attribute, Missing, Outside, Schema, Type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sherd.engines.spark_stages import SparkStages
    from sherd.guarantees import Guarantee
    from sherd.methods.ranking.individual_ranking import Clusters
    from sherd.methods.ranking.sensitivity import Shifts
    from sherd.release.plan import Plan

CENTROIDS_FLOOR = 0.001
"""Least scale under the promise ``centroids``: enlarging a scale of 0 would leave it 0."""

_SHARED = (
    epsilon_parameter("spend this epsilon on the whole release, shared out over its attributes"),
    Parameter(
        name="weights",
        kind=dict,
        help="share epsilon out by these weights, one number per attribute; 1 where none is given",
        metavar="ATTRIBUTE=NUMBER",
        option="--weight",
    ),
    Parameter(
        name="min_scale",
        kind=float,
        least=0,
        help="add at least this scale of noise to a released value, as a share of the attribute's "
        "range; 0.001 under the promise centroids unless given, none otherwise",
    ),
    Parameter(
        name="category_order",
        kind=str,
        choices=("declared", "frequency"),
        default="declared",
        help="order categories as the schema declares them, or by frequency in the data as the "
        "papers do; the guarantee then names that order as not covered",
    ),
    Parameter(
        name="domain_from_data",
        kind=float,
        least=1,
        help="take undeclared domains from the data as [0, FACTOR·max]; the guarantee then names "
        "them as not covered",
        metavar="FACTOR",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Masking:
    """A ranking method: centroids with noise, attribute by attribute.

    ``least_k`` is 0 for methods that mask every value by itself. ``depth`` is how many of
    a cluster's smallest and largest values its sums and sensitivities look at. ``centre`` and
    ``reach`` say in words what ``sums`` and ``sensitivity`` compute (see ``Traits.masking``): the
    audit has an account of its own.
    """

    name: str
    title: str
    summary: str
    promises: dict[str, Promise]
    default_promise: str | None
    least_k: int
    depth: int = 1
    sums: Callable[[Clusters], NDArray[np.int64]]
    sensitivity: Callable[[Clusters, int], NDArray[np.int64]]
    shifts: Callable[[Clusters, int], Shifts] | None = None
    centre: str
    reach: str
    suggestion: Suggestion | None = None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter the method takes."""
        own = [
            Parameter(
                name="guarantee",
                kind=str,
                choices=tuple(self.promises),
                default=self.default_promise,
                help="make this promise; "
                + "; ".join(f"{name}: {p.help}" for name, p in self.promises.items()),
            )
        ]
        if self.least_k:
            own += [
                Parameter(
                    name="k",
                    kind=int,
                    least=self.least_k,
                    required=True,
                    short="-k",
                    help="put at least this many records into every cluster",
                ),
                Parameter(
                    name="k_of",
                    kind=dict,
                    help="use another k for this attribute",
                    metavar="ATTRIBUTE=NUMBER",
                ),
            ]
        return (*_SHARED[:1], *own, *_SHARED[1:])

    @property
    def traits(self) -> Traits:
        """Rows are records, except in a strict release, which has ordered centroids only."""
        return Traits(
            family="ranking",
            rows_are_records=True,
            unless={"guarantee": "strict"},
            masking={"centre": self.centre, "reach": self.reach},
            noise="sherd.auditing.noise.masked_noise:check",
            verifier="sherd.verifying.masked_tables:verify",
            verified_in_pieces=True,
            facts="sherd.verifying.stated_facts:masked",
            drawing="sherd.auditing.case.method_drawing:centroids",
            alternative={} if self.default_promise else {"guarantee": "paper"},
            engines=(*ENGINES, "spark"),
            suggestion=self.suggestion,
        )

    def describe(self) -> list[Described]:
        """Every promise the method can make, in general."""
        return [
            Described(
                name=name,
                promise=one.notion(1.0).definition(),
                covers=one.covers,
                not_covered=(*(a.words for a in one.assumes if a.leaks), *one.not_covered),
                source=one.source.words(),
            )
            for name, one in self.promises.items()
        ]

    def check(self, plan: Plan, schema: Schema) -> None:
        """Refuse a plan that the schema, or the promise it asks for, does not allow."""
        if not schema.protected:
            raise SchemaError(
                "the schema has nothing to protect",
                must="at least one quasi-identifier or sensitive attribute",
                do="give an attribute that can be masked one of these roles, and its type",
            )
        if plan["guarantee"] is None:
            raise PlanError(
                f"the method '{self.name}' does not choose a promise for you",
                must="one of " + ", ".join(self.promises),
                got="nothing",
                do="add --guarantee: the paper's own (paper) takes the clusters as public and in "
                "truth spends more than epsilon; enlarged noise (centroids) does not",
            )
        shares = epsilons(plan, schema)
        if self.least_k:
            cluster_sizes(plan, schema, self.least_k)
        of_each(lambda name: self._check_attribute(plan, schema[name], shares[name]), shares)
        if plan["guarantee"] == "strict":
            _check_strict(plan, schema)

    def _check_attribute(self, plan: Plan, attribute: Attribute, share: Fraction) -> None:
        if plan["category_order"] == "frequency" and attribute.type is Type.CATEGORY:
            return
        undeclared = attribute.type.measured and attribute.domain is None
        if undeclared and plan["domain_from_data"] is not None:
            return
        try:
            steps = Axis.of(attribute).steps
        except SchemaError as error:
            if undeclared or (attribute.type.labelled and attribute.labels is None):
                option = "--domain-from-data 2.0" if undeclared else "--category-order frequency"
                do = f"{error.do}, or take it from the data by {option}: the guarantee will name it"
                raise SchemaError(error.what, must=error.must, got=error.got, do=do) from None
            raise
        # Noise that could not be drawn is refused here, before any data is read.
        Scales.laplace(np.array([steps]), share)

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""
        return promise(self.promises[plan["guarantee"]], plan, schema)

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Mask every protected attribute; rows come out shuffled unless the run says not to."""
        jobs = self._jobs(table, schema, plan, run)
        if plan["guarantee"] == "strict":
            from sherd.methods.ranking.strict_release import ordered_centroids

            return ordered_centroids(jobs, run)
        rows = table.num_rows
        # Half the memory of 64-bit row numbers, which no table that fits a machine needs.
        if run.shuffle:
            places = run.engine.places(run.randomness, rows, run.threads)
        else:
            places = np.arange(rows, dtype=np.uint32)
        masked: dict[str, pa.ChunkedArray] = {}
        findings: list[Finding] = []
        # One piece of memory a worker for all its columns, so that the system need not give
        # out fresh pages for every sort.
        own = threading.local()

        def work(job: ColumnJob) -> tuple[pa.ChunkedArray, list[Finding]]:
            if self.least_k and not hasattr(own, "words"):
                own.words = run.engine.array(rows, np.uint64)
            column, findings = mask_column(job, places, run.engine, getattr(own, "words", None))
            return run.engine.keep(column), findings

        workers = min(run.threads, run.engine.columns_at_once or run.threads)
        with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
            results = pool.map(work, jobs)
            for done, (job, (column, found)) in enumerate(zip(jobs, results, strict=True), 1):
                masked[job.axis.name] = column
                findings += found
                run.progress("masking", done, len(jobs))
        order_of = cache(lambda: inverse(places))
        columns = [
            masked[name]
            if name in masked
            else run.engine.keep(table.column(name).take(arrow_array(order_of())))
            for name in table.column_names
        ]
        data = pa.table(columns, names=table.column_names)
        present = {name: len(column) - column.null_count for name, column in masked.items()}
        return Outcome(
            tables={"data": data},
            facts={"rows": rows},
            findings=(*_in_all(findings, jobs, present), *findings),
            order_of=order_of,
        )

    def commit_on_cluster(
        self, frame: Any, schema: Schema, plan: Plan, run: Run, stages: SparkStages
    ) -> Committed:
        """Everything up to the noise, on a cluster (see ``distributed_run``)."""
        from sherd.methods.ranking import distributed_run as cluster
        from sherd.methods.ranking.distributed_form import Form, kind_of

        cluster.check_plan(plan, run.randomness.is_seeded)
        nothing = {n: pa.array([], kind_of(schema[n])) for n in schema.released}
        jobs = self._jobs(pa.table(nothing), schema, plan, run)
        form = Form.of(schema.released, jobs, schema, run)
        axes = tuple(job.axis for job in jobs) if self.least_k else ()
        rows = cluster.take_rows(frame, schema, run, stages, axes)
        if not self.least_k:
            return cluster.mask_each(jobs, rows, form, stages)
        outcome = cluster.rank_and_mask(jobs, rows, form, stages)
        findings = (*_in_all(list(outcome.findings), jobs, outcome.present), *outcome.findings)
        return replace(outcome, findings=findings)

    def _jobs(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> list[ColumnJob]:
        shares = epsilons(plan, schema)
        sizes = cluster_sizes(plan, schema, self.least_k) if self.least_k else {}
        names = [name for name in table.column_names if name in shares]
        streams = run.randomness.spawn(len(names))
        jobs = []
        for name, stream in zip(names, streams, strict=True):
            axis = axis_of(
                schema[name],
                table.column(name),
                domain_from_data=plan["domain_from_data"],
                by_frequency=plan["category_order"] == "frequency",
                missing_values=schema.missing_values,
            )
            floor = plan["min_scale"]
            if floor is None:
                floor = CENTROIDS_FLOOR if plan["guarantee"] == "centroids" else 0.0
            jobs.append(
                ColumnJob(
                    column=table.column(name),
                    axis=axis,
                    epsilon=shares[name],
                    k=sizes.get(name, 1),
                    masking=self,
                    enlarge=plan["guarantee"] == "centroids",
                    floor=Fraction(repr(floor)) * axis.steps,
                    missing_values=schema.missing_values,
                    randomness=stream,
                    fair=run.fair_ties,
                    coded=run.coded and run.engine.name == InMemory.name,
                )
            )
        return jobs


def _check_strict(plan: Plan, schema: Schema) -> None:
    if plan["category_order"] != "declared" or plan["domain_from_data"] is not None:
        raise PlanError(
            "a strict release takes nothing from the data",
            must="declared domains and category orders",
            do="leave out --domain-from-data and --category-order",
        )
    for name in schema.protected:
        if schema[name].values_from_data:
            raise SchemaError(
                f"the values of the attribute '{name}' were taken from the data",
                must="a list that is public knowledge",
                do="decide the list, then delete `values_from_data` from the schema",
            )
        # Neither policy is carried out by refusing: see ``sherd.tables.prepare``.
        if schema.missing_policy(name) not in (Missing.REFUSE, Missing.RECODE):
            raise SchemaError(
                f"missing cells of the attribute '{name}' would be kept apart or dropped, which "
                "no epsilon covers",
                must="`missing: refuse` or `missing: recode` for a strict release",
                got=f"`missing: {schema.missing_policy(name)}`",
            )
        if schema.outside_policy(name) is Outside.DROP:
            raise SchemaError(
                f"values of the attribute '{name}' outside its domain would be dropped, which no "
                "epsilon covers",
                must="`outside: clamp` or `outside: refuse` for a strict release",
                got="`outside: drop`",
            )


def _in_all(
    findings: list[Finding], jobs: list[ColumnJob], present: Mapping[str, int]
) -> list[Finding]:
    """The two numbers an owner must see first, over all attributes."""
    share = {job.axis.name: float(job.epsilon) for job in jobs}
    losses = [f for f in findings if f.name == "loss factor"]
    zeros = [f for f in findings if f.name == "share without noise"]
    totals = []
    if losses:
        spent = sum(float(f.value) * share[str(f.attribute)] for f in losses)
        totals.append(
            Finding(
                name=REAL_SPEND,
                value=spent,
                meaning="what the ordered centroids really cost when one record changes and the "
                "clusters are made again, under the noise of this table",
            )
        )
    if zeros:
        weights = [present[str(f.attribute)] for f in zeros]
        bare = float(np.average([float(f.value) for f in zeros], weights=weights))
        totals.append(
            Finding(
                name="share without noise",
                value=bare,
                meaning="share of all cells that were published without any noise",
                risk=bare,
            )
        )
    return totals


def plain_sums(clusters: Clusters) -> NDArray[np.int64]:
    """The sum of each cluster."""
    return clusters.sums


def whole_width(clusters: Clusters, width: int) -> NDArray[np.int64]:
    """Global sensitivity: the width of the axis, whatever the data."""
    return np.full(len(clusters.sums), width, np.int64)
