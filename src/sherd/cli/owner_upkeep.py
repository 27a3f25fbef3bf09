"""``sherd owner backup``, ``restore``, ``recover`` and ``renew``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sherd.cli.home_folder import open_journal, open_owner, owner_option
from sherd.cli.options import PATH, emit_json, json_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@owner_option
@click.option("-o", "--output", type=PATH, required=True, help="Write the backup to this file.")
def backup(home: Path, output: Path) -> None:
    """Back up the folder to one file while the agent runs.

    The file holds the owner's keys and the seed of its noise: protect it like the folder. It does
    not hold the table.
    """
    folder = open_owner(home)
    from sherd.federation.owner.recovery import back_up_owner

    back_up_owner(folder, output)
    click.echo(f"backup is in {output}; it holds the owner's keys and the seed of its noise")


@click.command()
@click.argument("backup_file", metavar="BACKUP", type=PATH)
@click.option("--home", required=True, type=PATH, help="Restore to this new folder.")
def restore(backup_file: Path, home: Path) -> None:
    """Restore BACKUP to a new folder. Stop the agent of the old folder first.

    The backup's ledger lacks what was spent since: the agent refuses to run until `sherd owner
    recover` has charged it.
    """
    from sherd.extras import OWNER, require

    require(OWNER)
    from sherd.federation.owner.recovery import restore_owner

    name = restore_owner(backup_file, home).settings.name
    click.echo(f"owner '{name}' is restored to {home}")
    click.echo(f"next: `sherd owner recover --home {home}`, then run")


@click.command()
@owner_option
@json_option
def recover(home: Path, as_json: bool) -> None:
    """Bring a folder restored from a backup back into service.

    Charges every plan that this owner signed but its ledger lacks, since the plan may have been
    carried out. Restore the whole folder first, including its keys and seed.
    """
    folder, journal = open_journal(home)
    from sherd.budget.ledger import Ledger
    from sherd.federation.owner.recovery import recover as lead_back

    with folder.locked():
        client = folder.client()
        try:
            done = lead_back(folder, client, Ledger(folder.ledger), journal)
        finally:
            client.close()
            journal.close()
    if as_json:
        emit_json([vars(each) for each in done])
        return
    for each in done:
        how = "was delivered" if each.delivered else "may have been delivered"
        click.echo(f"round '{each.round}' {how}: {each.epsilon} of epsilon charged")
    click.echo(f"{len(done)} rounds were charged; the agent can run again")


@click.command()
@owner_option
def renew(home: Path) -> None:
    """Get a new key and certificate now; the agent does so 30 days before expiry.

    Restart a running agent to use it.
    """
    folder = open_owner(home)
    from sherd.federation.owner.renewing import renew as renew_certificate

    client = folder.client()
    try:
        days = renew_certificate(folder, client)
    finally:
        client.close()
    click.echo(f"the certificate is good for {days} days")
