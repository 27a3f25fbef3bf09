"""The demonstration: an aggregator and seven owners as processes on this machine.

Adult over four owners by rows, Wine Quality over three by columns, as in section 5 of the paper,
over loopback with mutual TLS. Each is released twice by the same owners: by the paper's iDP-IR, and
by ``dp-graph``, of sums through the aggregator by rows and by secure computation by columns. Set-up
is done here in one process; from then on everything is said over the wire.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sherd.errors import ConnectionFailedError, OutputExistsError, SherdError
from sherd.federation.aggregator.aggregator_home import AggregatorHome, AggregatorSettings
from sherd.federation.protocol.joint_plan import Kind, Linkage, Terms
from sherd.federation.protocol.states import ROUND_ENDS, RoundState
from sherd.release.signature import countersignatures
from sherd_examples import demonstration_worth as worth
from sherd_examples import parties_demonstration as parties
from sherd_examples.demonstration_owners import (
    Cut,
    adult_fragments,
    set_up_owner,
    wine_fragments,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.protocol.knowledge import RoundData

Tell = Callable[[str], None]
Ready = Callable[[str, str, "Path", "Path"], None]
"""What is told of a release as soon as it is whole: table, method, its original, its folder."""

MARK = "demo.json"
PATIENCE = 300.0
"""The seconds in which something must happen."""

PAPER, GRAPH = "idp-ls", "dp-graph"
DELTA = 1e-9
SHAPES = {"adult": Kind.HORIZONTAL, "wine": Kind.VERTICAL}
PARAMETERS: dict[str, dict[str, Any]] = {
    "adult": {"k": 100, "guarantee": "paper"},
    "wine": {"k": 50, "guarantee": "paper"},
    "adult-graph": {"delta": DELTA, "choice": "all"},
}
"""The rounds through the aggregator; Wine Quality by dp-graph needs none."""


def _clear(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise OutputExistsError(
            "the folder already exists and is not a demonstration's",
            got=str(folder),
            do="choose another with -o",
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("{}", encoding="utf-8")


@contextlib.contextmanager
def _processes() -> Iterator[Callable[[list[str], Path], subprocess.Popen[bytes]]]:
    """Start processes of ours, and end every one of them at the end."""
    started: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as files:

        def start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
            out = files.enter_context(log.open("wb"))
            process = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-m", "sherd", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            started.append(process)
            return process

        try:
            yield start
        finally:
            for process in started:
                process.terminate()
            for process in started:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def wait_for_service(url: str, premises: AggregatorHome, process: subprocess.Popen[bytes]) -> None:
    """Wait until the service answers."""
    import httpx

    context = ssl.create_default_context(cafile=str(premises.authority))
    until = time.monotonic() + 60
    with httpx.Client(verify=context, trust_env=False) as client:
        while time.monotonic() < until and process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{url}/v1/health").is_success:
                    return
            time.sleep(0.05)
    raise ConnectionFailedError("the aggregator did not start", do="see its log")


def _progress(data: RoundData) -> str:
    """Where a round stands, in a few words."""
    count = len(data.terms.owners)
    texts = {
        RoundState.ATTRIBUTES: f"attributes: {len(data.offers)} of {count} owners offered",
        RoundState.PLAN_PROPOSED: f"plan proposed: {len(data.signatures)} of {count} signed",
        RoundState.LINKING: f"linking people: {len(data.pseudonyms)} of {count} owners done",
        RoundState.COLLECTING: f"collecting: {len(data.deliveries)} of {count} delivered",
    }
    if data.asked:
        answered = f"{len(data.masked or ())} of {count} answered under masks"
        texts[RoundState.COLLECTING] = f"question {len(data.asked)}: {answered}"
    return texts.get(data.state, data.state.value)


@dataclass(kw_only=True)
class _Scene:
    """Everything that runs: what is told of it, and how far it is."""

    folder: Path
    epsilon: str
    tell: Tell
    ready: Ready
    cuts: dict[str, Cut]
    homes: dict[str, dict[str, OwnerHome]] = field(default_factory=dict)
    party_homes: list[Path] = field(default_factory=list)
    computing: list[subprocess.Popen[bytes]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def logs(self) -> Path:
        """Where every process writes what it does."""
        return self.folder / "logs"

    def say(self, text: str) -> None:
        """Tell a line with the seconds since the start."""
        self.tell(f"[{time.monotonic() - self.began:5.1f} s] {text}")

    def set_up(self, premises: AggregatorHome) -> None:
        """Every owner's folder, enrolled; those of columns exchange keys for computing, too."""
        owners = self.folder / "owners"
        for name, cut in self.cuts.items():
            self.homes[name] = {
                each.owner: set_up_owner(
                    premises, owners / each.owner, each, (PAPER, GRAPH), self.epsilon
                )
                for each in cut.fragments
            }
            self._pool(name, cut)
        plan = {"method": GRAPH, "epsilon": float(self.epsilon), "delta": DELTA, "choice": "all"}
        self.party_homes = parties.set_up_parties(owners, self.cuts["wine"], plan)

    def _pool(self, name: str, cut: Cut) -> None:
        """Write the whole table, which nobody but a demonstration has, to audit against."""
        import pyarrow.parquet as pq

        pooled = self.folder / "pooled"
        pooled.mkdir(exist_ok=True)
        # Parties' schemas name the identifier, those of rounds do not.
        pq.write_table(cut.table, self.original(name, PAPER))
        pq.write_table(cut.pooled, self.original(name, GRAPH))

    def original(self, name: str, method: str) -> Path:
        """The pooled table that a release is audited against."""
        return self.folder / "pooled" / f"{_round_of(name, method)}.parquet"

    def release(self, aggregator: Aggregator, name: str, method: str) -> Path:
        """Where a release is."""
        if (name, method) == ("wine", GRAPH):
            return self.party_homes[0] / parties.RELEASE
        return aggregator.folder(_round_of(name, method))

    def start_owners(self, start: parties.Start) -> None:
        """Every owner's agent; those of rows take part in two rounds."""
        for name, homes in self.homes.items():
            rounds = sum(round_id.startswith(name) for round_id in PARAMETERS)
            for home in homes.values():
                run = ["owner", "run", "--home", str(home.folder), "--until-ended", str(rounds)]
                start(run, self.logs / f"{home.settings.name}.log")

    def open_rounds(self, aggregator: Aggregator) -> None:
        """All rounds at once."""
        for round_id, parameters in PARAMETERS.items():
            name = round_id.partition("-")[0]
            kind = SHAPES[name]
            aggregator.open_round(
                Terms(
                    round=round_id,
                    aggregator="registry",
                    kind=kind,
                    owners=tuple(self.homes[name]),
                    method=PAPER if round_id == name else GRAPH,
                    parameters=parameters,
                    epsilon=self.epsilon,
                    linkage=Linkage.OPRF if kind is Kind.VERTICAL else Linkage.NONE,
                    deadline=int(time.time()) + 3600,
                    purpose="to show how it works",
                )
            )

    def watch(self, aggregator: Aggregator, start: parties.Start) -> None:
        """Tell how far everything is until all is released and every owner has countersigned.

        The parties begin when their round has ended: an owner does one thing at a time.
        """
        shown: dict[str, str] = {}
        whole: set[str] = set()
        until, before = time.monotonic() + PATIENCE, (0, dict[str, str]())
        while time.monotonic() < until:
            if (len(whole), shown) != before:  # a busy machine takes longer, but gets on
                until, before = time.monotonic() + PATIENCE, (len(whole), dict(shown))
            states = {round_id: self._state(aggregator, round_id, shown) for round_id in PARAMETERS}
            if states["wine"] in ROUND_ENDS and not self.computing:
                self.computing = parties.start_parties(self.party_homes, start, self.logs)
                self.say("wine-graph  three parties compute on shares (MPyC)")
            done = {one for one in PARAMETERS if self._signed_by_all(aggregator, one)}
            if self.computing and parties.ended(self.party_homes, self.computing, self.logs):
                done.add("wine-graph")
            for round_id in sorted(done - whole):
                signed = "countersigned by every owner"
                told = "released" if round_id == "wine-graph" else signed
                self.say(f"{round_id:<11} {told}")
                name, method = round_id.partition("-")[0], GRAPH if "-" in round_id else PAPER
                place = self.release(aggregator, name, method)
                self.ready(name, method, self.original(name, method), place)
            whole |= done
            if len(whole) == len(PARAMETERS) + 1:
                return
            time.sleep(0.25)
        raise ConnectionFailedError(
            f"nothing has happened in the rounds for {PATIENCE:.0f} seconds",
            do=f"see what {self.logs} says, and try again on a machine with less to do",
        )

    def _signed_by_all(self, aggregator: Aggregator, round_id: str) -> bool:
        owners = self.homes[round_id.partition("-")[0]]
        return set(countersignatures(aggregator.folder(round_id))) == set(owners)

    def _state(self, aggregator: Aggregator, round_id: str, shown: dict[str, str]) -> RoundState:
        data = aggregator.store.round(round_id)
        assert data is not None
        text = _progress(data)
        if shown.get(round_id) != text:
            shown[round_id] = text
            self.say(f"{round_id:<11} {text}")
        if data.state in (RoundState.ABORTED, RoundState.EXPIRED):
            raise SherdError(
                f"the round '{round_id}' ended without a release",
                got="; ".join([data.reason.words if data.reason else "", *data.details]),
            )
        return data.state


def _round_of(name: str, method: str) -> str:
    return name if method == PAPER else f"{name}-graph"


def demonstrate(
    folder: Path, epsilon: str, tell: Tell, ready: Ready, *, part: int = 1
) -> dict[str, Any]:
    """Release everything, on one of ``part`` of the rows, and measure; what to show."""
    folder = folder.absolute()
    _clear(folder)
    cuts = {"adult": adult_fragments(part), "wine": wine_fragments(part)}
    scene = _Scene(folder=folder, epsilon=epsilon, tell=tell, ready=ready, cuts=cuts)
    (port,) = parties.free_ports(1)
    url = f"https://127.0.0.1:{port}"
    premises = AggregatorHome.make(
        folder / "aggregator", AggregatorSettings(name="registry", url=url), ("127.0.0.1",)
    )
    scene.logs.mkdir()
    aggregator = premises.aggregator()
    with _processes() as start:
        serve = ["aggregator", "serve", "--home", str(premises.folder), "--port", str(port)]
        service = start(serve, scene.logs / "aggregator.log")
        scene.set_up(premises)
        scene.say("aggregator and 7 owners are set up, enrolled")
        scene.start_owners(start)
        wait_for_service(url, premises, service)
        scene.say(f"8 processes run; the aggregator is at {url}")
        opened = time.monotonic()
        scene.open_rounds(aggregator)
        scene.watch(aggregator, start)
        rounds = time.monotonic() - opened
        result = {name: _measured(name, scene, aggregator) for name in cuts}
    aggregator.store.close()
    result["seconds"] = {"total": time.monotonic() - scene.began, "rounds": rounds}
    (folder / MARK).write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def _measured(name: str, scene: _Scene, aggregator: Aggregator) -> dict[str, Any]:
    """What there is to show of a table's two releases."""
    return {
        **worth.measure(name, aggregator, scene.cuts[name]),
        "releases": {
            method: worth.described(
                method, scene.release(aggregator, name, method), scene.homes[name]
            )
            for method in (PAPER, GRAPH)
        },
    }
