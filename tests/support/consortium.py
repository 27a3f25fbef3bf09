"""An aggregator and owners in one process: real storage, real agents, no sockets."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from driving import step
from people import terms_of

from sherd.federation.aggregator.api import make_app
from sherd.federation.aggregator.round_work import Aggregator
from sherd.federation.aggregator.storage import Store
from sherd.federation.owner.agent import Agent
from sherd.federation.owner.owner_home import OwnerHome, OwnerSettings
from sherd.federation.protocol.states import OWNER_ENDS, ROUND_ENDS
from sherd.federation.wire.client import Client
from sherd.federation.wire.enrolment import make_answer, read_answer, read_request
from sherd.signing_keys import SigningKey, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.federation.protocol.joint_plan import Terms


class AppTransport(httpx.BaseTransport):
    """Requests handed to an ASGI application that runs in a loop of its own."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._lifespan = app.router.lifespan_context(app)
        self._run(self._lifespan.__aenter__())
        self.peer: str | None = None

    def _run(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(120)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        response: httpx.Response = self._run(self._handle(request))
        return response

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(k.lower(), v) for k, v in request.headers.raw],
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "server": ("test", 443),
            "client": ("test", 1),
            "root_path": "",
            "sherd.peer": self.peer,
        }
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop()
            await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start = next(m for m in sent if m["type"] == "http.response.start")
        content = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
        return httpx.Response(start["status"], headers=start["headers"], content=content)

    def stop(self) -> None:
        """End the application and its loop."""
        self._run(self._lifespan.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


POLICY = """\
aggregators: {{registry: {fingerprint}}}
kinds: {kinds}
methods: [dp, dp-graph, dp-um, idp, idp-ls, idp-cbls, mondrian]
attributes: all
linkage: [oprf, hmac]
least_k: 3
least_rows: 3
largest_epsilon: {largest}
lifetime_epsilon: {lifetime}
peers: {peers}
largest_batch: 1000000
yearly_guesses: {guesses}
approve: {approve}
"""


class Consortium:
    """An aggregator called registry, and owners with tables.

    With ``place``, the aggregator has a folder of its own; otherwise that of everybody.
    """

    def __init__(
        self, folder: Path, *, database: str | None = None, place: Path | None = None
    ) -> None:
        self.folder = folder
        self.place = place or folder
        self.offset = self.skew = 0.0
        self.time = 1_800_000_000.0
        self.key = SigningKey.generate()
        self.database = database or f"sqlite:///{self.place}/aggregator.db"
        store = Store(self.database)
        store.migrate()
        store.close()
        self.start_aggregator()
        self.homes: dict[str, OwnerHome] = {}
        self.agents: dict[str, Agent] = {}

    def start_aggregator(self) -> None:
        """Start the aggregator over what its folder holds."""
        self.store = Store(self.database)
        self.aggregator = Aggregator(
            name="registry",
            key=self.key,
            store=self.store,
            releases=self.place / "releases",
            clock=lambda: self.time + self.skew,
        )
        self.transport = AppTransport(make_app(self.aggregator, worker=False))

    def stop_aggregator(self) -> None:
        """End the aggregator; its folder stays as it is."""
        self.transport.stop()
        self.store.close()

    def close(self) -> None:
        """Stop everything."""
        for agent in self.agents.values():
            agent.client.close()
            agent.journal.close()
        self.stop_aggregator()

    def policy(self, **changes: Any) -> str:
        """A policy that allows what tests do."""
        given = {
            "largest": "10",
            "lifetime": "100",
            "approve": "automatic",
            "guesses": "10000000",
            "peers": "all",
            "kinds": "[horizontal, vertical]",
        } | changes
        return POLICY.format(fingerprint=fingerprint(self.key.public), **given)

    def add_owner(
        self,
        name: str,
        table: pa.Table,
        schema: str,
        *,
        key_column: str | None = None,
        **policy: Any,
    ) -> OwnerHome:
        """Set up an owner with its table, enrol it, and start its agent."""
        folder = self.folder / name
        folder.mkdir()
        pq.write_table(table, folder / "table.parquet")
        (folder / "schema.yaml").write_text(schema, encoding="utf-8")
        settings = OwnerSettings(
            name=name,
            source=str(folder / "table.parquet"),
            schema=str(folder / "schema.yaml"),
            key_column=key_column,
            population=f"people of {name}",
        )
        home = OwnerHome.make(folder, settings)
        home.policy_file.write_text(self.policy(**policy), encoding="utf-8")
        request = read_request(folder / "request.json")
        self.store.add_member(name, "owner", key=request.key, now=int(self.time))
        answer = make_answer(
            request,
            self.key,
            aggregator="registry",
            url="https://registry.test",
            authority=b"-",
            certificate=b"-",
        )
        (folder / "answer.json").write_bytes(answer)
        home.join(read_answer(folder / "answer.json"))
        self.homes[name] = home
        self.start(name)
        return home

    def client(self, name: str, transport: httpx.BaseTransport | None = None) -> Client:
        """An owner's line to the aggregator."""
        home = self.homes[name]
        return Client(
            url="https://registry.test",
            name=name,
            aggregator="registry",
            key=home.key,
            transport=transport or self.transport,
        )

    def start(self, name: str, transport: httpx.BaseTransport | None = None) -> Agent:
        """Start an owner's agent, again if it was there."""
        if name in self.agents:
            self.agents[name].journal.close()
        agent = Agent(
            self.homes[name],
            self.client(name, transport),
            clock=lambda: self.time + self.offset,
        )
        self.agents[name] = agent
        return agent

    def terms(self, round_id: str = "r1", **changes: Any) -> Terms:
        """Terms of a round of all owners."""
        return terms_of(self.homes, int(self.time), round=round_id, **changes)

    def settle(self, turns: int = 60, step: Callable[[Agent], bool] = step) -> None:
        """Let everybody work until nothing happens any more."""
        for _ in range(turns):
            happened = [step(agent) for agent in list(self.agents.values())]
            if not any([*happened, bool(self.aggregator.work())]):
                return

    def ended(self, round_id: str = "r1") -> bool:
        """Whether a round has ended, at the aggregator and at every owner."""
        data = self.store.round(round_id)
        assert data is not None
        return data.state in ROUND_ENDS and all(
            (found := agent.journal.round(round_id)) is not None and found.state in OWNER_ENDS
            for agent in self.agents.values()
        )
