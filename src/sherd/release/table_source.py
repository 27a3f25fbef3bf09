"""Where a release's table comes from: the engine it needs, and how it is read for that engine.

Of a table that stays where it is, the method is given counts and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sherd.engines import choose
from sherd.engines.database_counts import (
    COUNTING,
    DatabaseCounts,
    database_source,
    spark_source,
)
from sherd.engines.spark_stages import is_spark_frame
from sherd.errors import PlanError
from sherd.release.bundle import Release
from sherd.release.distributed_release import treatments
from sherd.release.method import Counting
from sherd.tables.read import extent, read_blocks
from sherd.tables.sql import Address, is_address
from sherd.tables.sql_scale import UncountableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from sherd.engines import Choice
    from sherd.engines.database_counts import TableInPlace
    from sherd.release.method import Outcome, Run
    from sherd.release.plan import Plan
    from sherd.tables.prepare import Treated
    from sherd.tables.schema import Schema


def engine_for(
    source: str, schema: Schema, plan: Plan, *, name: str = "auto", memory: int | None = None
) -> Choice:
    """The engine that a table needs for a plan, or the one that is named."""
    counts_in = counted_in(source, plan)
    if name == "database":
        check_counting(plan)
    sorts = set(plan.spec.traits.engines) & {"columns", "duckdb"}
    only_memory = None if sorts else f"the method '{plan.method}' runs in memory only"
    size = extent(source, columns=len(schema.attributes))
    return choose(
        name,
        memory=memory,
        rows=size.rows,
        column_bytes=size.column_bytes,
        counts_in=counts_in,
        only_memory=only_memory if name == "auto" else None,
    )


def open_source(
    source: str,
    schema: Schema,
    query: str | None,
    *,
    engine: str = "memory",
    lenient: bool = False,
    uncounted: Callable[[], None] | None = None,
) -> Callable[[], Any]:
    """A function that reads a table, or its blocks, or says where it is to be counted.

    ``uncounted`` is told when a database cannot count a table, which is then read into memory;
    without it, such a table is refused.
    """
    from sherd.datasets.sources import read

    def whole() -> Any:
        return read(source, schema=schema, query=query, lenient=lenient)

    def otherwise() -> Any:
        assert uncounted is not None
        uncounted()
        return whole()

    if engine == "database":
        fallback = None if uncounted is None else otherwise
        counted = CountedTable.in_database(source, query, fallback)
        return lambda: counted
    if engine != "memory" and not source.startswith(":"):
        return lambda: read_blocks(source, schema, query=query)
    return whole


@dataclass(frozen=True, kw_only=True)
class CountedTable:
    """A table that is asked for counts; ``open`` gives a snapshot to ask.

    ``otherwise`` reads it into memory where it cannot be counted; without it, it is refused.
    """

    open: Callable[[], AbstractContextManager[TableInPlace]] = field(repr=False)
    otherwise: Callable[[], pa.Table] | None = field(default=None, repr=False)

    @classmethod
    def in_database(
        cls,
        source: str,
        query: str | None = None,
        otherwise: Callable[[], pa.Table] | None = None,
    ) -> CountedTable:
        """The answer to a query, in its database."""
        address = Address.parse(source, query=query)
        return cls(open=lambda: database_source(address), otherwise=otherwise)

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
) -> tuple[Outcome, tuple[Treated, ...]] | pa.Table:
    """What the method makes of a table's counts, and what was done to its cells.

    Or the table itself, where it cannot be counted and may be read.
    """
    check_counting(plan)
    method: Any = plan.spec
    try:
        with table.open() as source:
            counts = DatabaseCounts(source, schema, method.counted(plan, schema))
            return method.run_on_counts(counts, schema, plan, run), counts.treated
    except UncountableError:
        if table.otherwise is None:
            raise
        return table.otherwise()


def released(
    outcome: Outcome, treated: tuple[Treated, ...], manifest: dict[str, Any], *, coded: bool = False
) -> Release:
    """The release that an outcome makes."""
    return Release(
        tables=outcome.tables,
        manifest={**manifest, "facts": dict(outcome.facts)},
        findings=(*treatments(treated), *outcome.findings),
        documents=outcome.documents,
        coded=coded,
    )
