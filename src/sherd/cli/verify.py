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
    help="Check what somebody can tell who also holds this earlier release of the same fragments.",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Demand this key's signature: a fingerprint, or a file that `sherd key` wrote.",
)
@json_option
def verify(release: Path, beside: Path | None, key: str | None, as_json: bool) -> int:
    """Re-check the RELEASE folder: files, schema, bounds, cluster sizes, the promise.

    Says what it could not check. Exit code 4 where a check failed, also where the folder has
    no manifest that can be read.
    """
    import sherd

    result = sherd.verify(release, key=key, beside=beside)
    if as_json:
        emit_json(result.as_data())
        return 0 if result.passed else 4
    for check in result.checks:
        click.echo(f"{SIGNS[check.passed]}  {check.name}: {check.detail}")
    unknown = len(result.unknown)
    made = len(result.checks) - unknown
    if not result.passed:
        click.echo(f"error: {len(result.failed)} of {made} checks failed", err=True)
        return 4
    click.echo(f"{made} checks passed; {unknown} could not be made from the release alone")
    return 0
