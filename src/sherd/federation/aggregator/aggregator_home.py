"""The aggregator's folder: its key, its authority, its settings and its releases."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import StorageError, UsageError
from sherd.federation.aggregator.storage import Store
from sherd.federation.protocol.joint_plan import check_name
from sherd.federation.wire import certificates
from sherd.federation.wire.enrolment import Request, make_answer
from sherd.signing_keys import SigningKey, write_secret

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sherd.federation.aggregator.round_work import Aggregator

SETTINGS = "aggregator.json"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an aggregator was set up with; ``database`` is an address, None for its own file."""

    name: str
    url: str
    database: str | None = None


class Premises:
    """An aggregator's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.releases = folder / "releases"
        self.authority = folder / "authority.pem"
        self.certificate = folder / "server.pem"
        self.channel_key = folder / "server-key.pem"

    @classmethod
    def make(cls, folder: Path, settings: Settings, hosts: Sequence[str]) -> Premises:
        """Set up a new folder: key, authority, server certificate, database, operator's token."""
        check_name(settings.name, "aggregator")
        made = cls(folder)
        if (folder / SETTINGS).exists():
            raise UsageError(
                "this folder is an aggregator's already", got=str(folder), do="choose another"
            )
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                "the aggregator's folder cannot be made", got=f"{folder}: {error.strerror}"
            ) from None
        SigningKey.generate().save(folder / "key.pem")
        authority = certificates.make_authority(settings.name)
        write_secret(folder / "authority-key.pem", authority[0])
        made.authority.write_bytes(authority[1])
        channel = certificates.new_key()
        write_secret(made.channel_key, channel)
        made.certificate.write_bytes(certificates.issue_server(authority, channel, hosts))
        token = secrets.token_urlsafe(32)
        store = Store(settings.database or made.default_database)
        store.migrate()
        from time import time

        store.add_member("operator", "operator", token=token, now=int(time()))
        store.close()
        write_secret(folder / "operator.token", token.encode())
        from sherd.tables.files import write_whole

        write_whole(folder / SETTINGS, (json.dumps(vars(settings), indent=2) + "\n").encode())
        (folder / SETTINGS).chmod(0o600)  # a database's address may hold a password
        return made

    @property
    def default_database(self) -> str:
        """The address of the folder's own database."""
        return f"sqlite:///{self.folder.absolute() / 'aggregator.db'}"

    @property
    def settings(self) -> Settings:
        """The settings."""
        path = self.folder / SETTINGS
        try:
            data: dict[str, Any] = json.loads(path.read_bytes())
            return Settings(**data)
        except OSError:
            raise UsageError(
                "this is not an aggregator's folder",
                got=str(self.folder),
                do="set it up with `sherd aggregator init`",
            ) from None
        except (ValueError, TypeError):
            raise UsageError("the aggregator's settings cannot be read", got=str(path)) from None

    @property
    def key(self) -> SigningKey:
        """The aggregator's key."""
        return SigningKey.load(self.folder / "key.pem")

    def store(self, *, upgrade: bool = False) -> Store:
        """The aggregator's storage, of this version."""
        store = Store(self.settings.database or self.default_database)
        if upgrade:
            store.migrate()
        store.check()
        return store

    def aggregator(self) -> Aggregator:
        """The aggregator at work."""
        from sherd.federation.aggregator.round_work import Aggregator

        return Aggregator(
            name=self.settings.name, key=self.key, store=self.store(), releases=self.releases
        )

    def enrol(self, request: Request, *, now: int) -> bytes:
        """Enrol an owner; the file to send back."""
        authority = (
            (self.folder / "authority-key.pem").read_bytes(),
            self.authority.read_bytes(),
        )
        certificate = certificates.issue_client(authority, request.csr.encode(), request.name)
        store = self.store()
        store.add_member(request.name, "owner", key=request.key, now=now)
        store.close()
        return make_answer(
            request,
            self.key,
            aggregator=self.settings.name,
            url=self.settings.url,
            authority=authority[1],
            certificate=certificate,
        )
