"""An aggregator and owners as real processes with mutual TLS, for end-to-end tests."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from people import BLOCK_OWNERS, PARTS, SCHEMA, block, part, people, terms_of
from spawning import Conditions, Spawned, spawn

from sherd.budget.ledger import Ledger
from sherd.federation.aggregator.aggregator_home import AggregatorHome, AggregatorSettings
from sherd.federation.owner.owner_home import OwnerHome, OwnerSettings
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.states import OWNER_ENDS, ROUND_ENDS, RoundState
from sherd.federation.wire.enrolment import read_answer, read_request
from sherd.release.bundle import MANIFEST
from sherd.release.bundle import digest as file_digest
from sherd.signing_keys import fingerprint
from sherd.values import canonical, to_data
from sherd.verifying import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sherd.federation.protocol.knowledge import OwnerData, RoundData


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """A new folder, in memory where there is one."""
    memory = Path("/dev/shm")  # noqa: S108 - a fresh folder of our own in it
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="sherd-test-") as folder:
        yield Path(folder)


def make_database(server: str, name: str) -> str:
    """The address of a new database on a PostgreSQL server."""
    from sqlalchemy import create_engine, text

    address = server.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server.rpartition("/")[0] + f"/{name}"


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Wait until something is so; fail if it does not become so."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds:g} s in vain until {what}"
        time.sleep(0.03)


class Village:
    """Processes of one aggregator and its owners, and their folders.

    With ``url``, owners call that address instead of the service's own; the service does no TLS
    if that address does none, or if ``plain`` says so. ``serve`` are more options for the service.
    """

    def __init__(
        self,
        folder: Path,
        database: str | None = None,
        *,
        port: int | None = None,
        url: str | None = None,
        plain: bool = False,
        serve: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.plain = plain or (url is not None and url.startswith("http:"))
        self.serve = serve
        self.service = f"{'http' if self.plain else 'https'}://127.0.0.1:{self.port}"
        self.url = url or self.service
        settings = AggregatorSettings(name="registry", url=self.url, database=database)
        self.premises = AggregatorHome.make(folder / "aggregator", settings, ("127.0.0.1",))
        self.homes: dict[str, OwnerHome] = {}
        self.running: dict[str, Spawned] = {}
        self.logs: list[Path] = []

    def add_owner(
        self, name: str, table: pa.Table, schema: str, *, key: str | None = None, **policy: Any
    ) -> OwnerHome:
        """Set up and enrol an owner."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        pq.write_table(table, folder / "table.parquet")
        (folder / "schema.yaml").write_text(schema, encoding="utf-8")
        home = OwnerHome.make(
            folder / "home",
            OwnerSettings(
                name=name,
                source=str(folder / "table.parquet"),
                schema=str(folder / "schema.yaml"),
                key_column=key,
                population=f"people of {name}",
            ),
        )
        answer = folder / "answer.json"
        request = read_request(home.folder / "request.json")
        answer.write_bytes(self.premises.enrol(request, now=int(time.time())))
        home.join(read_answer(answer))
        rules = {
            "aggregators": {"registry": fingerprint(self.premises.key.public)},
            "kinds": ["horizontal", "vertical"],
            "methods": ["dp-um", "idp-ls"],
            "attributes": "all",
            "linkage": ["oprf", "hmac"],
            "largest_epsilon": "10",
            "lifetime_epsilon": "1000",
            "peers": "all",
            "largest_batch": 10_000_000,
            "yearly_guesses": 1_000_000_000,
            "approve": "automatic",
            **policy,
        }
        home.policy_file.write_text(json.dumps(rules), encoding="utf-8")
        self.homes[name] = home
        return home

    def start(self, who: str, conditions: Conditions | None = None) -> Spawned:
        """Start the aggregator or an owner's agent; one that runs is killed first."""
        self.kill(who)
        if who == "aggregator":
            command = ["aggregator", "serve", "--home", str(self.premises.folder), "--port"]
            command += [str(self.port), *(["--plain"] if self.plain else []), *self.serve]
        else:
            command = ["owner", "run", "--home", str(self.homes[who].folder), "--wait", "5"]
        log = self.folder / f"{who}-{len(self.logs)}.log"
        self.logs.append(log)
        process = spawn(command, log, conditions)
        self.running[who] = process
        if who == "aggregator":
            self._await_service(process)
        return process

    def start_all(self, **conditions: Conditions) -> None:
        """Start the aggregator, then every owner."""
        for who in ("aggregator", *self.homes):
            self.start(who, conditions.get(who))

    def client(self) -> httpx.Client:
        """A line to the service for somebody without a certificate."""
        context = ssl.create_default_context(cafile=str(self.premises.authority))
        return httpx.Client(verify=context, trust_env=False, timeout=60.0)

    def _await_service(self, process: Spawned) -> None:
        with self.client() as client:

            def answers() -> bool:
                assert process.poll() is None, self.logs[-1].read_text()
                with contextlib.suppress(httpx.TransportError):
                    return client.get(f"{self.service}/v1/health").is_success
                return False

            wait_until(answers, "the aggregator answers")

    def kill(self, who: str) -> None:
        """End a process at once."""
        process = self.running.pop(who, None)
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End everything."""
        for who in list(self.running):
            self.kill(who)

    def open_round(self, round_id: str = "r1", **changes: Any) -> None:
        """Open a round of all owners, as the operator does."""
        terms = terms_of(self.homes, int(time.time()), round=round_id, **changes)
        body = canonical(to_data(terms))
        token = (self.premises.folder / "operator.token").read_text()
        headers = {"Authorization": f"Bearer {token}"}
        with self.client() as client:
            answer = client.post(f"{self.service}/v1/rounds", content=body, headers=headers)
        assert answer.status_code == httpx.codes.CREATED, answer.text

    def round(self, round_id: str = "r1") -> RoundData:
        """What the aggregator knows of a round."""
        store = self.premises.store()
        found = store.round(round_id)
        store.close()
        assert found is not None
        return found

    def wait(self, round_id: str = "r1", seconds: float = 120.0) -> RoundData:
        """Wait until a round has ended at the aggregator and at every owner."""
        wait_until(
            lambda: (
                self.round(round_id).state in ROUND_ENDS
                and all(self.owner_ended(name, round_id) for name in self.homes)
            ),
            "the round ends",
            seconds,
        )
        return self.round(round_id)

    def owner_round(self, name: str, round_id: str = "r1") -> OwnerData | None:
        """What an owner knows of a round."""
        journal = OwnerJournal(self.homes[name].journal)
        found = journal.round(round_id)
        journal.close()
        return found

    def owner_ended(self, name: str, round_id: str) -> bool:
        """Whether a round has ended for an owner."""
        found = self.owner_round(name, round_id)
        return found is not None and found.state in OWNER_ENDS

    def audit(self, name: str) -> list[str]:
        """The events in an owner's audit log."""
        journal = OwnerJournal(self.homes[name].journal)
        found = [event for _, _, event, _ in journal.audit()]
        journal.close()
        return found

    def charges(self, name: str) -> list[tuple[str, str]]:
        """The plans an owner was charged for, with their artefacts."""
        ledger = Ledger(self.homes[name].ledger)
        ledger.verify()
        return [
            (e.plan_hash, e.artefact)
            for e in ledger.entries()
            if e.kind == "charge" and "nothing released" not in e.note
        ]

    def has_release(self, name: str, data: RoundData) -> bool:
        """Whether an owner has fetched a round's release."""
        manifest = self.homes[name].releases / data.terms.round / MANIFEST
        return manifest.exists() and file_digest(manifest) == data.manifest

    def check_released(self, round_id: str = "r1") -> RoundData:
        """The round is released, and every owner was charged for it once, for what it delivered."""
        data = self.wait(round_id)
        assert data.state is RoundState.RELEASED, (data.reason, data.details)
        assert data.plan is not None
        for name in self.homes:
            charged = self.charges(name)
            assert len({plan for plan, _ in charged}) == len(charged), "a plan charged twice"
            assert data.deliveries[name].artefact in dict(charged).values()
            assert sorted(path.name for path in self.homes[name].outbox.iterdir()) == sorted(
                plan for plan, _ in charged
            ), "an artefact that was not paid for, or one half-written"
            wait_until(
                lambda name=name: self.has_release(name, data),  # type: ignore[misc]
                f"{name} has the release",
            )
        assert (self.premises.releases / round_id).exists()
        # Owners countersign once they have the release; each signature is written beside it first.
        wait_until(lambda: not [*self.premises.releases.glob(".*")], "nothing is left half-written")
        folder = self.premises.releases / round_id
        assert file_digest(folder / MANIFEST) == data.manifest
        assert not [check for check in verify(folder).checks if check.passed is False]
        return data


def add_owners(village: Village, kind: Kind, count: int = 20) -> None:
    """Two owners, of the same attributes or of the same people; four of blocks."""
    if kind is Kind.BLOCKS:
        for name in BLOCK_OWNERS:
            village.add_owner(name, *block(name, count), key="id", kinds=["blocks"])
        return
    for number, name in enumerate(("north", "south")):
        if kind is Kind.VERTICAL:
            village.add_owner(name, part(name, count), PARTS[name], key="id")
        else:
            table = people(count, seed=number, first=number * 1000)
            village.add_owner(name, table, SCHEMA, key="id")
