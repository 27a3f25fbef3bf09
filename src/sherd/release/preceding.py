"""The release that another follows: what must hold of it, its record and the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.errors import SchemaError, UsageError
from sherd.release.bundle import MANIFEST, ORDER_KEPT, digest, read_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.release.method import PrivateRecord
    from sherd.tables.schema import Schema


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
