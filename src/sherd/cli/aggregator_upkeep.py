"""``sherd aggregator backup`` and ``restore``."""

from __future__ import annotations

from pathlib import Path

import click

from sherd.cli.aggregator_folder import home_option, open_home


@click.command()
@home_option
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def backup(home: Path, output: Path) -> None:
    """Write a backup of folder and database into one file, while the service runs.

    The file holds the aggregator's keys: keep it as safe as the folder.
    """
    premises = open_home(home)
    from sherd.federation.aggregator.aggregator_backup import back_up_aggregator

    back_up_aggregator(premises, output)
    click.echo(f"backup is in {output}; it holds the aggregator's keys")


@click.command()
@click.argument("backup_file", metavar="BACKUP", type=click.Path(path_type=Path))
@click.option(
    "--home", required=True, type=click.Path(path_type=Path), help="The new folder to restore to."
)
@click.option("--database", help="postgresql://… to restore the database into. Default: a file.")
def restore(backup_file: Path, home: Path, database: str | None) -> None:
    """Put a BACKUP into a new folder. Stop the service of the old folder first.

    Rounds in which nothing happened since the backup go on; others end with a reason.
    """
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_backup import restore_aggregator

    name = restore_aggregator(backup_file, home, database=database).settings.name
    click.echo(f"aggregator '{name}' is restored to {home}")
    click.echo(f"next: `sherd aggregator check --home {home}`, then serve")
