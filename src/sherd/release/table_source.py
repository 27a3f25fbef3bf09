"""Where a release's table comes from: the engine it needs, and how it is read for that engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.engines import choose
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
    if name == "auto" and plan.spec.traits.engines == ("memory",):
        name = "memory"
    size = extent(source, columns=len(schema.attributes))
    return choose(name, memory=memory, rows=size.rows, column_bytes=size.column_bytes)


def open_source(
    source: str,
    schema: Schema | None,
    query: str | None,
    *,
    blocks: bool = False,
    lenient: bool = False,
) -> Callable[[], Any]:
    """A function that reads a table, or its blocks; ``:adult`` names one that comes with sherd."""
    if blocks and schema is not None and not source.startswith(":"):
        return lambda: read_blocks(source, schema, query=query)
    from sherd.datasets.sources import read

    return lambda: read(source, schema=schema, query=query, lenient=lenient)
