"""The folder of an owner or an aggregator: naming it by an option, and opening it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.aggregator.storage import Store
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.owner.owner_journal import OwnerJournal


def home_option(role: str) -> Callable[..., Any]:
    """The option that names the folder of an ``owner`` or an ``aggregator``."""
    return click.option(
        "--home",
        type=PATH,
        default=Path(role),
        show_default=True,
        envvar=f"SHERD_{role.upper()}",
        help=f"Use this {role}'s folder.",
    )


aggregator_option, owner_option = home_option("aggregator"), home_option("owner")


def open_aggregator(folder: Path) -> AggregatorHome:
    """An aggregator's folder, where the parts that it needs are installed."""
    from sherd.extras import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

    return AggregatorHome(folder)


def open_store(home: AggregatorHome) -> Store:
    """An aggregator's storage, closed when the command ends."""
    store = home.store()
    click.get_current_context().call_on_close(store.close)
    return store


def open_rounds(folder: Path) -> Aggregator:
    """An aggregator that can work on rounds; its storage is closed when the command ends."""
    aggregator = open_aggregator(folder).aggregator()
    click.get_current_context().call_on_close(aggregator.store.close)
    return aggregator


def open_owner(folder: Path) -> OwnerHome:
    """An owner's folder, where the parts that it needs are installed."""
    from sherd.extras import OWNER, require

    require(OWNER)
    from sherd.federation.owner.owner_home import OwnerHome

    return OwnerHome(folder)


def open_journal(folder: Path) -> tuple[OwnerHome, OwnerJournal]:
    """A folder that is an owner's, and its journal, closed when the command ends."""
    home = open_owner(folder)
    from sherd.federation.owner.owner_journal import OwnerJournal

    assert home.settings
    journal = OwnerJournal(home.journal)
    click.get_current_context().call_on_close(journal.close)
    return home, journal
