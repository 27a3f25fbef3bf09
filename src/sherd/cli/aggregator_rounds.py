"""``sherd aggregator round``: open, repeat or abort a round, here or at an aggregator elsewhere."""

from __future__ import annotations

import re
import secrets
import time
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.home_folder import aggregator_option, open_aggregator, open_rounds
from sherd.cli.method_options import MethodCommand, check_required, chosen_parameters, with_set
from sherd.cli.options import (
    CommandGroup,
    emit,
    json_option,
    named_values,
    set_option,
    settings,
)
from sherd.cli.remote import remote_client, remote_options
from sherd.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.protocol.joint_plan import Terms


_deadline_option = click.option(
    "--deadline",
    default="24h",
    show_default=True,
    help="End the round after this time (30m, 24h, 7d) or at this date.",
)


@click.group("round", cls=CommandGroup)
def round_group() -> None:
    """Open, repeat or abort a round."""


@round_group.command("open", cls=MethodCommand)
@aggregator_option
@click.argument("name", required=False)
@click.option(
    "--kind",
    type=click.Choice(["horizontal", "vertical", "blocks"]),
    required=True,
    help="Join by rows (horizontal), by columns (vertical), or by both (blocks: owners of the same "
    "attributes hold different people).",
)
@click.option(
    "--owner", "owners", multiple=True, required=True, help="Invite this owner. Repeatable."
)
@click.option("-m", "--method", required=True, help="Use this method (see `sherd methods`).")
@click.option("-e", "--epsilon", help="Spend this epsilon on the whole release.")
@set_option
@click.option(
    "--sharing",
    type=click.Choice(["attributes", "equal"]),
    default="attributes",
    show_default=True,
    help="Share epsilon by number of attributes or equally, where columns are joined.",
)
@click.option(
    "--share",
    multiple=True,
    metavar="OWNER=EPSILON",
    callback=named_values,
    help="Give an owner this share instead.",
)
@click.option(
    "--linkage",
    type=click.Choice(["oprf", "hmac", "none"]),
    help="Match people by this protocol (hmac: low assurance). Default: oprf where columns are "
    "joined.",
)
@click.option(
    "--dropout",
    type=click.Choice(["abort", "continue"]),
    default="abort",
    show_default=True,
    help="Abort or continue if an owner of a horizontal round drops out.",
)
@click.option(
    "--least-owners",
    type=int,
    default=1,
    show_default=True,
    help="Abort the round if fewer owners than this remain.",
)
@click.option(
    "--colluders",
    type=int,
    help="Tolerate this many colluding owners where they share the noise. Default: all but one.",
)
@_deadline_option
@click.option("--purpose", default="", help="Tell owners what the release is for.")
@remote_options
@json_option
def open_round(home: Path, as_json: bool, **given: Any) -> None:
    """Open a round: invite owners to a joint release.

    The method's parameters are options; `-m NAME --help` lists those of one method. Epsilon is for
    the whole release; the round says how owners share it.
    """
    if given["url"] is not None:
        terms = _open_elsewhere(given)
    else:
        folder = open_aggregator(home)
        terms = _terms(folder.settings.name, given)
        open_rounds(home).open_round(terms)
    emit(
        {"round": terms.round, "deadline": terms.deadline},
        f"round '{terms.round}' is open; owners are invited as they call in",
        f"watch it with `sherd aggregator status {terms.round}`",
        as_json=as_json,
    )


def _open_elsewhere(given: dict[str, Any]) -> Terms:
    """Open a round at an aggregator on another machine."""
    from sherd.values import canonical, to_data

    with closing(remote_client(given["url"], given["token_file"], given["authority"])) as client:
        terms = _terms(str(client.about().get("name")), given)
        client.open_round(canonical(to_data(terms)))
    return terms


def _terms(name: str, given: dict[str, Any]) -> Terms:
    from sherd.federation.protocol.joint_plan import Dropout, Kind, Linkage, Sharing, Terms

    parameters = _parameters(given)
    kind = Kind(given["kind"])
    linkage = given["linkage"] or ("oprf" if kind.joins else "none")
    return Terms(
        round=given["name"] or f"round-{secrets.token_hex(4)}",
        aggregator=name,
        kind=kind,
        owners=given["owners"],
        method=given["method"],
        parameters=parameters,
        epsilon=given["epsilon"],
        sharing=Sharing.GIVEN if given["share"] else Sharing(given["sharing"]),
        given=given["share"],
        linkage=Linkage(linkage),
        dropout=Dropout(given["dropout"]),
        least_owners=given["least_owners"],
        deadline=read_deadline(given["deadline"], time.time()),
        purpose=given["purpose"],
        colluders=given["colluders"],
    )


def _parameters(given: dict[str, Any]) -> dict[str, Any]:
    """The method's parameters but for epsilon, which is the round's."""
    from sherd.release.method import find

    method = find(given["method"])
    chosen = with_set(chosen_parameters(given, method), settings(given["extra"]))
    shared = {} if given["epsilon"] is None else {"epsilon": given["epsilon"]}
    check_required(chosen | shared, method)
    return chosen


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


@round_group.command("repeat")
@aggregator_option
@click.argument("name")
@click.argument("new_name", required=False)
@_deadline_option
@json_option
def repeat_round(home: Path, name: str, new_name: str | None, deadline: str, as_json: bool) -> None:
    """Reopen a round that ended without a release after owners were charged.

    Owners that were charged send what they paid for and pay nothing more.
    """
    until = read_deadline(deadline, time.time())
    new_name = new_name or f"round-{secrets.token_hex(4)}"
    terms = open_rounds(home).repeat(name, name=new_name, deadline=until)
    emit(
        {"round": terms.round, "repeats": name, "deadline": terms.deadline},
        f"round '{terms.round}' is open and repeats '{name}'",
        as_json=as_json,
    )


@round_group.command("abort")
@aggregator_option
@click.argument("name")
@remote_options
def abort_round(
    home: Path, name: str, url: str | None, token_file: Path | None, authority: Path | None
) -> None:
    """End a round without a release."""
    if url is None:
        open_rounds(home).abort(name)
    else:
        with closing(remote_client(url, token_file, authority)) as client:
            client.abort_round(name)
    click.echo(f"round '{name}' has ended")
