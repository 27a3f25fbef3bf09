"""Which engine a command runs on, and telling so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from sherd.engines import Choice
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


def chosen_engine(given: dict[str, Any], plan: Plan, schema: Schema) -> Choice:
    """The engine to run on; what was chosen and why is told, but for memory nobody asked for."""
    from sherd.engines import choose, parse_size
    from sherd.release.counted_release import check_counting, counted_in
    from sherd.tables.blocks import extent

    memory = None if given["memory"] is None else parse_size(given["memory"])
    name, counts_in = given["engine"], counted_in(given["table"], plan)
    if name == "database":
        check_counting(plan)
    sorts = set(plan.spec.traits.engines) & {"columns", "duckdb"}
    if name == "auto" and not sorts and counts_in is None:
        name = "memory"
    size = extent(given["table"], columns=len(schema.attributes))
    choice = choose(
        name,
        memory=memory,
        rows=size.rows,
        column_bytes=size.column_bytes,
        counts_in=counts_in,
    )
    chosen = click.get_current_context().get_parameter_source
    by_hand = any(chosen(one) is not ParameterSource.DEFAULT for one in ("engine", "memory"))
    if choice.name != "memory" or by_hand:
        click.echo(f"note: running on the engine {choice.name}: {choice.why}", err=True)
    return choice
