"""``check``: a look at the folder of an owner or an aggregator before it is put to work.

Nothing is written: a folder that does not exist is not made by looking at it.
"""

from __future__ import annotations

import contextlib
import shutil
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from sherd.cli.options import emit_json, printable
from sherd.errors import SherdError, UsageError, did_you_mean
from sherd.signing_keys import fingerprint, same_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.owner.owner_home import OwnerHome

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


def aggregator_checks(home: AggregatorHome) -> list[Finding]:
    """What an aggregator's folder needs."""

    def database() -> str:
        home.store().close()
        return "of this version"

    secrets = ("key.pem", "authority-key.pem", "server-key.pem", "server-renewed.pem")
    return _found(
        [
            ("settings", lambda: home.settings.name),
            ("address", lambda: _address(home.settings.url)),
            ("key", lambda: fingerprint(home.key.public)),
            ("secrets", lambda: _secrets(home.folder, (*secrets, "operator.token"))),
            ("certificate", lambda: _certificate(home.channel[0])),
            ("authority", lambda: _certificate(home.authority)),
            ("channel", lambda: _channel(home)),
            ("renewals", lambda: _renewals(home)),
            ("database", database),
            ("disk", lambda: _disk(home.folder)),
        ]
    )


def owner_checks(home: OwnerHome) -> list[Finding]:
    """What an owner's folder needs, the table against its schema and the policy included."""
    secrets = ("key.pem", "seed", "channel-key.pem", "channel-renewed.pem", "linkage.key")
    return _found(
        [
            ("settings", lambda: home.settings.name),
            ("key", lambda: fingerprint(home.key.public)),
            ("seed", lambda: _seed(home)),
            ("secrets", lambda: _secrets(home.folder, secrets)),
            ("policy", lambda: _policy(home)),
            ("table", lambda: _table(home)),
            ("ledger", lambda: _ledger(home)),
            ("enrolment", lambda: _enrolment(home)),
            ("certificate", lambda: _own_certificate(home)),
            ("disk", lambda: _disk(home.folder)),
        ]
    )


# both


def _certificate(path: Path) -> str:
    from sherd.federation.wire.certificates import RENEW_DAYS, days_left, ends_at

    if not path.exists():
        raise UsageError("there is no certificate yet", do="it comes with the enrolment")
    try:
        ends, days = ends_at(path.read_bytes()), days_left(path.read_bytes())
    except ValueError:
        raise UsageError(
            "the file is not a certificate",
            must="PEM",
            got=str(path),
            do="restore it from a backup, or have a new one issued",
        ) from None
    if days < 0:
        raise UsageError("the certificate has expired", got=f"{ends:%Y-%m-%d}", do="renew it")
    warning = "; renew it soon" if days < RENEW_DAYS else ""
    return f"until {ends:%Y-%m-%d}, {days} days{warning}"


def _disk(folder: Path) -> str:
    if not folder.is_dir():
        raise UsageError("the folder does not exist", got=str(folder), do="check the path")
    free = shutil.disk_usage(folder).free >> 20
    if free < 64:
        raise UsageError("the disk is nearly full", got=f"{free} MiB free", do="make room")
    return f"{free} MiB free"


def _secrets(folder: Path, names: tuple[str, ...]) -> str:
    """Nobody else on the machine may read or change what is secret."""
    there = [folder / name for name in names if (folder / name).exists()]
    for path in there:
        mode = path.stat().st_mode & 0o777
        if mode & 0o027:
            raise UsageError(
                "others on this machine can read or change a secret file",
                must="mode 600",
                got=f"{path}, mode {mode:03o}",
                do=f"run `chmod 600 {path}`, and replace the secret if others used this machine",
            )
    return f"{len(there)} files that only their user can read"


# the aggregator


def _address(url: str) -> str:
    parts = urlsplit(url)
    near = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or parts.scheme not in (("https", "http") if near else ("https",)):
        raise UsageError(
            "owners cannot call this address",
            must="https://HOST:PORT",
            got=url,
            do="correct 'url' in the settings, and enrol owners again if it changes",
        )
    return url


def _channel(home: AggregatorHome) -> str:
    """A handshake in memory, as an owner would do it that trusts our authority."""
    host = urlsplit(home.settings.url).hostname or ""
    service, caller = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), None
    try:
        caller = ssl.create_default_context(cafile=str(home.authority))
        service.load_cert_chain(*(str(path) for path in home.channel))
        _shake_hands(service, caller, host)
    except ssl.SSLCertVerificationError as error:
        raise UsageError(
            "owners would not trust the service's certificate",
            must=f"issued by {home.authority.name} for '{host}'",
            got=error.verify_message,
            do="run `sherd aggregator renew` where only its time is over; otherwise put a "
            "certificate there that fits",
        ) from None
    except OSError as error:
        raise UsageError(
            "the service's certificate and key cannot be used",
            must="a certificate and its own private key, as PEM",
            got=f"{home.channel[0].name}, {home.channel[1].name}: {_words(error)}",
            do="restore both from a backup",
        ) from None
    return f"owners reach '{host}' by it"


def _words(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return str(reason or type(error).__name__).lower().replace("_", " ")


def _shake_hands(service: ssl.SSLContext, caller: ssl.SSLContext, host: str) -> None:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        caller.wrap_bio(back, there, server_hostname=host or None),
        service.wrap_bio(there, back, server_side=True),
    )
    for _ in range(6):
        for side in sides:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()


def _renewals(home: AggregatorHome) -> str:
    if not (home.folder / "authority-key.pem").exists():
        return "not here: without authority-key.pem no certificate is issued or renewed"
    return "by the authority's key"


# the owner


def _seed(home: OwnerHome) -> str:
    if len(home.seed) != 32:
        raise UsageError("the seed is incomplete", must="32 bytes", do="restore the folder")
    return "there"


def _policy(home: OwnerHome) -> str:
    """What the policy names must exist: what is misspelt there is refused in every round."""
    from sherd.methods import names
    from sherd.tables.schema import Schema

    policy = home.policy
    _known("method", policy.methods, names(), "see `sherd methods`")
    schema = Schema.load(home.settings.schema)
    _known("attribute", policy.attributes or (), tuple(schema.attributes), "see the schema")
    return "allows " + (", ".join(policy.methods) or "nothing")


def _known(what: str, named: tuple[str, ...], known: tuple[str, ...], do: str) -> None:
    for name in named:
        if name not in known:
            raise UsageError(
                f"the policy allows a {what} that does not exist"
                if what == "method"
                else f"the policy shares an {what} that the schema does not have",
                must="one of " + ", ".join(known[:20]),
                got=repr(name),
                do=did_you_mean(name, known) or do,
            )


def _table(home: OwnerHome) -> str:
    source = home.source()
    loaded = source.load(source.shared_schema(home.policy), linked=bool(source.key))
    return f"{loaded.rows} rows can take part"


def _ledger(home: OwnerHome) -> str:
    from sherd.budget.ledger import Ledger

    witness = home.settings.witness
    if witness is not None:
        from pathlib import Path

        if not Path(witness).absolute().parent.is_dir():
            raise UsageError(
                "the witness cannot be written",
                must="a file in a folder that exists",
                got=witness,
                do="mount that disk, or correct 'witness' in the settings",
            )
    return f"{Ledger(home.ledger).verify() if home.ledger.exists() else 0} rows"


def _enrolment(home: OwnerHome) -> str:
    """The policy must name the aggregator that the owner is enrolled with."""
    name, key = home.enrolled["aggregator"], home.enrolled["key"]
    policy = home.policy
    if policy.aggregators and not same_fingerprint(policy.aggregators.get(name, ""), key):
        raise UsageError(
            "the policy does not name the aggregator that this owner is enrolled with",
            must=f"{name}: {fingerprint(key)} under 'aggregators'",
            got=", ".join(f"{n}: {f}" for n, f in policy.aggregators.items()),
            do="compare the fingerprint with the operator, then correct the policy",
        )
    return f"with {name}"


def _own_certificate(home: OwnerHome) -> str:
    """The certificate must be for our name and our key."""
    from sherd.federation.wire import certificates
    from sherd.federation.wire.client import tls_context

    told = _certificate(home.channel[0])
    names = certificates.hosts_of(home.channel[0].read_bytes())
    if home.settings.name not in names:
        raise UsageError(
            "the certificate is another's",
            must=f"issued to '{home.settings.name}'",
            got=", ".join(names),
            do="put back the one that came with the enrolment, or enrol again",
        )
    try:
        tls_context(home.authority, home.channel)
    except UsageError as error:
        raise UsageError(
            "the certificate does not fit its key, or the authority cannot be read",
            must="certificate and key that belong together, as PEM",
            got=f"{home.channel[0].name}, {home.channel[1].name}: {error.got}",
            do="restore the folder from a backup, or enrol again",
        ) from None
    return told
