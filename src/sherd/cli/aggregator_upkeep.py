"""``sherd aggregator backup``, ``restore``, ``audit``, ``renew``, and letting people in."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from sherd.cli.home_folder import aggregator_option, open_aggregator, open_store
from sherd.cli.options import PATH, audit_log_options, emit, show_audit_log, with_options
from sherd.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.protocol.audit_chain import AuditLine


@click.command()
@aggregator_option
@click.option("-o", "--output", type=PATH, required=True, help="Write the backup to this file.")
def backup(home: Path, output: Path) -> None:
    """Back up the folder and the database to one file while the service runs.

    The file holds the aggregator's keys: protect it like the folder.
    """
    folder = open_aggregator(home)
    from sherd.federation.aggregator.aggregator_home import back_up_aggregator

    back_up_aggregator(folder, output)
    click.echo(f"backup is in {output}; it holds the aggregator's keys")


@click.command()
@click.argument("backup_file", metavar="BACKUP", type=PATH)
@click.option("--home", required=True, type=PATH, help="Restore to this new folder.")
@click.option("--database", help="Restore the database to postgresql://…. Default: a file.")
def restore(backup_file: Path, home: Path, database: str | None) -> None:
    """Restore BACKUP to a new folder. Stop the service of the old folder first.

    Rounds that have not moved since the backup continue; the others end with a reason.
    """
    from sherd.extras import require

    require()
    from sherd.federation.aggregator.aggregator_home import restore_aggregator

    name = restore_aggregator(backup_file, home, database=database).settings.name
    click.echo(f"aggregator '{name}' is restored to {home}")
    click.echo(f"next: `sherd aggregator check --home {home}`, then serve")


@click.command()
@aggregator_option
@with_options(*audit_log_options)
def audit(home: Path, target: Path | None, source: Path | None, head: str | None) -> None:
    """Show the audit log after checking that no line was changed, added or removed.

    Keep the last hash printed, or an export, where the aggregator cannot write: it reveals whether
    the end of the log was cut off.
    """
    folder = open_aggregator(home)
    from sherd.federation.aggregator.storage import audit_log

    def lines() -> list[AuditLine]:
        store = folder.store()
        with closing(store):
            return list(audit_log.lines(store.engine))

    show_audit_log(lines, target, source, head)


@click.command()
@aggregator_option
def renew(home: Path) -> None:
    """Issue a new key and certificate now; `serve` does so 30 days before expiry.

    Restart a running service to use it. Owners renew their own certificates.
    """
    days = open_aggregator(home).renew()
    click.echo(f"the service's certificate is good for {days} days")


def enrol_user(
    folder: AggregatorHome, name: str, role: str, person: str | None, *, as_json: bool
) -> None:
    """Let an analyst or an operator in."""
    import secrets
    import time

    from sherd.federation.aggregator.storage.statements import person_text
    from sherd.federation.protocol.joint_plan import check_name

    check_name(name, role)
    store, now = open_store(folder), int(time.time())
    if person is not None:
        issuer = folder.settings.issuer
        if issuer is None:
            raise UsageError(
                "this aggregator has no login provider yet",
                do="set one with `sherd aggregator provider`",
            )
        store.add_member(name, role, person=person_text(issuer, person), now=now)
        emit({role: name, "person": person}, f"'{name}' logs in at {issuer}", as_json=as_json)
        return
    token = secrets.token_urlsafe(32)
    store.add_member(name, role, token=token, now=now)
    shown = f"token of '{name}' (shown once): {token}"
    emit({role: name, "token": token}, shown, as_json=as_json)


@click.command()
@aggregator_option
@click.option("--issuer", help="Set the provider's issuer URL, exactly as the provider states it.")
@click.option("--client-id", help="Set the client ID that the provider gave the aggregator.")
@click.option(
    "--remove",
    is_flag=True,
    help="Remove the provider: nobody can log in, but existing tokens stay valid.",
)
def provider(home: Path, issuer: str | None, client_id: str | None, remove: bool) -> None:
    """Set the OpenID provider through which people log in.

    Register a public client with the provider, with the redirect http://127.0.0.1/callback on any
    port. Restart the service to apply the change.
    """
    from dataclasses import replace

    folder = open_aggregator(home)
    from sherd.federation.aggregator.aggregator_home import SETTINGS
    from sherd.federation.wire.openid_provider import Provider
    from sherd.federation.wire.settings_file import write_settings

    if not remove:
        if issuer is None or client_id is None:
            raise click.UsageError("Missing option '--issuer' or '--client-id'.")
        Provider(issuer, client_id).endpoint("jwks_uri")  # it is there, and says who it is
    known = replace(
        folder.settings,
        issuer=None if remove else issuer,
        client_id=None if remove else client_id,
    )
    write_settings(home / SETTINGS, known)
    click.echo("nobody logs in any more" if remove else f"people log in at {issuer}")
