"""``sherd fetch``: an analyst takes a joint release from the aggregator, and verifies it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sherd.cli.options import PATH, emit_json, json_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("round_id", metavar="ROUND")
@click.option(
    "--url", required=True, envvar="SHERD_URL", help="Connect to the aggregator at this address."
)
@click.option(
    "--token-file",
    required=True,
    type=PATH,
    envvar="SHERD_TOKEN_FILE",
    help="Read the token printed by `sherd aggregator enrol --analyst` from this file.",
)
@click.option(
    "--authority",
    type=PATH,
    help="Trust this certificate authority (the aggregator's authority.pem). Default: the system's "
    "authorities.",
)
@click.option("-o", "--output", type=PATH, required=True, help="Write the release to this folder.")
@json_option
def fetch(
    round_id: str,
    url: str,
    token_file: Path,
    authority: Path | None,
    output: Path,
    as_json: bool,
) -> int:
    """Fetch the release of ROUND into a new folder and verify it.

    Exits with 4 if a check fails, and leaves the folder for inspection.
    """
    import sherd

    result = sherd.fetch(round_id, output, url=url, token_file=token_file, authority=authority)
    if as_json:
        emit_json({"release": str(output), **result.as_data()})
    else:
        failed = ", ".join(check.name for check in result.failed)
        decided = len(result.checks) - len(result.unknown)
        click.echo(f"release of '{round_id}' is in {output}")
        click.echo(f"failed: {failed}" if failed else f"{decided} checks passed")
    return 0 if result.passed else 4
