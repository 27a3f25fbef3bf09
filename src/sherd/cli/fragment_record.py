"""What ``sherd fragment`` does with private records: written, and read for a next release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sherd.cli.private import check_private, write_private
from sherd.errors import PlanError

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

    from sherd.methods.fragmenting.private_record import Kept
    from sherd.release.bundle import Release
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


def old_record(given: dict[str, Any]) -> Kept | None:
    """The record of the release that is followed, None for a first one; options that lack another.

    The key is the record's: a release cannot follow one whose tuples had other names.
    """
    if given["after"] is None:
        for name in ("old_record", "withdraw"):
            if given[name] is not None:
                option = name.replace("_", "-")
                raise click.UsageError(f"--{option} is for a release that follows one: --after.")
        if (given["key"] is None) != (given["record"] is None):
            raise click.UsageError("--key and --record belong together.")
        return None
    for name in ("old_record", "record"):
        if given[name] is None:
            option = name.replace("_", "-")
            raise click.UsageError(f"Missing option '--{option}', which --after needs.")
    from sherd.methods.fragmenting.private_record import Kept

    record = Kept.load(given["old_record"])
    if given["key"] not in (None, record.key):
        raise PlanError(
            "--key is not the attribute that the old record is kept by",
            must=repr(record.key),
            got=repr(given["key"]),
            do="leave it out: the record knows it",
        )
    return record


def old_schema(given: dict[str, Any]) -> Schema:
    """The schema named by the options, or else that of the release that is followed."""
    from sherd.cli.releasing import schema_of
    from sherd.release.bundle import read_manifest
    from sherd.tables.schema import Schema

    if given["schema_file"] is not None or given["table"].startswith(":"):
        return schema_of(given)
    if given["missing"] is not None or given["outside"] is not None:
        raise click.UsageError("--missing and --outside need --schema: the old one says its own.")
    return Schema.from_data(read_manifest(given["after"]).get("schema"))


def follow_old(given: dict[str, Any], past: Kept, schema: Schema, chosen: dict[str, Any]) -> Plan:
    """The plan of the next release."""
    from sherd.methods.fragmenting.next_release_plan import follow

    return follow(given["after"], past, schema, chosen)


def check_record(given: dict[str, Any], output: Path) -> None:
    """Refuse a record that would be published, or overwrite something."""
    check_private(
        given["record"],
        [folder for folder in (output, given["after"]) if folder is not None],
        what="the record",
        why="it links what the fragments keep apart and is the owner's alone",
        force=given["force"],
    )


def write_record(release: Release, path: Path | None, undo: contextlib.ExitStack) -> None:
    """Write the record of a release that is about to be published."""
    if path is not None and release.record is not None:
        write_private(path, release.record.encoded(), undo)
