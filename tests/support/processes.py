"""An aggregator and owners as real processes with mutual TLS, for end-to-end tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sherd.budget.ledger import Ledger
from sherd.federation.demonstration import wait_for_service
from sherd.federation.enrolment import read_answer, read_request
from sherd.federation.home import Home
from sherd.federation.home import Settings as OwnerSettings
from sherd.federation.journal import Journal
from sherd.federation.keys import fingerprint
from sherd.federation.premises import Premises, Settings
from sherd.protocols.states import OWNER_ENDS, ROUND_ENDS
from sherd.protocols.terms import Kind, Linkage, Terms

if TYPE_CHECKING:
    from sherd.protocols.knowledge import RoundData


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Village:
    """Processes of one aggregator and its owners, and their folders."""

    def __init__(self, folder: Path, database: str | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        settings = Settings(name="registry", url=self.url, database=database)
        self.premises = Premises.make(folder / "aggregator", settings, ("127.0.0.1",))
        self.homes: dict[str, Home] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: list[Path] = []

    def add_owner(
        self, name: str, table: pa.Table, schema: str, *, key: str | None = None, **policy: str
    ) -> Home:
        """Set up and enrol an owner."""
        folder = self.folder / name
        folder.mkdir()
        pq.write_table(table, folder / "table.parquet")
        (folder / "schema.yaml").write_text(schema, encoding="utf-8")
        home = Home.make(
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
            "approve": "automatic",
            **policy,
        }
        home.policy_file.write_text(json.dumps(rules), encoding="utf-8")
        self.homes[name] = home
        return home

    def start(self, who: str, failpoint: str | None = None) -> subprocess.Popen[bytes]:
        """Start the aggregator or an owner's agent."""
        self.stop(who)
        if who == "aggregator":
            command = ["aggregator", "serve", "--home", str(self.premises.folder), "--port"]
            command.append(str(self.port))
        else:
            command = ["owner", "run", "--home", str(self.homes[who].folder), "--wait", "5"]
        environment = {k: v for k, v in os.environ.items() if k != "SHERD_FAILPOINT"}
        source = str(Path(__file__).parents[2] / "src")
        environment["PYTHONPATH"] = source
        if failpoint is not None:
            environment["SHERD_FAILPOINT"] = failpoint
        log = self.folder / f"{who}-{len(self.logs)}.log"
        self.logs.append(log)
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "sherd", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
            )
        self.running[who] = process
        if who == "aggregator":
            wait_for_service(self.url, self.premises, process)
        return process

    def stop(self, who: str) -> None:
        """End a process, gently."""
        process = self.running.pop(who, None)
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """End everything."""
        for who in list(self.running):
            self.stop(who)

    def open_round(self, round_id: str = "r1", **changes: Any) -> None:
        """Open a round of all owners, from outside the service's process."""
        base: dict[str, Any] = {
            "round": round_id,
            "aggregator": "registry",
            "kind": Kind.HORIZONTAL,
            "owners": tuple(self.homes),
            "method": "dp-um",
            "parameters": {"k": 3},
            "epsilon": "1",
            "deadline": int(time.time()) + 3600,
        }
        if changes.get("kind") is Kind.VERTICAL:
            base["linkage"] = Linkage.OPRF
        aggregator = self.premises.aggregator()
        aggregator.open_round(Terms(**{**base, **changes}))
        aggregator.store.close()

    def round(self, round_id: str = "r1") -> RoundData:
        """What the aggregator knows of a round."""
        store = self.premises.store()
        found = store.round(round_id)
        store.close()
        assert found is not None
        return found

    def wait(self, round_id: str = "r1", seconds: float = 120.0) -> RoundData:
        """Wait until a round has ended at the aggregator and at every owner."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            data = self.round(round_id)
            if data.state in ROUND_ENDS and all(self.owner_ended(n, round_id) for n in self.homes):
                return data
            time.sleep(0.2)
        raise AssertionError(f"the round did not end: {self.round(round_id).state}")

    def owner_ended(self, name: str, round_id: str) -> bool:
        """Whether a round has ended for an owner."""
        journal = Journal(self.homes[name].journal)
        found = journal.round(round_id)
        journal.close()
        return found is not None and found.state in OWNER_ENDS

    def charges(self, name: str) -> list[tuple[str, str]]:
        """The plans an owner was charged for, with their artefacts."""
        ledger = Ledger(self.homes[name].ledger)
        ledger.verify()
        return [(e.plan_hash, e.artefact) for e in ledger.entries() if e.kind == "charge"]
