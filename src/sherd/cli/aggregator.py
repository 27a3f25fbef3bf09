"""``sherd aggregator``: set up, enrol owners, serve, open rounds, see and take releases."""

from __future__ import annotations

import ipaddress
import shutil
import signal
import time
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from sherd.cli.aggregator_rounds import round_group
from sherd.cli.aggregator_upkeep import audit, backup, enrol_user, provider, renew, restore
from sherd.cli.home_folder import aggregator_option, open_aggregator, open_rounds, open_store
from sherd.cli.options import PATH, CommandGroup, emit, in_words, json_option
from sherd.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@click.group(cls=CommandGroup)
def aggregator() -> None:
    """Coordinate joint releases by several owners.

    \b
    sherd aggregator init --name registry --url https://registry.example:8470
    sherd aggregator enrol hospital/request.json --fingerprint 1234-…
    sherd aggregator serve
    sherd aggregator round open --kind horizontal --owner north --owner south \\
        -m dp-um -e 1 -k 100
    """


@aggregator.command()
@aggregator_option
@click.option("--name", help="Set the name under which owners know the aggregator.")
@click.option("--url", help="Set the address at which owners reach the aggregator.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Add this host name or address to the certificate. Repeatable.",
)
@click.option("--database", help="Store data in postgresql://… instead of a file.")
@click.option("--upgrade", is_flag=True, help="Upgrade an existing database.")
@json_option
def init(
    home: Path,
    name: str | None,
    url: str | None,
    hosts: tuple[str, ...],
    database: str | None,
    upgrade: bool,
    as_json: bool,
) -> None:
    """Set up the folder: key, certificate authority, database, operator's token."""
    from sherd.extras import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome, AggregatorSettings
    from sherd.signing_keys import fingerprint

    if upgrade:
        AggregatorHome(home).store(upgrade=True).close()
        click.echo("the database is up to date")
        return
    if name is None or url is None:
        raise click.UsageError("Missing option '--name' or '--url'.")
    host = urlsplit(url).hostname
    if host is None:
        raise UsageError("the address is not valid", must="https://host:port", got=repr(url))
    folder = AggregatorHome.make(
        home, AggregatorSettings(name=name, url=url, database=database), hosts or (host,)
    )
    shown = fingerprint(folder.key.public)
    emit(
        {"home": str(home), "name": name, "fingerprint": shown},
        f"aggregator '{name}' is set up in {home}",
        f"fingerprint of its key: {shown}",
        "next: tell owners the fingerprint, collect their request.json, and run",
        "  sherd aggregator enrol request.json --fingerprint FINGERPRINT-OF-THE-OWNER",
        as_json=as_json,
    )


@aggregator.command()
@aggregator_option
@click.argument("request_file", metavar="[REQUEST]", required=False, type=PATH)
@click.option("--fingerprint", "given", help="Require this fingerprint, which the owner told you.")
@click.option("--analyst", metavar="NAME", help="Give an analyst a token instead.")
@click.option("--operator", metavar="NAME", help="Give another operator a token instead.")
@click.option(
    "--person",
    metavar="sub:…|email:…",
    help="With --analyst or --operator: enrol a person who logs in through the OpenID provider.",
)
@click.option("--remove", metavar="NAME", help="Withdraw this person's or owner's access instead.")
@click.option("-o", "--output", type=PATH, help="Write the answer for the owner to this file.")
@json_option
def enrol(
    home: Path,
    request_file: Path | None,
    given: str | None,
    analyst: str | None,
    operator: str | None,
    person: str | None,
    remove: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Enrol an owner from its request file, or give an analyst or operator access."""
    folder, now = open_aggregator(home), int(time.time())
    if remove is not None:
        ended = open_rounds(home).revoke(remove)
        click.echo(f"'{remove}' has no access any more")
        for name in ended:
            click.echo(f"round '{name}' has ended because of that")
        return
    if analyst is not None or operator is not None:
        role = "analyst" if analyst is not None else "operator"
        enrol_user(folder, analyst or operator or "", role, person, as_json=as_json)
        return
    if request_file is None:
        raise click.UsageError("Missing argument 'REQUEST'.")
    from sherd.federation.wire.enrolment import compare, read_request
    from sherd.signing_keys import fingerprint
    from sherd.tables.files import write_whole

    request = read_request(request_file)
    compare(given, request.key, "owner")
    target = output or request_file.with_name(f"{request.name}.enrolment.json")
    answer = folder.enrol(request, now=now)
    write_whole(target, answer)
    emit(
        {"owner": request.name, "answer": str(target)},
        f"'{request.name}' is enrolled; send {target} back to it, and tell it your",
        f"fingerprint over another channel: {fingerprint(folder.key.public)}",
        as_json=as_json,
    )


@aggregator.command()
@aggregator_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Listen on this address.")
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    show_default="the port of the address given to init; 8470 without one or with --plain",
    help="Listen on this port.",
)
@click.option(
    "--plain", is_flag=True, help="Serve without TLS, behind a reverse proxy on this machine only."
)
@click.option(
    "--client-certificates",
    "shown",
    type=click.Choice(["owners", "all", "off"]),
    default="owners",
    show_default=True,
    help="Choose who must present a client certificate.",
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Accept any number of connections from the proxy at this IP address. Repeatable.",
)
def serve(
    home: Path, host: str, port: int | None, plain: bool, shown: str, proxies: tuple[str, ...]
) -> None:
    """Listen for owners and analysts.

    This is the only part of Sherd that other machines can reach.
    """
    folder = open_aggregator(home)
    from sherd.federation.aggregator.serving import (
        ClientCertificates,
        keep_certificate,
        server,
        set_up_logs,
    )

    if plain and host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(
            "without TLS the service may only listen on this machine",
            must="127.0.0.1",
            got=host,
            do="let the reverse proxy on this machine do TLS, or leave out --plain",
        )
    set_up_logs()
    if port is None:
        port = (None if plain else urlsplit(folder.settings.url).port) or 8470
    click.echo(f"listening on {host}:{port}{', without TLS' if plain else ''}", err=True)
    service = server(
        open_rounds(home),
        host=host,
        port=port,
        tls=None if plain else folder.channel,
        authority=folder.authority,
        client_certificates=ClientCertificates("off" if plain else shown),
        proxies=_addresses(proxies),
    )
    if not plain:
        keep_certificate(folder, service)
    # The server takes the signal itself, lets running requests end, and hands it on to this.
    signal.signal(signal.SIGTERM, lambda *_: None)
    service.run()
    if not service.started:
        from sherd.errors import ConnectionFailedError

        raise ConnectionFailedError(
            "the service could not listen", got=f"{host}:{port}", do="choose another port"
        )


def _addresses(given: tuple[str, ...]) -> list[str]:
    try:
        return [str(ipaddress.ip_address(each)) for each in given]
    except ValueError:
        raise UsageError(
            "the proxy is not an address", must="an IP address", got=", ".join(given)
        ) from None


@aggregator.command("check")
@aggregator_option
@json_option
def check_home(home: Path, as_json: bool) -> int:
    """Check that the folder is complete: settings, keys, certificates, database, disk."""
    from sherd.cli.folder_checks import aggregator_checks, show

    return show(aggregator_checks(open_aggregator(home)), as_json=as_json)


@aggregator.command()
@aggregator_option
@click.argument("name", required=False)
@json_option
def status(home: Path, name: str | None, as_json: bool) -> None:
    """Show all rounds, or one in detail."""
    store = open_store(open_aggregator(home))
    from sherd.federation.aggregator.round_view import round_report

    if name is None:
        rounds = [vars(each) for each in store.rounds()]
        members = [{"name": m.name, "role": m.role} for m in store.members()]
        lines = [
            f"{each['id']}  {each['state']}  until "
            f"{datetime.fromtimestamp(each['deadline']).astimezone():%Y-%m-%d %H:%M}"
            for each in rounds
        ]
        shown = {"rounds": rounds, "members": members}
        names: dict[str, list[str]] = {}
        for m in store.members():
            names.setdefault(m.role, []).append(m.name)
        enrolled = [f"{role}s: {', '.join(sorted(names[role]))}" for role in sorted(names)]
        emit(shown, *enrolled, *(lines or ["no rounds yet"]), as_json=as_json)
        return
    data = store.round(name)
    if data is None:
        raise UsageError("there is no such round", got=repr(name))
    report = round_report(data)
    lines = [f"{key.replace('_', ' ')}: {in_words(value)}" for key, value in report.items()]
    emit(report, *lines, as_json=as_json)


@aggregator.command()
@aggregator_option
@click.argument("name")
@click.option("-o", "--output", type=PATH, required=True, help="Copy the release to this folder.")
def release(home: Path, name: str, output: Path) -> None:
    """Copy a round's release to a folder."""
    folder = open_aggregator(home)
    from sherd.release.bundle import check_target

    data = open_store(folder).round(name)
    if data is None or data.manifest is None:
        raise UsageError(
            "the round has no release",
            got="no such round" if data is None else f"state {data.state.value}",
            do=f"see `sherd aggregator status {name}`",
        )
    check_target(output, force=None)
    staged = output.with_name(f".{output.name}.copying")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(folder.releases / name, staged)
    staged.rename(output)
    click.echo(f"release of '{name}' is in {output}")


for command in (round_group, backup, restore, audit, renew, provider):
    aggregator.add_command(command)
