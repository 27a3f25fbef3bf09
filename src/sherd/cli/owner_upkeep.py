"""``sherd owner backup``, ``restore``, ``recover`` and ``renew``."""

from __future__ import annotations

from pathlib import Path

import click

from sherd.cli.options import emit_json, json_option
from sherd.cli.owner_folder import home_option, open_home, open_journal


@click.command()
@home_option
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def backup(home: Path, output: Path) -> None:
    """Write a backup of the folder into one file, while the agent runs.

    The file holds the owner's keys and the seed of its noise: keep it as safe as the folder. The
    table itself is not in it.
    """
    found = open_home(home)
    from sherd.federation.owner.owner_backup import back_up_owner

    back_up_owner(found, output)
    click.echo(f"backup is in {output}; it holds the owner's keys and the seed of its noise")


@click.command()
@click.argument("backup_file", metavar="BACKUP", type=click.Path(path_type=Path))
@click.option(
    "--home", required=True, type=click.Path(path_type=Path), help="Restore to this new folder."
)
def restore(backup_file: Path, home: Path) -> None:
    """Put a BACKUP into a new folder. Stop the agent of the old folder first.

    The ledger of a backup lacks what was spent since: the agent does not run before
    `sherd owner recover` has charged that.
    """
    from sherd.federation.wire.optional_parts import OWNER, require

    require(OWNER)
    from sherd.federation.owner.owner_backup import restore_owner

    name = restore_owner(backup_file, home).settings.name
    click.echo(f"owner '{name}' is restored to {home}")
    click.echo(f"next: `sherd owner recover --home {home}`, then run")


@click.command()
@home_option
@json_option
def recover(home: Path, as_json: bool) -> None:
    """Lead a folder back that was restored from a backup.

    Charges every plan that this owner signed and its ledger does not hold, since it may have
    been carried out. Restore the whole folder first, with its keys and its seed.
    """
    found, journal = open_journal(home)
    from sherd.budget.ledger import Ledger
    from sherd.federation.owner.recovery import recover as lead_back

    with found.locked():
        client = found.client()
        try:
            done = lead_back(found, client, Ledger(found.ledger), journal)
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
@home_option
def renew(home: Path) -> None:
    """Get a new certificate by a new key now; the agent does so 30 days before its end.

    An agent that runs takes it when it is started again.
    """
    found = open_home(home)
    from sherd.federation.owner.renewing import renew as renew_certificate

    client = found.client()
    try:
        days = renew_certificate(found, client)
    finally:
        client.close()
    click.echo(f"the certificate is good for {days} days")
