"""A release that follows an earlier one of the same table: its plan, schema, key and record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError
from sherd.release.bundle import read_manifest
from sherd.release.method import FollowsReleases, PrivateRecord, find
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.release.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Following:
    """What the next release is made with."""

    plan: Plan
    schema: Schema
    past: PrivateRecord


def follow_release(
    method: str,
    old: Path,
    record: Path | PrivateRecord,
    *,
    schema: Schema | None = None,
    key: str | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> Following:
    """Prepare the release after the one in the folder ``old``.

    ``record`` is the owner's private record of that release, or the file it lies in. Schema and
    key are those of the old release; giving another is an error that says so. ``chosen`` are
    parameters of your own.
    """
    spec = find(method)
    if not isinstance(spec, FollowsReleases):
        raise PlanError(
            f"no release of the method '{method}' can follow another",
            do="leave out --after, or choose the method fragment",
        )
    past = record if isinstance(record, PrivateRecord) else spec.load_record(record)
    if key not in (None, past.key):
        raise PlanError(
            "--key is not the attribute that the old record is kept by",
            must=repr(past.key),
            got=repr(key),
            do="leave it out: the record knows it",
        )
    if schema is None:
        schema = Schema.from_data(read_manifest(old).get("schema"))
    return Following(
        plan=spec.plan_after(old, past, schema, chosen or {}), schema=schema, past=past
    )
