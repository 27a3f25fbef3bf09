"""The folder of an owner or an aggregator: naming it by an option, opening it, looking it over."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import PATH, emit_json, printable
from sherd.errors import SherdError, UsageError
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.owner.owner_journal import OwnerJournal


def home_option(role: str) -> Callable[..., Any]:
    """The option that names the folder of an ``owner`` or an ``aggregator``."""
    return click.option(
        "--home",
        type=PATH,
        default=Path(role),
        show_default=True,
        envvar=f"SHERD_{role.upper()}",
        help=f"Use this {role}'s folder.",
    )


aggregator_option, owner_option = home_option("aggregator"), home_option("owner")


def open_aggregator(folder: Path) -> AggregatorHome:
    """An aggregator's folder, where the parts that it needs are installed."""
    from sherd.extras import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

    return AggregatorHome(folder)


def open_owner(folder: Path) -> OwnerHome:
    """An owner's folder, where the parts that it needs are installed."""
    from sherd.extras import OWNER, require

    require(OWNER)
    from sherd.federation.owner.owner_home import OwnerHome

    return OwnerHome(folder)


def open_journal(folder: Path) -> tuple[OwnerHome, OwnerJournal]:
    """A folder that is an owner's, and its journal."""
    home = open_owner(folder)
    from sherd.federation.owner.owner_journal import OwnerJournal

    assert home.settings
    return home, OwnerJournal(home.journal)


Look = tuple[str, "Callable[[], str]"]
Finding = tuple[str, bool, str]


def _found(looks: list[Look]) -> list[Finding]:
    findings: list[Finding] = []
    for name, look in looks:
        try:
            findings.append((name, True, look()))
        except SherdError as error:
            findings.append((name, False, str(error)))
        except (OSError, ValueError) as error:
            findings.append((name, False, f"cannot be read: {type(error).__name__}"))
    return findings


def show(findings: list[Finding], *, as_json: bool) -> int:
    """Print what was found; the exit code."""
    good = all(fine for _, fine, _ in findings)
    if as_json:
        emit_json([{"what": what, "ok": fine, "detail": text} for what, fine, text in findings])
    else:
        for what, fine, text in findings:
            click.echo(f"{'ok  ' if fine else 'FAIL'}  {what}: {printable(text)}")
    return 0 if good else 2


def _certificate(path: Path) -> str:
    from sherd.federation.wire.certificates import RENEW_DAYS, days_left, ends_at

    if not path.exists():
        raise UsageError("there is no certificate yet", do="it comes with the enrolment")
    ends, days = ends_at(path.read_bytes()), days_left(path.read_bytes())
    if days < 0:
        raise UsageError("the certificate has expired", got=f"{ends:%Y-%m-%d}", do="renew it")
    warning = "; renew it soon" if days < RENEW_DAYS else ""
    return f"until {ends:%Y-%m-%d}, {days} days{warning}"


def _disk(folder: Path) -> str:
    free = shutil.disk_usage(folder).free >> 20
    if free < 64:
        raise UsageError("the disk is nearly full", got=f"{free} MiB free", do="make room")
    return f"{free} MiB free"


def aggregator_checks(home: AggregatorHome) -> list[Finding]:
    """What an aggregator's folder needs."""

    def database() -> str:
        home.store().close()
        return "of this version"

    return _found(
        [
            ("settings", lambda: home.settings.name),
            ("key", lambda: fingerprint(home.key.public)),
            ("certificate", lambda: _certificate(home.channel[0])),
            ("authority", lambda: _certificate(home.authority)),
            ("database", database),
            ("disk", lambda: _disk(home.folder)),
        ]
    )


def owner_checks(home: OwnerHome) -> list[Finding]:
    """What an owner's folder needs, the table against its schema and the policy included."""
    from sherd.budget.ledger import Ledger

    def table() -> str:
        source = home.source()
        loaded = source.load(source.shared_schema(home.policy), linked=bool(source.key))
        return f"{loaded.rows} rows can take part"

    def seed() -> str:
        if len(home.seed) != 32:
            raise UsageError("the seed is incomplete", must="32 bytes", do="restore the folder")
        return "there"

    return _found(
        [
            ("settings", lambda: home.settings.name),
            ("key", lambda: fingerprint(home.key.public)),
            ("seed", seed),
            ("policy", lambda: "allows " + (", ".join(home.policy.methods) or "nothing")),
            ("table", table),
            ("ledger", lambda: f"{Ledger(home.ledger).verify()} rows"),
            ("enrolment", lambda: f"with {home.enrolled['aggregator']}"),
            ("certificate", lambda: _certificate(home.channel[0])),
            ("disk", lambda: _disk(home.folder)),
        ]
    )
