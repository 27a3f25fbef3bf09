"""``sherd studio``: Sherd in the browser, on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sherd import interrupts
from sherd.cli.options import PATH, host_option, ledger_option, port_option
from sherd.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.applications import Starlette

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.wire.browser_login import PersonSession

    StudioHome = tuple[Starlette, Callable[[str], int], Callable[[], list[str]]]


@click.command()
@click.argument("file", required=False)
@click.option("--owner", type=PATH, help="Show the requests and rounds of this owner's folder.")
@click.option("--aggregator", type=PATH, help="Show the rounds of this aggregator's folder.")
@click.option("--query", help="Run this SQL if FILE is a database.")
@ledger_option
@click.option(
    "--workspace",
    type=PATH,
    envvar="SHERD_STUDIO",
    help="Keep open tables and jobs in this folder. Default: the user's data folder.",
)
@host_option
@port_option
@click.option("--browser/--no-browser", default=True, help="Open a browser.")
def studio(**given: Any) -> int:
    """Open the studio: take FILE to an audited release in the browser.

    Prints an address to open in a browser on this machine. The address holds a secret that works
    once; after each use a new one is printed. Ctrl-C stops the studio without losing work.

    \b
    sherd studio people.csv
    sherd studio --owner north
    sherd studio --aggregator registry
    """
    from sherd.extras import STUDIO, require

    require(STUDIO)
    homes = [name for name in ("file", "owner", "aggregator") if given[name] is not None]
    if len(homes) > 1:
        raise UsageError(
            "the studio shows one thing at a time", must="a FILE, --owner or --aggregator"
        )
    serve(_home(given), host=given["host"], port=given["port"], browser=given["browser"])
    return 0


def serve(home: StudioHome, *, host: str, port: int, browser: bool) -> None:
    """Run the studio of a home until Ctrl-C, and say where it can be opened."""
    from sherd.studio.studio_server import StudioServer

    app, most, close = home
    first = True

    def announce(address: str) -> None:
        nonlocal first
        click.echo(f"studio: {address}" if first else f"for another browser: {address}")
        first = False

    server = StudioServer(app, host=host, port=port, most=most, announce=announce)
    click.echo("open the address in a browser on this machine; Ctrl-C ends the studio", err=True)
    try:
        server.run(browser=browser)
    except KeyboardInterrupt:
        interrupts.settle()
    finally:
        stopped = close()
    for title in stopped:
        click.echo(f"stopped, and can be started again: {title}", err=True)
    click.echo("the studio is closed", err=True)


def _home(given: dict[str, Any]) -> StudioHome:
    """The pages of the home that was asked for, their bounds, and how to close it."""
    if given["owner"] is not None or given["aggregator"] is not None:
        return _federation(given)
    from sherd.budget.storage import chosen_path
    from sherd.studio.steward import Steward
    from sherd.studio.workspace import default_workspace

    folder: Path = given["workspace"] or default_workspace()
    steward = Steward(folder.absolute(), ledger=chosen_path(given["ledger_file"]))
    steward.recover()
    if given["file"] is not None:
        from sherd.studio.steward_table import open_table

        open_table(steward, given["file"], query=given["query"])
    return steward.app(), steward.most, steward.jobs.close


def _federation(given: dict[str, Any]) -> StudioHome:
    """The home of an owner, or of an aggregator's operator."""
    from sherd.extras import AGGREGATOR, require

    if given["owner"] is not None:
        return owner_home(given["owner"])
    require(AGGREGATOR)
    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.studio.aggregator_pages import AggregatorPages

    home = AggregatorHome(given["aggregator"].absolute())
    aggregator = AggregatorPages(home, _operator(home, browser=given["browser"]))
    return aggregator.app(), aggregator.most, aggregator.close


def _operator(home: AggregatorHome, *, browser: bool) -> PersonSession | None:
    """The operator who logged in, where people must: nobody else may open this studio."""
    if home.provider is None:
        return None
    from sherd.cli.remote import log_in_here

    session = log_in_here(home.settings.url, home.authority, browser=browser)
    if session.role != "operator":
        raise RefusedError(
            "only operators may open the aggregator's studio",
            got=f"'{session.name}', who is an {session.role}",
            do="log in as an operator",
        )
    click.echo(f"logged in as '{session.name}'", err=True)
    return session


def owner_home(folder: Path) -> StudioHome:
    """The pages of one owner."""
    from sherd.extras import PAGE, require

    require(PAGE)
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.studio.owner_pages import OwnerPages

    owner = OwnerPages(OwnerHome(folder.absolute()))
    return owner.app(), owner.most, list
