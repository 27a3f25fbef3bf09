"""Looking over a folder of an owner or an aggregator before it is put to work."""

from __future__ import annotations

import datetime
import shutil
from typing import TYPE_CHECKING

import click

from sherd.cli.options import emit_json, printable
from sherd.errors import SherdError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.owner.owner_home import OwnerHome

WARN_DAYS = 30
"""How long before a certificate ends people are warned."""

Look = tuple[str, "Callable[[], str]"]
Finding = tuple[str, bool, str]


def _found(looks: list[Look]) -> list[Finding]:
    found: list[Finding] = []
    for name, look in looks:
        try:
            found.append((name, True, look()))
        except SherdError as error:
            found.append((name, False, str(error)))
        except (OSError, ValueError) as error:
            found.append((name, False, f"cannot be read: {type(error).__name__}"))
    return found


def show(found: list[Finding], *, as_json: bool) -> int:
    """Print what was found; the exit code."""
    good = all(fine for _, fine, _ in found)
    if as_json:
        emit_json([{"what": what, "ok": fine, "detail": text} for what, fine, text in found])
    else:
        for what, fine, text in found:
            click.echo(f"{'ok  ' if fine else 'FAIL'}  {what}: {printable(text)}")
    return 0 if good else 2


def _certificate(path: Path) -> str:
    from cryptography import x509

    ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    days = (ends - datetime.datetime.now(datetime.UTC)).days
    if days < 0:
        raise UsageError("the certificate has ended", got=f"{ends:%Y-%m-%d}", do="renew it")
    warning = "; renew it soon" if days < WARN_DAYS else ""
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
            ("key", lambda: home.key.public[:16]),
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
            raise UsageError("the seed is not whole", must="32 bytes", do="restore the folder")
        return "there"

    return _found(
        [
            ("settings", lambda: home.settings.name),
            ("key", lambda: home.key.public[:16]),
            ("seed", seed),
            ("policy", lambda: "allows " + (", ".join(home.policy.methods) or "nothing")),
            ("table", table),
            ("ledger", lambda: f"{Ledger(home.ledger).verify()} rows"),
            ("enrolment", lambda: f"with {home.enrolled['aggregator']}"),
            ("certificate", lambda: _certificate(home.channel[0])),
            ("disk", lambda: _disk(home.folder)),
        ]
    )
