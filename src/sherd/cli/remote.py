"""An aggregator elsewhere: ``sherd login``, ``sherd fetch``, and a client for other commands."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from sherd.cli.options import PATH, emit, json_option, with_options
from sherd.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.wire.browser_login import PersonSession
    from sherd.federation.wire.client import Client

_url_option = click.option(
    "--url", required=True, envvar="SHERD_URL", help="Connect to the aggregator at this address."
)
_authority_option = click.option(
    "--authority",
    type=PATH,
    help="Trust this certificate authority (the aggregator's authority.pem). Default: the system's "
    "authorities.",
)
remote_options = with_options(
    click.option("--url", envvar="SHERD_URL", help="Connect to an aggregator elsewhere."),
    click.option(
        "--token-file",
        type=PATH,
        envvar="SHERD_TOKEN_FILE",
        help="With --url: read the token written by `sherd login`.",
    ),
    click.option(
        "--authority",
        type=PATH,
        help="With --url: trust this certificate authority. Default: the system's authorities.",
    ),
)
"""Options of commands that act on this machine, or with --url on another."""


def remote_client(url: str, token_file: Path | None, authority: Path | None) -> Client:
    """A client of an aggregator elsewhere."""
    from sherd.federation.wire.fetching import token_client

    if token_file is None:
        raise UsageError("an aggregator elsewhere needs a login", do="give --token-file")
    return token_client(url, token_file, authority)


def log_in_here(url: str, authority: Path | None, *, browser: bool) -> PersonSession:
    """Have somebody log in in a browser on this machine."""
    from sherd.federation.wire.browser_login import log_in

    def show(address: str) -> None:
        click.echo(f"log in at: {address}", err=True)
        if browser:
            import webbrowser

            webbrowser.open(address)

    return log_in(url, authority=authority, show=show)


@click.command()
@_url_option
@_authority_option
@click.option(
    "-o",
    "--output",
    "token_file",
    required=True,
    type=PATH,
    envvar="SHERD_TOKEN_FILE",
    help="Write the token to this file, readable only by you.",
)
@click.option("--browser/--no-browser", default=True, help="Open a browser.")
@json_option
def login(url: str, authority: Path | None, token_file: Path, browser: bool, as_json: bool) -> None:
    """Log in to an aggregator for an hour.

    The aggregator names the OpenID provider; open the printed address in a browser on this machine.
    Pass the token to other commands with --token-file.
    """
    from sherd.extras import OWNER, require
    from sherd.tables.files import write_whole

    require(OWNER)
    session = log_in_here(url, authority, browser=browser)
    write_whole(token_file, session.token.encode(), mode=0o600)
    until = datetime.fromtimestamp(session.expires).astimezone()
    emit(
        {"name": session.name, "role": session.role, "expires": session.expires},
        f"logged in as '{session.name}' ({session.role}) until {until:%H:%M}",
        as_json=as_json,
    )


@click.command()
@click.argument("round_id", metavar="ROUND")
@_url_option
@click.option(
    "--token-file",
    required=True,
    type=PATH,
    envvar="SHERD_TOKEN_FILE",
    help="Read the token printed by `sherd aggregator enrol --analyst` from this file.",
)
@_authority_option
@click.option("-o", "--output", type=PATH, required=True, help="Write the release to this folder.")
@json_option
def fetch(
    round_id: str, url: str, token_file: Path, authority: Path | None, output: Path, as_json: bool
) -> int:
    """Fetch the release of ROUND into a new folder and verify it.

    Exits with 4 if a check fails, and leaves the folder for inspection.
    """
    import sherd

    result = sherd.fetch(round_id, output, url=url, token_file=token_file, authority=authority)
    failed = ", ".join(check.name for check in result.failed)
    decided = len(result.checks) - len(result.unknown)
    emit(
        {"release": str(output), **result.as_data()},
        f"release of '{round_id}' is in {output}",
        f"failed: {failed}" if failed else f"{decided} checks passed",
        as_json=as_json,
    )
    return 0 if result.passed else 4
