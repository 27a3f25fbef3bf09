"""An owner's folder: its keys, settings, policy, ledger, journal and outbox."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sherd.errors import PeerError, UsageError
from sherd.federation.owner.policy import TEMPLATE, Policy
from sherd.federation.protocol.joint_plan import check_name
from sherd.federation.protocol.knowledge import OwnerData
from sherd.federation.protocol.owner_machine import Owner
from sherd.federation.wire import certificates, enrolment
from sherd.federation.wire.settings_file import make_folder, read_settings, write_settings
from sherd.signing_keys import SigningKey, verify_plan, write_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sherd.federation.owner.owner_table import LoadedTable, OwnerTable
    from sherd.federation.wire.client import Client
    from sherd.tables.schema import Schema

SETTINGS = "owner.json"


@dataclass(frozen=True, kw_only=True)
class OwnerSettings:
    """What an owner was set up with; ``source`` is a file or an address of a database.

    ``keeps`` is what it fetches of a joint release: its data, too, or its manifest alone.
    ``key_columns`` are those that link people, together; an earlier version knew one,
    ``key_column``. ``normalise`` is how they are compared, the same at every owner.
    """

    name: str
    source: str
    schema: str
    query: str | None = None
    key_column: str | None = None
    key_columns: list[str] = field(default_factory=list)
    normalise: str = "exact"
    population: str
    witness: str | None = None
    keeps: str = "data"


class OwnerHome:
    """An owner's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.db"
        self.journal = folder / "journal.db"
        self.outbox = folder / "outbox"
        self.bulk = folder / "bulk"
        self.releases = folder / "releases"
        self.policy_file = folder / "policy.yaml"
        self.authority = folder / "authority.pem"
        self.certificate = folder / "certificate.pem"
        self.channel_key = folder / "channel-key.pem"
        self._renewed = folder / "channel-renewed.pem"
        self._policy: tuple[bytes, Policy] | None = None
        self._loaded: tuple[str, LoadedTable] | None = None
        self._attempt = folder / "attempt.json"

    @classmethod
    def make(cls, folder: Path, settings: OwnerSettings) -> OwnerHome:
        """Set up a new folder: keys, seed, a policy that refuses everything, a request."""
        check_name(settings.name, "owner")
        home = cls(folder)
        make_folder(folder, SETTINGS, "an owner")
        key = SigningKey.generate()
        key.save(folder / "key.pem")
        write_secret(folder / "seed", secrets.token_bytes(32))
        write_secret(home.channel_key, certificates.new_key())
        if not home.policy_file.exists():
            home.policy_file.write_text(TEMPLATE, encoding="utf-8")
        csr = certificates.request(settings.name, home.channel_key.read_bytes())
        request = enrolment.make_request(settings.name, key, csr)
        (folder / "request.json").write_bytes(request)
        write_settings(folder / SETTINGS, settings)
        return home

    @property
    def settings(self) -> OwnerSettings:
        """The settings."""
        return read_settings(self.folder / SETTINGS, OwnerSettings, "an owner", "owner")

    @cached_property
    def key(self) -> SigningKey:
        """The owner's key, which is made with the folder and stays."""
        return SigningKey.load(self.folder / "key.pem")

    @property
    def seed(self) -> bytes:
        """The seed of the owner's linkage keys."""
        return (self.folder / "seed").read_bytes()

    @property
    def shared_key(self) -> bytes | None:
        """The key all owners share for the linkage by HMAC, if there is one."""
        path = self.folder / "linkage.key"
        return path.read_bytes() if path.exists() else None

    @property
    def policy(self) -> Policy:
        """The policy as the file has it now; parsed again only where its text has changed."""
        written = self.policy_file.read_bytes() if self.policy_file.exists() else b""
        if self._policy is None or self._policy[0] != written:
            self._policy = (written, Policy.load(self.policy_file))
        return self._policy[1]

    def join(self, answer: enrolment.EnrolmentAnswer) -> None:
        """Take in the answer of the aggregator's operator."""
        if answer.owner != self.settings.name or answer.owner_key != self.key.public:
            raise UsageError("the enrolment belongs to somebody else", got=repr(answer.owner))
        self.authority.write_text(answer.authority, encoding="ascii")
        self.certificate.write_text(answer.certificate, encoding="ascii")
        self._renewed.unlink(missing_ok=True)
        (self.folder / "enrolment.json").write_text(
            json.dumps({"aggregator": answer.aggregator, "key": answer.key, "url": answer.url}),
            encoding="utf-8",
        )

    @property
    def enrolled(self) -> dict[str, str]:
        """The aggregator's name, key and address."""
        try:
            enrolled: dict[str, str] = json.loads((self.folder / "enrolment.json").read_bytes())
        except (OSError, ValueError):
            raise UsageError(
                "the owner is not enrolled",
                do="send request.json to the aggregator's operator, then run "
                "`sherd owner init --enrolment FILE`",
            ) from None
        return enrolled

    def machine(self, round_id: str, known: OwnerData | None) -> Owner:
        """The protocol machine of a round, of which nothing may be known yet."""
        if known is None:
            enrolled = self.enrolled
            known = OwnerData(
                round=round_id,
                owner=self.settings.name,
                key=self.key.public,
                aggregator=enrolled["aggregator"],
                aggregator_key=enrolled["key"],
            )
        return Owner(known, verify=verify_plan)

    def client(self) -> Client:
        """A client of the aggregator that this owner is enrolled with."""
        from sherd.federation.wire.client import Client, tls_context

        enrolled = self.enrolled
        plain = enrolled["url"].startswith("http://")
        return Client(
            url=enrolled["url"],
            name=self.settings.name,
            aggregator=enrolled["aggregator"],
            key=self.key,
            context=None if plain else tls_context(self.authority, self.channel),
        )

    @property
    def channel(self) -> tuple[Path, Path]:
        """The files of our certificate and its key; renewed, they are one file."""
        renewed = self._renewed
        return (renewed, renewed) if renewed.exists() else (self.certificate, self.channel_key)

    def take_certificate(self, answer: enrolment.EnrolmentAnswer, key_pem: bytes) -> None:
        """Take in a renewed certificate: only of ours, by the aggregator we are enrolled with."""
        from sherd.tables.files import write_whole

        enrolled, own = self.enrolled, (self.settings.name, self.key.public)
        ours = (answer.owner, answer.owner_key) == own
        if not ours or (answer.aggregator, answer.key) != (enrolled["aggregator"], enrolled["key"]):
            raise PeerError(
                "the certificate belongs to somebody else or comes from another aggregator"
            )
        authority, made = answer.authority.encode(), answer.certificate.encode()
        certificates.check_issued(made, key_pem, authority)
        write_whole(self.authority, authority)
        write_whole(self._renewed, made + key_pem, mode=0o600)

    def source(self) -> OwnerTable:
        """The owner's table."""
        from sherd.federation.owner.owner_table import OwnerTable
        from sherd.tables.read import read
        from sherd.tables.schema import Schema

        given = self.settings
        schema = Schema.load(given.schema)
        return OwnerTable(
            read=lambda: read(given.source, schema=schema, query=given.query),
            schema=schema,
            key=tuple(given.key_columns or ([given.key_column] if given.key_column else [])),
            normalise=given.normalise,
        )

    def load(self, round_id: str, shared: Schema, *, linked: bool) -> LoadedTable:
        """The table as a round needs it: read at the first call, kept for those that follow."""
        if self._loaded is None or self._loaded[0] != round_id:
            self._loaded = None  # never two tables in memory
            self._loaded = (round_id, self.source().load(shared, linked=linked))
        return self._loaded[1]

    def forget_table(self) -> None:
        """Let go of the table that was read last."""
        self._loaded = None

    # what a process was doing when it died

    @contextlib.contextmanager
    def attempting(self, round_id: str, *, heavy: bool) -> Iterator[None]:
        """Keep a note of a heavy task while it lasts, for the process that comes after us."""
        if not heavy:
            yield
            return
        known, count = self.last_attempt()
        count = count + 1 if known == round_id else 1
        # Not synced: it is for a process that was killed, not for a machine that lost power.
        self._attempt.write_text(json.dumps({"round": round_id, "count": count}))
        try:
            yield
        finally:
            if sys.exc_info()[1] is None or isinstance(sys.exc_info()[1], Exception):
                self.end_attempt()

    def last_attempt(self) -> tuple[str | None, int]:
        """The round whose task did not come to an end, and how often it was begun."""
        try:
            attempt = json.loads(self._attempt.read_bytes())
            return str(attempt["round"]), int(attempt["count"])
        except (OSError, ValueError, KeyError, TypeError):
            return None, 0

    def end_attempt(self) -> None:
        """Remove the note: the task has come to an end."""
        self._attempt.unlink(missing_ok=True)

    # a folder that was restored from a backup

    def mark_restored(self) -> None:
        """Note that this folder may lack what was spent, until it is led back."""
        write_secret(self.folder / "restored", b"run `sherd owner recover`\n")

    def mark_recovered(self) -> None:
        """Note that what may have been spent is charged."""
        (self.folder / "restored").unlink(missing_ok=True)

    def check_recovered(self) -> None:
        """Refuse a folder that was restored and not led back."""
        if (self.folder / "restored").exists():
            raise UsageError(
                "the folder was restored from a backup and may lack what was spent since",
                must="recovered before it takes part again",
                got=str(self.folder),
                do="run `sherd owner recover`",
            )

    # ledger heads that a restored home cannot have

    @property
    def _superseded(self) -> Path:
        return self.folder / "superseded-heads"

    def is_superseded(self, head: str) -> bool:
        """Whether a ledger head was lost with what a backup did not hold, and made up for."""
        known = self._superseded
        return known.exists() and head in known.read_text(encoding="ascii").split()

    def supersede(self, head: str) -> None:
        """Note that what was spent up to this head has been charged again."""
        from sherd.tables.files import write_whole

        known = self._superseded.read_text(encoding="ascii") if self._superseded.exists() else ""
        write_whole(self._superseded, f"{known}{head}\n".encode(), mode=0o600)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make sure that one agent at a time works in this folder."""
        handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    "another agent works in this folder", got=str(self.folder), do="stop it first"
                ) from None
            yield
        finally:
            os.close(handle)
