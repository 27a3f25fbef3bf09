"""The aggregator's folder: its key, its authority, its settings and its releases.

What owners asked and were answered at enrolment is kept, so that their certificates can be renewed:
a renewal certifies the key that an owner is enrolled with once more; another key is refused.
Neither a request nor an answer is secret.

A backup is one file with the folder and the database, whichever that is. The database is copied row
by row in one transaction into a SQLite file, so that a backup of PostgreSQL can be restored
anywhere. Releases are copied after it: a round that the copy says is released has its release, and
one that was being published finds it there. Sessions are not copied. Rounds that went on after the
backup was made are noticed by what owners have seen of them, and end with a reason
(``Aggregator.notice``).
"""

from __future__ import annotations

import secrets
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.errors import UsageError
from sherd.federation.aggregator.storage import Store
from sherd.federation.aggregator.storage.upkeep import check_empty, copy_store
from sherd.federation.protocol.joint_plan import check_name
from sherd.federation.wire import certificates
from sherd.federation.wire.backup_archive import folder_files, read_backup, write_backup
from sherd.federation.wire.enrolment import (
    EnrolmentRequest,
    make_answer,
    read_answer,
    read_request,
)
from sherd.federation.wire.openid_provider import Provider
from sherd.federation.wire.settings_file import make_folder, read_settings, write_settings
from sherd.signing_keys import SigningKey, write_secret
from sherd.tables.files import write_whole
from sherd.values import canonical, to_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from sherd.federation.aggregator.round_work import Aggregator

SETTINGS = "aggregator.json"
DATABASE = "aggregator.db"
BACKUP_KIND = "aggregator"


@dataclass(frozen=True, kw_only=True)
class AggregatorSettings:
    """What an aggregator was set up with; ``database`` is an address, None for its own file.

    People log in at ``issuer``, to which the aggregator is ``client_id``.
    """

    name: str
    url: str
    database: str | None = None
    issuer: str | None = None
    client_id: str | None = None


class AggregatorHome:
    """An aggregator's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.releases = folder / "releases"
        self.authority = folder / "authority.pem"
        self.certificate = folder / "server.pem"
        self.channel_key = folder / "server-key.pem"
        self._renewed = folder / "server-renewed.pem"

    @classmethod
    def make(
        cls, folder: Path, settings: AggregatorSettings, hosts: Sequence[str]
    ) -> AggregatorHome:
        """Set up a new folder: key, authority, server certificate, database, operator's token."""
        check_name(settings.name, "aggregator")
        made = cls(folder)
        make_folder(folder, SETTINGS, "an aggregator")
        SigningKey.generate().save(folder / "key.pem")
        authority = certificates.make_authority(settings.name)
        write_secret(folder / "authority-key.pem", authority[0])
        made.authority.write_bytes(authority[1])
        channel = certificates.new_key()
        write_secret(made.channel_key, channel)
        made.certificate.write_bytes(certificates.issue_server(authority, channel, hosts))
        token = secrets.token_urlsafe(32)
        with closing(Store(settings.database or made.default_database)) as store:
            store.migrate()
            store.add_member("operator", "operator", token=token, now=int(time.time()))
        write_secret(folder / "operator.token", token.encode())
        write_settings(folder / SETTINGS, settings)
        return made

    @property
    def default_database(self) -> str:
        """The address of the folder's own database."""
        return f"sqlite:///{self.folder.absolute() / DATABASE}"

    @property
    def settings(self) -> AggregatorSettings:
        """The settings."""
        path = self.folder / SETTINGS
        return read_settings(path, AggregatorSettings, "an aggregator", "aggregator")

    @property
    def key(self) -> SigningKey:
        """The aggregator's key."""
        return SigningKey.load(self.folder / "key.pem")

    def store(self, *, upgrade: bool = False) -> Store:
        """The aggregator's storage, of this version."""
        store = Store(self.settings.database or self.default_database)
        try:
            if upgrade:
                store.migrate()
            store.check()
        except BaseException:
            store.close()
            raise
        return store

    def aggregator(self) -> Aggregator:
        """The aggregator, ready to run rounds."""
        from sherd.federation.aggregator.round_work import Aggregator

        return Aggregator(
            name=self.settings.name,
            key=self.key,
            store=self.store(),
            releases=self.releases,
            certify=self.certify,
            provider=self.provider,
        )

    @property
    def provider(self) -> Provider | None:
        """Where people log in, if they do."""
        known = self.settings
        if known.issuer is None or known.client_id is None:
            return None
        return Provider(known.issuer, known.client_id)

    def enrol(self, request: EnrolmentRequest, *, now: int) -> bytes:
        """Enrol an owner; the file to send back."""
        answer = self.certify(request.name, request.key, request.csr)
        with closing(self.store()) as store:
            store.add_member(request.name, "owner", key=request.key, now=now)
        return answer

    # certificates

    def _authority(self) -> tuple[bytes, bytes]:
        try:
            key = (self.folder / "authority-key.pem").read_bytes()
        except OSError:
            raise UsageError(
                "the folder lacks the authority's key",
                got=str(self.folder),
                do="put authority-key.pem there, or issue certificates where it is",
            ) from None
        return key, self.authority.read_bytes()

    def certify(self, name: str, key: str, csr: str) -> bytes:
        """A new certificate for an owner, in the signed form of an enrolment."""
        authority = self._authority()
        return make_answer(
            EnrolmentRequest(name=name, key=key, csr=csr),
            self.key,
            aggregator=self.settings.name,
            url=self.settings.url,
            authority=authority[1],
            certificate=certificates.issue_client(authority, csr.encode(), name),
        )

    @property
    def channel(self) -> tuple[Path, Path]:
        """The files of the service's certificate and its key; renewed, they are one file."""
        renewed = self._renewed
        return (renewed, renewed) if renewed.exists() else (self.certificate, self.channel_key)

    def renew(self) -> int:
        """Give the service a new key and certificate for the same hosts; how many days it lasts.

        Connections that are open go on under the old one, which stays good until its end.
        """
        hosts = certificates.hosts_of(self.channel[0].read_bytes())
        key = certificates.new_key()
        made = certificates.issue_server(self._authority(), key, hosts)
        write_whole(self._renewed, made + key, mode=0o600)
        return certificates.days_left(made)

    def renew_if_due(self) -> bool:
        """Renew the service's certificate where it ends soon; whether it was."""
        left = certificates.days_left(self.channel[0].read_bytes())
        if left >= certificates.RENEW_DAYS:
            return False
        self.renew()
        return True


def _request_of(home: AggregatorHome, name: str) -> Path:
    return home.folder / "owners" / f"{check_name(name, 'owner')}.json"


def keep_enrolment(home: AggregatorHome, request: EnrolmentRequest, answer: bytes) -> None:
    """Keep what an owner asked and what it was answered."""
    path = _request_of(home, request.name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(path, canonical(to_data(request)))
    write_whole(path.with_suffix(".answer"), answer)


def renew_owner(home: AggregatorHome, name: str, request: EnrolmentRequest | None = None) -> bytes:
    """A new certificate for an enrolled owner, by its request or the one it enrolled with.

    The file to send back; the owner takes it in as it took in the first.
    """
    path = _request_of(home, name)
    if request is None and not path.is_file():
        raise UsageError(
            "the owner's request is not kept here", got=repr(name), do="give its request.json"
        )
    request = request or read_request(path)
    with closing(home.store()) as store:
        member = store.member(name)
    if member is None or (request.name, request.key) != (name, member.key):
        raise UsageError(
            "only an enrolled owner with the same key can be renewed",
            got=repr(name),
            do="revoke it and enrol its new request",
        )
    answer = home.certify(name, request.key, request.csr)
    keep_enrolment(home, request, answer)
    return answer


def certified_until(home: AggregatorHome, name: str) -> datetime | None:
    """When the certificate that an owner was given here last ends; None where none is kept."""
    path = _request_of(home, name).with_suffix(".answer")
    if not path.exists():
        return None
    return certificates.ends_at(read_answer(path).certificate.encode())


def back_up_aggregator(home: AggregatorHome, target: Path) -> Path:
    """Write a backup of an aggregator while it may be serving."""
    name = home.settings.name
    with tempfile.TemporaryDirectory(dir=home.folder, prefix=".backup-") as copies:
        return write_backup(target, kind=BACKUP_KIND, name=name, files=_files(home, Path(copies)))


def _files(home: AggregatorHome, copies: Path) -> Iterator[tuple[str, Path]]:
    with closing(home.store()) as store, closing(Store(f"sqlite:///{copies / DATABASE}")) as copy:
        copy.migrate()
        copy_store(store, copy)
    yield DATABASE, copies / DATABASE
    beside = {f"{DATABASE}{end}" for end in ("", "-wal", "-shm")}
    for place, path in folder_files(home.folder, leave_out={*beside, copies.name}):
        if not any(part.startswith(".") for part in Path(place).parts):  # not yet published
            yield place, path


def restore_aggregator(
    source: Path, folder: Path, *, database: str | None = None
) -> AggregatorHome:
    """Put an aggregator's backup into a new folder, and its database where it shall be."""
    if database is not None:
        with closing(Store(database)) as store:
            check_empty(store)
    read_backup(source, folder, kind=BACKUP_KIND)
    home = AggregatorHome(folder)
    known = read_settings(folder / SETTINGS, AggregatorSettings, "an aggregator", "aggregator")
    write_settings(folder / SETTINGS, replace(known, database=database))
    if database is None:
        home.store(upgrade=True).close()
        return home
    with closing(Store(home.default_database)) as copied, closing(Store(database)) as store:
        copied.migrate()
        store.migrate()
        copy_store(copied, store)
    for end in ("", "-wal", "-shm"):
        (folder / f"{DATABASE}{end}").unlink(missing_ok=True)
    return home
