"""A release that follows an earlier one of the same table: it takes over plan, schema and key.

Keys name the rows of a table over time, for the owner's eyes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError, SchemaError, TableError, UsageError, did_you_mean
from sherd.release.bundle import MANIFEST, digest, read_manifest
from sherd.release.manifest import ORDER_KEPT
from sherd.release.method import FollowsReleases, PrivateRecord, find
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from sherd.release.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Keys:
    """One text for each row of a prepared table, and the attribute it comes from."""

    attribute: str
    values: tuple[str, ...]


def keys_of(table: pa.Table, schema: Schema, attribute: str, rows: Any = None) -> Keys:
    """The keys of a table as it came, of those ``rows`` that preparation kept (None: all)."""
    from sherd.tables.coding import texts

    if attribute not in schema.attributes:
        raise SchemaError(
            f"the key '{attribute}' is not an attribute of the schema",
            must="what names a tuple over time, such as a customer's number",
            do=did_you_mean(attribute, schema.attributes)
            or "add it to the schema with the role identifier, which is never released",
        )
    values = texts(table.column(attribute).combine_chunks())
    if any(value is None or value == "" for value in values):
        raise TableError(
            f"tuples have no key: the attribute '{attribute}' has empty cells",
            must="one key for each tuple",
        )
    if len(values) > len(set(values)):
        raise TableError(
            f"tuples share a key: '{attribute}' does not tell them apart",
            must="one key for each tuple",
            do="choose another attribute with --key, or remove the repeated tuples",
        )
    chosen = values if rows is None else [values[row] for row in rows]
    return Keys(attribute=attribute, values=tuple(str(value) for value in chosen))


def manifest_to_follow(old: Path, record: PrivateRecord, schema: Schema) -> dict[str, Any]:
    """The manifest of the release in ``old``; refused where another cannot follow it."""
    manifest = read_manifest(old)
    if record.release != digest(old / MANIFEST):
        raise UsageError(
            "the record is not that of the old release",
            must="the file that --record wrote when the old release was made",
            got="the record of another release" if record.release else "a record of no bundle",
            do="name the release and the record that belong together",
        )
    if ORDER_KEPT in manifest.get("stamps", ()):
        raise UsageError("the old release is not for publication", got=ORDER_KEPT)
    if schema.published().hash != manifest.get("schema_hash"):
        raise other_schema()
    return manifest


def other_schema() -> SchemaError:
    """The error where two releases in a row have different schemas."""
    return SchemaError(
        "the schema is not that of the old release",
        must="the same, or groups could not be kept",
        do="use the old schema, or start over with a first release of other people",
    )


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
