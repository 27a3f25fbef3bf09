"""``sherd verify``: re-check a release from what was released alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sherd.cli.options import PATH, emit_json, json_option

if TYPE_CHECKING:
    from pathlib import Path

SIGNS = {True: "ok  ", False: "FAIL", None: "?   "}


@click.command()
@click.argument("release", type=PATH)
@click.option(
    "--beside",
    type=PATH,
    metavar="OLD",
    help="Check what somebody who also holds this earlier release of the same fragments could "
    "infer.",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Require a signature by this key: a fingerprint, or a file written by `sherd key`.",
)
@json_option
def verify(release: Path, beside: Path | None, key: str | None, as_json: bool) -> int:
    """Check the RELEASE folder: files, schema, bounds, cluster sizes and the promise.

    Also lists what it could not check. Exits with 4 if a check fails or the folder has no readable
    manifest.
    """
    import sherd

    result = sherd.verify(release, key=key, beside=beside)
    if as_json:
        emit_json(result.as_data())
        return 0 if result.passed else 4
    for check in result.checks:
        click.echo(f"{SIGNS[check.passed]}  {check.name}: {check.detail}")
    unknown = len(result.unknown)
    decided = len(result.checks) - unknown
    if not result.passed:
        click.echo(f"error: {len(result.failed)} of {decided} checks failed", err=True)
        return 4
    click.echo(f"{decided} checks passed; {unknown} could not be made from the release alone")
    return 0
