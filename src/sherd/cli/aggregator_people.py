"""``sherd aggregator provider``, and letting people in: by a token, or by a provider."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - read by click
from typing import TYPE_CHECKING

import click

from sherd.cli.aggregator_folder import home_option, open_home
from sherd.cli.options import emit_json
from sherd.errors import UsageError

if TYPE_CHECKING:
    from sherd.federation.aggregator.aggregator_home import AggregatorHome


def enrol_user(
    premises: AggregatorHome, name: str, role: str, person: str | None, *, as_json: bool
) -> None:
    """Let an analyst or an operator in."""
    import secrets
    import time

    from sherd.federation.aggregator.storage.people import person_text
    from sherd.federation.protocol.joint_plan import check_name

    check_name(name, role)
    store, now = premises.store(), int(time.time())
    if person is not None:
        issuer = premises.settings.issuer
        if issuer is None:
            raise UsageError(
                "people do not log in at this aggregator yet",
                do="name a provider with `sherd aggregator provider`",
            )
        store.add_member(name, role, person=person_text(issuer, person), now=now)
        if as_json:
            emit_json({role: name, "person": person})
        else:
            click.echo(f"'{name}' logs in at {issuer}")
        return
    token = secrets.token_urlsafe(32)
    store.add_member(name, role, token=token, now=now)
    if as_json:
        emit_json({role: name, "token": token})
    else:
        click.echo(f"token of '{name}' (shown once): {token}")


@click.command()
@home_option
@click.option("--issuer", help="Use the provider at this address, as it calls itself.")
@click.option("--client-id", help="Name the aggregator as the provider knows it.")
@click.option("--remove", is_flag=True, help="Let nobody log in any more; tokens stay.")
def provider(home: Path, issuer: str | None, client_id: str | None, remove: bool) -> None:
    """Name the OpenID provider at which people log in.

    Register a public client there, with the redirect http://127.0.0.1/callback on any port.
    The service must be started again to know of it.
    """
    from dataclasses import replace

    premises = open_home(home)
    from sherd.federation.aggregator.aggregator_home import SETTINGS
    from sherd.federation.wire.openid_provider import Provider
    from sherd.federation.wire.settings_file import write_settings

    if not remove:
        if issuer is None or client_id is None:
            raise click.UsageError("Missing option '--issuer' or '--client-id'.")
        Provider(issuer, client_id).endpoint("jwks_uri")  # it is there, and says who it is
    known = replace(
        premises.settings,
        issuer=None if remove else issuer,
        client_id=None if remove else client_id,
    )
    write_settings(home / SETTINGS, known)
    click.echo("nobody logs in any more" if remove else f"people log in at {issuer}")
