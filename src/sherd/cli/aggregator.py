"""``sherd aggregator``: set up, enrol owners, serve, open rounds, see and take releases."""

from __future__ import annotations

import re
import shutil
import signal
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import emit_json, in_words, json_option, settings
from sherd.errors import UsageError

if TYPE_CHECKING:
    from sherd.federation.protocol.joint_plan import Terms

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path),
    default=Path("aggregator"),
    show_default=True,
    envvar="SHERD_AGGREGATOR",
    help="The aggregator's folder.",
)


@click.group()
def aggregator() -> None:
    """Run joint releases of several owners.

    \b
    sherd aggregator init --name registry --url https://registry.example:8470
    sherd aggregator enrol hospital/request.json --fingerprint 1234-…
    sherd aggregator serve
    sherd aggregator round open --kind horizontal --owner north --owner south \\
        -m dp-um -e 1 -k 100
    """


@aggregator.command()
@home_option
@click.option("--name", help="What owners know the aggregator by.")
@click.option("--url", help="The address owners reach it at.")
@click.option("--host", "hosts", multiple=True, help="A name or address in its certificate.")
@click.option("--database", help="postgresql://… instead of a file in the folder.")
@click.option("--upgrade", is_flag=True, help="Bring an existing database up to date.")
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
    from urllib.parse import urlsplit

    from sherd.federation.wire.optional_parts import require

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
    made = AggregatorHome.make(
        home, AggregatorSettings(name=name, url=url, database=database), hosts or (host,)
    )
    shown = fingerprint(made.key.public)
    if as_json:
        emit_json({"home": str(home), "name": name, "fingerprint": shown})
        return
    click.echo(f"aggregator '{name}' is set up in {home}")
    click.echo(f"fingerprint of its key: {shown}")
    click.echo("next: tell owners the fingerprint, collect their request.json, and run")
    click.echo("  sherd aggregator enrol request.json --fingerprint FINGERPRINT-OF-THE-OWNER")


@aggregator.command()
@home_option
@click.argument(
    "request_file", metavar="[REQUEST]", required=False, type=click.Path(path_type=Path)
)
@click.option("--fingerprint", "given", help="The owner's, as the owner told you.")
@click.option("--analyst", metavar="NAME", help="Give an analyst a token instead.")
@click.option("--remove", metavar="NAME", help="Take somebody's access away instead.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to send back.")
@json_option
def enrol(
    home: Path,
    request_file: Path | None,
    given: str | None,
    analyst: str | None,
    remove: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Enrol an owner by its request file, or give an analyst a token."""
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

    premises, now = AggregatorHome(home), int(time.time())
    if remove is not None:
        ended = premises.aggregator().revoke(remove)
        click.echo(f"'{remove}' has no access any more")
        for name in ended:
            click.echo(f"round '{name}' has ended because of that")
        return
    if analyst is not None:
        import secrets

        from sherd.federation.protocol.joint_plan import check_name

        token = secrets.token_urlsafe(32)
        premises.store().add_member(check_name(analyst, "analyst"), "analyst", token=token, now=now)
        if as_json:
            emit_json({"analyst": analyst, "token": token})
        else:
            click.echo(f"token of '{analyst}' (shown once): {token}")
        return
    if request_file is None:
        raise click.UsageError("Missing argument 'REQUEST'.")
    from sherd.federation.wire.enrolment import compare, read_request
    from sherd.tables.files import write_whole

    request = read_request(request_file)
    compare(given, request.key, "owner")
    target = output or request_file.with_name(f"{request.name}.enrolment.json")
    answer = premises.enrol(request, now=now)
    write_whole(target, answer)
    if as_json:
        emit_json({"owner": request.name, "answer": str(target)})
        return
    click.echo(f"'{request.name}' is enrolled; send {target} back to it, and tell it your")
    click.echo("fingerprint over another channel")


def _port_of(url: str) -> int:
    """Where owners will call: the port in the aggregator's address."""
    from urllib.parse import urlsplit

    return urlsplit(url).port or 8470


@aggregator.command()
@home_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    show_default="of the address given to init; 8470 without one or with --plain",
)
@click.option("--plain", is_flag=True, help="No TLS: behind a reverse proxy on this machine only.")
@click.option(
    "--client-certificates",
    "shown",
    type=click.Choice(["owners", "all", "off"]),
    default="owners",
    show_default=True,
    help="Who must show a certificate.",
)
def serve(home: Path, host: str, port: int | None, plain: bool, shown: str) -> None:
    """Listen for owners and analysts. The only part of sherd that other machines reach."""
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.serving import ClientCertificates, server, set_up_logs

    premises = AggregatorHome(home)
    if plain and host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(
            "without TLS the service may listen on this machine only",
            must="127.0.0.1",
            got=host,
            do="let the reverse proxy on this machine do TLS, or leave out --plain",
        )
    set_up_logs()
    if port is None:
        port = 8470 if plain else _port_of(premises.settings.url)
    click.echo(f"listening on {host}:{port}{', without TLS' if plain else ''}", err=True)
    made = server(
        premises.aggregator(),
        host=host,
        port=port,
        tls=None if plain else (premises.certificate, premises.channel_key),
        authority=premises.authority,
        client_certificates=ClientCertificates("off" if plain else shown),
    )
    # The server takes the signal itself, lets running requests end, and hands it on to this.
    signal.signal(signal.SIGTERM, lambda *_: None)
    made.run()
    if not made.started:
        from sherd.errors import ConnectionFailedError

        raise ConnectionFailedError(
            "the service could not listen", got=f"{host}:{port}", do="choose another port"
        )


@aggregator.command("check")
@home_option
@json_option
def check_home(home: Path, as_json: bool) -> int:
    """Look whether the folder is complete: settings, keys, certificates, database, disk."""
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.cli.home_check import aggregator_checks, show
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

    return show(aggregator_checks(AggregatorHome(home)), as_json=as_json)


@aggregator.group()
def round() -> None:  # noqa: A001 - the command's name
    """Open, repeat or abort a round."""


@round.command("open")
@home_option
@click.argument("name", required=False)
@click.option("--kind", type=click.Choice(["horizontal", "vertical"]), required=True)
@click.option("--owner", "owners", multiple=True, required=True, help="An owner that takes part.")
@click.option("-m", "--method", required=True, help="One of `sherd methods`.")
@click.option("-e", "--epsilon", help="The privacy budget of the whole release.")
@click.option("-k", "--k", type=int, help="Least number of records in a cluster.")
@click.option("--guarantee", metavar="paper|centroids|strict", help="Which promise to make.")
@click.option("--set", "extra", multiple=True, metavar="NAME=VALUE", help="Any other parameter.")
@click.option(
    "--sharing",
    type=click.Choice(["attributes", "equal"]),
    default="attributes",
    show_default=True,
    help="How a vertical round shares epsilon: by attributes, or equally as in the paper.",
)
@click.option("--share", multiple=True, metavar="OWNER=EPSILON", help="Given shares instead.")
@click.option(
    "--linkage",
    type=click.Choice(["oprf", "hmac", "none"]),
    help="How people are matched (hmac: low assurance). Default: oprf if vertical.",
)
@click.option(
    "--dropout",
    type=click.Choice(["abort", "continue"]),
    default="abort",
    show_default=True,
    help="What happens if an owner of a horizontal round drops out.",
)
@click.option("--least-owners", type=int, default=1, show_default=True)
@click.option(
    "--colluders",
    type=int,
    help="Owners that may collude where noise is shared out. Default: all but one.",
)
@click.option("--deadline", default="24h", show_default=True, help="30m, 24h, 7d, or a date.")
@click.option("--purpose", default="", help="What owners are told the release is for.")
@json_option
def open_round(home: Path, as_json: bool, **given: Any) -> None:
    """Open a round: invite owners to a joint release."""
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

    premises = AggregatorHome(home)
    terms = _terms(premises.settings.name, given)
    premises.aggregator().open_round(terms)
    if as_json:
        emit_json({"round": terms.round, "deadline": terms.deadline})
        return
    click.echo(f"round '{terms.round}' is open; owners are invited as they call in")
    click.echo(f"watch it with `sherd aggregator status {terms.round}`")


def _terms(name: str, given: dict[str, Any]) -> Terms:
    import secrets

    from sherd.federation.protocol.joint_plan import Dropout, Kind, Linkage, Sharing, Terms

    parameters = settings(given["extra"])
    for key in ("k", "guarantee"):
        if given[key] is not None:
            parameters[key] = given[key]
    shares = {}
    for text in given["share"]:
        owner, equals, amount = text.partition("=")
        if not equals:
            raise UsageError("--share cannot be read", must="OWNER=EPSILON", got=repr(text))
        shares[owner] = amount
    kind = Kind(given["kind"])
    linkage = given["linkage"] or ("oprf" if kind is Kind.VERTICAL else "none")
    return Terms(
        round=given["name"] or f"round-{secrets.token_hex(4)}",
        aggregator=name,
        kind=kind,
        owners=given["owners"],
        method=given["method"],
        parameters=parameters,
        epsilon=given["epsilon"],
        sharing=Sharing.GIVEN if shares else Sharing(given["sharing"]),
        given=shares,
        linkage=Linkage(linkage),
        dropout=Dropout(given["dropout"]),
        least_owners=given["least_owners"],
        deadline=read_deadline(given["deadline"], time.time()),
        purpose=given["purpose"],
        colluders=given["colluders"],
    )


def read_deadline(text: str, now: float) -> int:
    """A deadline in seconds since 1970, from a span or a date.

    >>> read_deadline("2h", 0)
    7200
    """
    span = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if span:
        seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}[span[2]]
        return int(now) + int(span[1]) * seconds
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp())
    except ValueError:
        raise UsageError(
            "the deadline cannot be read", must="30m, 24h, 7d or a date", got=repr(text)
        ) from None


@round.command("repeat")
@home_option
@click.argument("name")
@click.argument("new_name", required=False)
@click.option("--deadline", default="24h", show_default=True, help="30m, 24h, 7d, or a date.")
@json_option
def repeat_round(home: Path, name: str, new_name: str | None, deadline: str, as_json: bool) -> None:
    """Open a round once more that ended without a release after owners were charged.

    Owners that were charged for it send what they paid for, and pay nothing more.
    """
    import secrets

    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

    until = read_deadline(deadline, time.time())
    new_name = new_name or f"round-{secrets.token_hex(4)}"
    terms = AggregatorHome(home).aggregator().repeat(name, name=new_name, deadline=until)
    if as_json:
        emit_json({"round": terms.round, "repeats": name, "deadline": terms.deadline})
        return
    click.echo(f"round '{terms.round}' is open and repeats '{name}'")


@round.command("abort")
@home_option
@click.argument("name")
def abort_round(home: Path, name: str) -> None:
    """End a round without a release."""
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

    AggregatorHome(home).aggregator().abort(name)
    click.echo(f"round '{name}' has ended")


@aggregator.command()
@home_option
@click.argument("name", required=False)
@json_option
def status(home: Path, name: str | None, as_json: bool) -> None:
    """Show every round, or one of them in detail."""
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.round_view import round_report

    premises = AggregatorHome(home)
    store = premises.store()
    if name is None:
        rounds = [vars(each) for each in store.rounds()]
        members = [{"name": m.name, "role": m.role} for m in store.members()]
        if as_json:
            emit_json({"rounds": rounds, "members": members})
            return
        for each in rounds:
            ends = datetime.fromtimestamp(each["deadline"]).astimezone()
            click.echo(f"{each['id']}  {each['state']}  until {ends:%Y-%m-%d %H:%M}")
        if not rounds:
            click.echo("no rounds yet")
        return
    data = store.round(name)
    if data is None:
        raise UsageError("there is no such round", got=repr(name))
    report = round_report(data)
    if as_json:
        emit_json(report)
        return
    for key, value in report.items():
        click.echo(f"{key.replace('_', ' ')}: {in_words(value)}")


@aggregator.command()
@home_option
@click.argument("name")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def release(home: Path, name: str, output: Path) -> None:
    """Copy a round's release to a folder."""
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.release.bundle import check_target

    premises = AggregatorHome(home)
    data = premises.store().round(name)
    if data is None or data.manifest is None:
        raise UsageError(
            "the round has no release",
            got="no such round" if data is None else f"state {data.state.value}",
            do=f"see `sherd aggregator status {name}`",
        )
    check_target(output, force=False)
    staged = output.with_name(f".{output.name}.copying")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(premises.releases / name, staged)
    staged.rename(output)
    click.echo(f"release of '{name}' is in {output}")
