"""The option that names an owner's folder, and opening it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.owner.owner_journal import OwnerJournal

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path),
    default=Path("owner"),
    show_default=True,
    envvar="SHERD_OWNER",
    help="Use this owner's folder.",
)


def open_home(folder: Path) -> OwnerHome:
    """An owner's folder, where the parts that it needs are installed."""
    from sherd.federation.wire.optional_parts import OWNER, require

    require(OWNER)
    from sherd.federation.owner.owner_home import OwnerHome

    return OwnerHome(folder)


def open_journal(folder: Path) -> tuple[OwnerHome, OwnerJournal]:
    """A folder that is an owner's, and its journal."""
    found = open_home(folder)
    from sherd.federation.owner.owner_journal import OwnerJournal

    assert found.settings
    return found, OwnerJournal(found.journal)
