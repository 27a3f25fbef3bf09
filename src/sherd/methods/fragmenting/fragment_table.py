"""``sherd.fragment``: a table in fragments, first and after every change of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError
from sherd.release.plan import Plan
from sherd.release.preceding import follow_release
from sherd.release.protect import Settings, protect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.release.bundle import Release
    from sherd.release.method import PrivateRecord
    from sherd.tables.schema import Schema


def fragment(
    table: Any,
    schema: Schema | None = None,
    *,
    constraints: Mapping[str, Any] | None = None,
    looseness: int | None = None,
    key: str | None = None,
    after: str | Path | None = None,
    record: PrivateRecord | str | Path | None = None,
    settings: Settings | None = None,
    **parameters: Any,
) -> Release:
    """Split a table into fragments with true values, loosely associated.

    ``constraints`` say which attributes may not be seen together, ``looseness`` among how many
    each sensitive association is hidden; ``parameters`` are the others of the method
    ``fragment``. With a ``key``, the release has a private ``record``. To follow a release in
    the folder ``after``, give its ``record``; schema and key are then those of that release.
    """
    given: dict[str, Any] = {"constraints": constraints, "looseness": looseness, **parameters}
    given = {name: value for name, value in given.items() if value is not None}
    chosen = settings or Settings()
    if after is None:
        if schema is None or record is not None:
            raise UsageError(
                "a first release needs a schema and no record",
                must="a schema, or the folder of the release to follow",
                do="give `schema`, or `after` with `record`",
            )
        plan = Plan(method="fragment", **given)
        return protect(table, schema, plan, settings=replace(chosen, key=key))
    if record is None:
        raise UsageError(
            "a release that follows another needs the record of that one",
            do="give `record`: the owner's private record, or its file",
        )
    old = Path(record) if isinstance(record, str) else record
    following = follow_release("fragment", Path(after), old, schema=schema, key=key, chosen=given)
    return protect(
        table,
        following.schema,
        following.plan,
        settings=replace(chosen, key=following.past.key, past=following.past),
    )
