"""``sherd login``: a session at an aggregator for a person, by the provider it trusts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from sherd.cli.options import PATH, emit_json, json_option

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.wire.browser_login import PersonSession


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
@click.option(
    "--url", required=True, envvar="SHERD_URL", help="Connect to the aggregator at this address."
)
@click.option(
    "--authority",
    type=PATH,
    help="Trust this certificate authority (the aggregator's authority.pem). Default: the system's "
    "authorities.",
)
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
    if as_json:
        emit_json({"name": session.name, "role": session.role, "expires": session.expires})
        return
    until = datetime.fromtimestamp(session.expires).astimezone()
    click.echo(f"logged in as '{session.name}' ({session.role}) until {until:%H:%M}")
