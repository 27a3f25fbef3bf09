"""``sherd aggregator backup``, ``restore``, ``audit`` and ``renew``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from sherd.cli.aggregator_folder import home_option, open_home
from sherd.cli.options import printable


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
    "--home", required=True, type=click.Path(path_type=Path), help="Restore to this new folder."
)
@click.option("--database", help="Restore the database into postgresql://…. Default: a file.")
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


@click.command()
@home_option
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path),
    help="Write the lines to a file, to be kept elsewhere.",
)
@click.option(
    "--check",
    "source",
    type=click.Path(path_type=Path),
    help="Check such a file instead of the log.",
)
@click.option("--head", help="Demand the line that has this hash, which was kept.")
def audit(home: Path, target: Path | None, source: Path | None, head: str | None) -> None:
    """Show the audit log, after checking that no line was changed, added or taken out.

    Keep the hash that is printed last, or an export, where the aggregator cannot write: it shows
    whether the log's end was cut off.
    """
    premises = open_home(home)
    from sherd.federation.aggregator.storage import audit_log
    from sherd.tables.files import write_whole

    if source is not None:
        lines = list(audit_log.read_export(source.read_text(encoding="ascii").splitlines()))
    else:
        store = premises.store()
        lines = list(audit_log.lines(store.engine))
        store.close()
    count, last = audit_log.verify_lines(lines, head)
    if target is not None:
        write_whole(target, "".join(f"{t}\n" for t in audit_log.export(lines)).encode(), mode=0o600)
    elif source is None:
        for line in lines:
            when = datetime.fromtimestamp(line.time, UTC).isoformat()
            told = f"{when}  {line.actor}  {line.event}  {line.subject}  {line.detail}"
            click.echo(printable(told.rstrip()))
    click.echo(f"{count} lines, none changed; the last has the hash {last}")


@click.command()
@home_option
def renew(home: Path) -> None:
    """Give the service a new key and certificate now; `serve` does so 30 days before its end.

    A service that runs takes it when it is started again. Owners renew theirs by themselves.
    """
    days = open_home(home).renew()
    click.echo(f"the service's certificate is good for {days} days")
