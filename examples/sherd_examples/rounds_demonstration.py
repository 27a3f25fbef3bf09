"""The demonstration: an aggregator and seven owners as processes on this machine.

Adult over four owners by rows, Wine Quality over three by columns, both as in section 5 of
the paper, at the same time, over loopback with mutual TLS. Set-up is done here in one
process; from then on everything is said over the wire.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import ConnectionFailedError, OutputExistsError, SherdError
from sherd.federation.aggregator.aggregator_home import AggregatorHome, AggregatorSettings
from sherd.federation.owner.owner_home import OwnerHome, OwnerSettings
from sherd.federation.protocol.joint_plan import Kind, Linkage, Terms
from sherd.federation.protocol.states import ROUND_ENDS, RoundState
from sherd.federation.wire.enrolment import read_answer, read_request
from sherd.signing_keys import fingerprint
from sherd_examples import demonstration_worth as worth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.protocol.knowledge import RoundData
    from sherd.tables.schema import Schema

Tell = Callable[[str], None]

MARK = "demo.json"
PATIENCE = 300.0

ADULT = (
    "age", "workclass", "education", "marital_status", "occupation", "relationship", "race",
    "sex", "hours_per_week", "native_country",
)  # fmt: skip
ADULT_OWNERS = {"north": 11_100, "east": 15_000, "south": 12_000, "west": 7_122}
WINE_OWNERS = {
    "acids": ("fixed_acidity", "volatile_acidity", "citric_acid"),
    "salts": ("residual_sugar", "chlorides", "free_sulfur_dioxide", "total_sulfur_dioxide"),
    "spirits": ("density", "ph", "sulphates", "alcohol"),
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "adult": {"k": 100, "guarantee": "paper"},
    "wine": {"k": 50, "guarantee": "paper"},
}
METHOD = "idp-ls"


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """One owner's table and schema; ``key`` links people."""

    owner: str
    table: pa.Table
    schema: Schema
    key: str | None = None


def adult_fragments(part: int = 1) -> tuple[pa.Table, Schema, list[Fragment]]:
    """Adult, shuffled and cut into the paper's four unequal parts by rows; one of ``part``."""
    from dataclasses import replace

    from sherd import datasets
    from sherd.randomness import Randomness
    from sherd.tables.coding import arrow_array
    from sherd.tables.schema import Missing

    table = datasets.load("adult", complete=True).select(list(ADULT))
    table = table.take(arrow_array(Randomness.from_system().permutation(table.num_rows)))
    whole = datasets.schema("adult")
    attributes = {name: whole[name] for name in ADULT}
    schema = replace(whole, attributes=attributes, missing=Missing.REFUSE)
    fragments, start = [], 0
    for owner, whole_size in ADULT_OWNERS.items():
        size = whole_size // part
        fragments.append(Fragment(owner=owner, table=table.slice(start, size), schema=schema))
        start += size
    return table.slice(0, start), schema, fragments


def wine_fragments(part: int = 1) -> tuple[pa.Table, Schema, list[Fragment]]:
    """Wine Quality with an identifier, cut into the paper's three parts by columns."""
    from dataclasses import replace

    import pyarrow as pa

    from sherd import datasets
    from sherd.randomness import Randomness
    from sherd.tables.coding import arrow_array
    from sherd.tables.schema import Attribute, Role, Type

    whole = datasets.schema("wine")
    names = [name for own in WINE_OWNERS.values() for name in own]
    table = datasets.load("wine").select(names)
    table = table.slice(0, table.num_rows // part)
    identifiers = pa.array([f"sample-{i:05d}" for i in range(table.num_rows)])
    key = Attribute(name="sample", type=Type.TEXT, role=Role.IDENTIFIER)
    fragments = []
    for owner, own in WINE_OWNERS.items():
        # Every owner keeps its rows in an order of its own.
        order = arrow_array(Randomness.from_system().permutation(table.num_rows))
        columns = table.select(list(own)).append_column("sample", identifiers).take(order)
        attributes = {**{name: whole[name] for name in own}, "sample": key}
        fragments.append(
            Fragment(
                owner=owner,
                table=columns,
                schema=replace(whole, attributes=attributes),
                key="sample",
            )
        )
    schema = replace(whole, attributes={name: whole[name] for name in names})
    return table, schema, fragments


def pooled(folder: Path) -> pa.Table:
    """Adult as its owners in a demonstration's folder have it together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    places = [folder / "owners" / owner / "table.parquet" for owner in ADULT_OWNERS]
    return pa.concat_tables([pq.read_table(place) for place in places])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _clear(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise OutputExistsError(
            "the folder is there already and is not a demonstration's",
            got=str(folder),
            do="choose another with -o",
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("{}", encoding="utf-8")


def _set_up_owner(
    premises: AggregatorHome, folder: Path, fragment: Fragment, epsilon: str
) -> OwnerHome:
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    pq.write_table(fragment.table, folder / "table.parquet")
    (folder / "schema.yaml").write_text(json.dumps(fragment.schema.as_data()), encoding="utf-8")
    home = OwnerHome.make(
        folder / "home",
        OwnerSettings(
            name=fragment.owner,
            source=str((folder / "table.parquet").absolute()),
            schema=str((folder / "schema.yaml").absolute()),
            key_column=fragment.key,
            population=f"people of {fragment.owner}",
        ),
    )
    answer = folder / "enrolment.json"
    answer.write_bytes(
        premises.enrol(read_request(home.folder / "request.json"), now=int(time.time()))
    )
    home.join(read_answer(answer))
    policy = {
        "aggregators": {premises.settings.name: fingerprint(premises.key.public)},
        "kinds": ["vertical" if fragment.key else "horizontal"],
        "methods": [METHOD],
        "attributes": "all",
        "linkage": ["oprf"],
        "least_k": "10",
        "least_rows": "100",
        "largest_epsilon": epsilon,
        "lifetime_epsilon": epsilon,
        "peers": "all",
        "largest_batch": 10_000_000,
        "yearly_guesses": 1_000_000_000,
        "approve": "automatic",
    }
    home.policy_file.write_text(json.dumps(policy, indent=2), encoding="utf-8")
    return home


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
    return texts.get(data.state, data.state.value)


def _watch(aggregator: Aggregator, rounds: list[str], tell: Tell, began: float) -> None:
    shown: dict[str, str] = {}
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        states = []
        for name in rounds:
            data = aggregator.store.round(name)
            assert data is not None
            states.append(data.state)
            text = _progress(data)
            if shown.get(name) != text:
                shown[name] = text
                tell(f"[{time.monotonic() - began:5.1f} s] {name:<6} {text}")
            if data.state in (RoundState.ABORTED, RoundState.EXPIRED):
                raise SherdError(
                    f"the round '{name}' ended without a release",
                    got="; ".join([data.reason.words if data.reason else "", *data.details]),
                )
        if all(state in ROUND_ENDS for state in states):
            return
        time.sleep(0.25)
    raise ConnectionFailedError("the rounds did not end in time", do="see the logs")


def demonstrate(folder: Path, epsilon: str, tell: Tell, *, part: int = 1) -> dict[str, Any]:
    """Run both rounds, on one of ``part`` of the rows, and measure; what to show."""
    began = time.monotonic()
    folder = folder.absolute()
    _clear(folder)
    url = f"https://127.0.0.1:{_free_port()}"
    premises = AggregatorHome.make(
        folder / "aggregator", AggregatorSettings(name="registry", url=url), ("127.0.0.1",)
    )
    logs = folder / "logs"
    logs.mkdir()
    aggregator = premises.aggregator()
    with _processes() as start:
        port = url.rpartition(":")[2]
        serve = ["aggregator", "serve", "--home", str(premises.folder), "--port", port]
        service = start(serve, logs / "aggregator.log")
        tables = {"adult": adult_fragments(part), "wine": wine_fragments(part)}
        homes: dict[str, dict[str, OwnerHome]] = {}
        for name, (_, _, fragments) in tables.items():
            homes[name] = {
                each.owner: _set_up_owner(premises, folder / "owners" / each.owner, each, epsilon)
                for each in fragments
            }
        tell(f"[{time.monotonic() - began:5.1f} s] aggregator and 7 owners are set up, enrolled")
        for each in [home for group in homes.values() for home in group.values()]:
            run = ["owner", "run", "--home", str(each.folder), "--until-ended", "1"]
            start(run, logs / f"{each.settings.name}.log")
        wait_for_service(url, premises, service)
        tell(f"[{time.monotonic() - began:5.1f} s] 8 processes run; the aggregator is at {url}")
        opened = time.monotonic()
        for name, kind in (("adult", Kind.HORIZONTAL), ("wine", Kind.VERTICAL)):
            aggregator.open_round(
                Terms(
                    round=name,
                    aggregator="registry",
                    kind=kind,
                    owners=tuple(homes[name]),
                    method=METHOD,
                    parameters=PARAMETERS[name],
                    epsilon=epsilon,
                    linkage=Linkage.OPRF if kind is Kind.VERTICAL else Linkage.NONE,
                    deadline=int(time.time()) + 3600,
                    purpose="to show how it works",
                )
            )
        _watch(aggregator, ["adult", "wine"], tell, began)
        rounds = time.monotonic() - opened
        tell(
            f"[{time.monotonic() - began:5.1f} s] both are released; measuring what they are worth"
        )
        result: dict[str, Any] = {
            name: worth.measure(name, aggregator, homes[name], *tables[name]) for name in tables
        }
    aggregator.store.close()
    result["seconds"] = {"total": time.monotonic() - began, "rounds": rounds}
    (folder / MARK).write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result
