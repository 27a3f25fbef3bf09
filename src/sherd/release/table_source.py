"""Where a release's table comes from: the engine it needs, and how it is read for that engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.engines import choose
from sherd.release.counted_release import CountedTable, check_counting, counted_in
from sherd.tables.blocks import extent, read_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.engines import Choice
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


def engine_for(
    source: str, schema: Schema, plan: Plan, *, name: str = "auto", memory: int | None = None
) -> Choice:
    """The engine that a table needs for a plan, or the one that is named."""
    counts_in = counted_in(source, plan)
    if name == "database":
        check_counting(plan)
    sorts = set(plan.spec.traits.engines) & {"columns", "duckdb"}
    if name == "auto" and not sorts and counts_in is None:
        name = "memory"
    size = extent(source, columns=len(schema.attributes))
    return choose(
        name,
        memory=memory,
        rows=size.rows,
        column_bytes=size.column_bytes,
        counts_in=counts_in,
    )


def open_source(
    source: str,
    schema: Schema,
    query: str | None,
    *,
    engine: str = "memory",
    lenient: bool = False,
) -> Callable[[], Any]:
    """A function that reads a table, or its blocks, or says where it is to be counted."""
    if engine == "database":
        counted = CountedTable.in_database(source, query)
        return lambda: counted
    if engine != "memory" and not source.startswith(":"):
        return lambda: read_blocks(source, schema, query=query)
    from sherd.datasets.sources import read

    return lambda: read(source, schema=schema, query=query, lenient=lenient)
