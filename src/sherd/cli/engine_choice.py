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
    from sherd.engines import parse_size
    from sherd.release.table_source import engine_for

    memory = None if given["memory"] is None else parse_size(given["memory"])
    choice = engine_for(given["table"], schema, plan, name=given["engine"], memory=memory)
    chosen = click.get_current_context().get_parameter_source
    by_hand = any(chosen(one) is not ParameterSource.DEFAULT for one in ("engine", "memory"))
    if choice.name != "memory" or by_hand:
        click.echo(f"note: running on the engine {choice.name}: {choice.why}", err=True)
    return choice
