"""Releases of tables that stay where they are: the method is given counts, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sherd.engines.database_counts import (
    COUNTING,
    DatabaseCounts,
    database_source,
    spark_source,
)
from sherd.engines.spark_stages import is_spark_frame
from sherd.errors import PlanError
from sherd.release.bundle import Release
from sherd.release.method import Counting
from sherd.release.treatment_findings import treatments
from sherd.tables.address import Address, is_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sherd.engines.database_counts import TableInPlace
    from sherd.release.method import Outcome, Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema
    from sherd.tables.treatment import Treated


@dataclass(frozen=True, kw_only=True)
class CountedTable:
    """A table that is asked for counts; ``open`` gives a snapshot to ask."""

    open: Callable[[], AbstractContextManager[TableInPlace]] = field(repr=False)

    @classmethod
    def in_database(cls, source: str, query: str | None = None) -> CountedTable:
        """The answer to a query, in its database."""
        address = Address.parse(source, query=query)
        return cls(open=lambda: database_source(address))

    @classmethod
    def on_spark(cls, frame: Any) -> CountedTable:
        """A DataFrame, on its cluster."""
        return cls(open=lambda: spark_source(frame))


def counted_where_it_is(table: Any, plan: Plan) -> CountedTable | None:
    """What to count where it is: an address, or a Spark DataFrame that the method only counts."""
    if isinstance(table, str) and is_address(table):
        check_counting(plan)
        return CountedTable.in_database(table)
    if is_spark_frame(table) and isinstance(plan.spec, Counting):
        return CountedTable.on_spark(table)
    return None


def counted_in(source: str, plan: Plan) -> str | None:
    """The database that can count what the method needs of a table; None where none can."""
    if not (is_address(source) and isinstance(plan.spec, Counting)):
        return None
    dialect = COUNTING.get(source.partition(":")[0].lower())
    return None if dialect is None else dialect.title


def check_counting(plan: Plan) -> None:
    """Refuse a method that needs more of a table than counts."""
    if not isinstance(plan.spec, Counting):
        raise PlanError(
            f"the method '{plan.method}' does not run on the engine 'database'",
            must="a method that needs nothing but counts: dp-graph or diffgen",
            do="choose --engine auto; in Python, protect sherd.read(address)",
        )


def run_on_counts(
    table: CountedTable, schema: Schema, plan: Plan, run: Run
) -> tuple[Outcome, tuple[Treated, ...]]:
    """What the method makes of a table's counts, and what was done to its cells."""
    check_counting(plan)
    method: Any = plan.spec
    with table.open() as source:
        counts = DatabaseCounts(source, schema, method.counted(plan, schema))
        return method.run_on_counts(counts, schema, plan, run), counts.treated


def released(outcome: Outcome, treated: tuple[Treated, ...], manifest: dict[str, Any]) -> Release:
    """The release that an outcome makes."""
    return Release(
        tables=outcome.tables,
        manifest={**manifest, "facts": dict(outcome.facts)},
        findings=(*treatments(treated), *outcome.findings),
        documents=outcome.documents,
    )
