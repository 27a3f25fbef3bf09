"""An aggregator and owners in this process, and somebody at the studio of each."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from consortium import AppTransport
from driving import step
from people import SCHEMA, people
from studio_process import Visitor, entered

from sherd.federation.aggregator.aggregator_home import AggregatorHome, AggregatorSettings
from sherd.federation.aggregator.api import make_app
from sherd.federation.owner.agent import Agent
from sherd.federation.owner.owner_home import OwnerHome, OwnerSettings
from sherd.federation.wire.client import Client
from sherd.federation.wire.enrolment import read_answer
from sherd.signing_keys import fingerprint
from sherd.studio.aggregator_pages import AggregatorPages
from sherd.studio.owner_pages import OwnerPages

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

    import httpx

OWNERS = ("north", "south", "west")

POLICY = """\
aggregators: {{registry: {fingerprint}}}
kinds: [horizontal, vertical]
methods: [dp, dp-um, idp, idp-ls]
attributes: all
least_k: 3
least_rows: 3
largest_epsilon: 2
lifetime_epsilon: 3
peers: all
approve: ask
"""


class Organisations:
    """An aggregator, three owners, and somebody at the studio of each."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        settings = AggregatorSettings(name="registry", url="https://registry.test")
        self.premises = AggregatorHome.make(folder / "registry", settings, ("registry.test",))
        pages = AggregatorPages(self.premises)
        stack.callback(pages.close)
        self.operator = stack.enter_context(entered(pages.app(), pages.most))
        self.service = self.premises.aggregator()
        stack.callback(self.service.store.close)
        self.transport = AppTransport(make_app(self.service, worker=False))
        stack.callback(self.transport.stop)
        self.homes: dict[str, OwnerHome] = {}
        self.agents: dict[str, Agent] = {}
        self.visitors: dict[str, Visitor] = {}
        self._stack = stack

    def set_up(self, name: str, seed: int) -> None:
        """An owner's folder, as `sherd owner init` makes it."""
        folder = self.folder / name
        folder.mkdir()
        pq.write_table(people(60, seed=seed), folder / "table.parquet")
        (folder / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
        home = OwnerHome.make(
            folder,
            OwnerSettings(
                name=name, source=str(folder / "table.parquet"),
                schema=str(folder / "schema.yaml"), population=f"people of {name}",
            ),
        )  # fmt: skip
        own = fingerprint(self.premises.key.public)
        home.policy_file.write_text(
            POLICY.format(fingerprint=own),
            encoding="utf-8",
        )
        self.homes[name] = home

    def enrol(self, name: str, told: str | None = None) -> httpx.Response:
        """The operator enrols an owner by the page."""
        home, operator = self.homes[name], self.operator
        return operator.client.post(
            f"{operator.base}{operator.root}/members/enrol",
            data={"code": operator.code, "fingerprint": told or fingerprint(home.key.public)},
            files={"request": ("request.json", (home.folder / "request.json").read_bytes())},
            headers={"Origin": operator.base},
        )

    def join(self, name: str, answer: bytes) -> None:
        """The owner takes the answer in, starts its agent and opens its studio."""
        home = self.homes[name]
        (home.folder / "answer.json").write_bytes(answer)
        home.join(read_answer(home.folder / "answer.json"))
        client = Client(url="https://registry.test", name=name, aggregator="registry",
                        key=home.key, transport=self.transport)  # fmt: skip
        self.agents[name] = Agent(home, client)
        self._stack.callback(client.close)
        self._stack.callback(self.agents[name].journal.close)
        pages = OwnerPages(home)
        self.visitors[name] = self._stack.enter_context(entered(pages.app(), pages.most))

    def settle(self) -> None:
        """Everybody works until nothing happens any more."""
        for _ in range(60):
            happened = [step(agent) for agent in self.agents.values()]
            if not any([*happened, bool(self.service.work())]):
                return

    def announce(self, name: str, what: str) -> None:
        """An owner changes what it announces; its agent tells the aggregator."""
        path = self.homes[name].policy_file
        kept = [line for line in path.read_text().splitlines() if not line.startswith("announce:")]
        path.write_text("\n".join([*kept, f"announce: {what}", ""]))
        self.settle()

    def open_round(self, **fields: str) -> str:
        """A new round by the page: filled in, looked at, opened; its page."""
        given: dict[str, Any] = {
            "method": "dp-um", "kind": "horizontal", "epsilon": "1", "k": "5", "dropout": "abort",
            "purpose": "<b>stays</b> & lengths", "deadline": "2h", "owner": list(OWNERS), **fields,
        }  # fmt: skip
        look = self.operator.post("/new", given)
        assert look.status_code == 200, look.text
        assert "nobody has been asked yet" in look.text
        hidden = re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)">', look.text)
        again: dict[str, Any] = {key: html.unescape(value) for key, value in hidden}
        again["owner"] = [value for key, value in hidden if key == "owner"]
        made = self.operator.post("/open", again)
        assert made.status_code == 200, made.text
        return str(made.url).split(self.operator.root)[1]
