"""An aggregator that attacks: what it sends, and what an owner makes of it.

The aggregator's key signs whatever these tests like, so that only what the owner knows by
itself can stop an attack.
"""

from __future__ import annotations

import dataclasses
import gzip
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from driving import receive, step
from people import PARTS, SCHEMA, part, people

from sherd.errors import ConnectionFailedError, PeerError, PlanError
from sherd.federation.owner import outbox
from sherd.federation.owner.agent import MOST_TRIES, Agent
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.messages import Abort, Common, Hop, Message, Released
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.federation.wire.chunks import describe
from sherd.federation.wire.envelope import parse, seal
from sherd.values import canonical

if TYPE_CHECKING:
    from consortium import Consortium


ROWS = 12


def linked(consortium: Consortium, **policy: Any) -> Agent:
    """A vertical round in which north has named its people and waits for the common ones."""
    for name in ("north", "south"):
        consortium.add_owner(name, part(name, ROWS), PARTS[name], key_column="id", **policy)
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    north = consortium.agents["north"]
    for _ in range(8):
        for agent in consortium.agents.values():
            step(agent)
    data = north.journal.round("r1")
    assert data is not None
    assert data.named
    assert not data.cleared
    return north


def tell(consortium: Consortium, agent: Agent, body: Any, round_id: str = "r1") -> bool:
    """Have the aggregator's key say something to an owner next."""
    data = agent.journal.round(round_id)
    assert data is not None
    assert data.plan is not None
    message = Message(
        round=round_id,
        plan=data.plan.hash,
        sender="registry",
        recipient=agent.name,
        sequence=data.received + 1,
        body=body,
    )
    return receive(agent, seal(message, consortium.key, expires=2**36))


def own_pseudonyms(agent: Agent) -> list[bytes]:
    """An owner's pseudonyms, sorted."""
    raw = (agent.home.bulk / "r1.pseudonyms").read_bytes()[32:]
    return sorted(raw[start : start + 32] for start in range(0, len(raw), 32))


def common(
    agent: Agent, names: list[bytes], monkeypatch: pytest.MonkeyPatch, count: int | None = None
) -> Common:
    """The word that these are the common people; the chunks are there to be fetched."""
    data = b"".join(names)
    attachment = describe(data)

    def chunk(_round: str, sha256: str) -> bytes:
        at = attachment.chunks.index(sha256) << 20
        return data[at : at + (1 << 20)]

    monkeypatch.setattr(agent.client, "chunk", chunk)
    return Common(count=len(names) if count is None else count, attachment=attachment, head=None)


def refused(agent: Agent, round_id: str = "r1") -> Reason | None:
    """Why an owner refused a round, having spent nothing."""
    data = agent.journal.round(round_id)
    assert data is not None
    assert data.state is OwnerState.REFUSED, (data.state, data.reason)
    assert not agent.ledger.account(agent.home.settings.population).spent
    assert not list(agent.home.outbox.glob("*"))
    return data.reason


# a chosen person


def test_one_person_named_often_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that names one pseudonym for every row would mask a person by copies of itself."""
    north = linked(consortium)
    names = own_pseudonyms(north)
    tell(consortium, north, common(north, [names[3]] * ROWS, monkeypatch))
    north.work()
    assert refused(north) is Reason.MALFORMED


def test_more_people_than_we_have_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty thousand copies of one person are refused by their number alone."""
    north = linked(consortium)
    names = own_pseudonyms(north)
    tell(consortium, north, common(north, [names[0]] * 60_000, monkeypatch))
    assert refused(north) is Reason.TOO_LARGE


@pytest.mark.parametrize("how", ["unsorted", "stranger", "size", "few", "absent"])
def test_other_lists_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Not sorted, somebody else's, of another size than said, too few to cluster, none at all."""
    north = linked(consortium)
    names = own_pseudonyms(north)
    body = {
        "unsorted": lambda: common(north, names[::-1], monkeypatch),
        "stranger": lambda: common(north, sorted([*names[1:], b"\xff" * 32]), monkeypatch),
        "size": lambda: common(north, names, monkeypatch, count=ROWS - 1),
        "few": lambda: common(north, names[:2], monkeypatch),
        "absent": lambda: Common(count=None, attachment=None, head=None),
    }[how]()
    tell(consortium, north, body)
    north.work()
    expected = {
        "unsorted": Reason.MALFORMED,
        "stranger": Reason.UNEXPECTED,
        "size": Reason.MALFORMED,
        "few": Reason.TOO_FEW_COMMON,
        "absent": Reason.MALFORMED,
    }[how]
    assert refused(north) is expected


def test_least_rows_counts_the_people_that_are_released(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy of 10 rows does not release 5 common people of a table of 12."""
    north = linked(consortium)
    path = north.home.policy_file
    path.write_text(path.read_text().replace("least_rows: 3", "least_rows: 10"))
    tell(consortium, north, common(north, own_pseudonyms(north)[:5], monkeypatch))
    north.work()
    assert refused(north) is Reason.TOO_FEW_COMMON


def test_the_honest_list_is_taken(consortium: Consortium) -> None:
    """The checks let an honest round through."""
    linked(consortium)
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED


@pytest.mark.parametrize(("hop", "count"), [(-1, ROWS), (0, ROWS), (1, 0), (1, -1), (1, 10**9)])
def test_hops_and_counts_out_of_range(consortium: Consortium, hop: int, count: int) -> None:
    """A batch's place and size are checked against the plan before anything is fetched."""
    for name in ("north", "south"):
        consortium.add_owner(name, part(name, ROWS), PARTS[name], key_column="id")
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    north, south = consortium.agents["north"], consortium.agents["south"]
    for _ in range(3):
        step(north), step(south)
    data = north.journal.round("r1")
    assert data is not None
    assert data.signed
    attachment = describe(bytes(32))
    body = Hop(origin="south", hop=hop, count=count, attachment=attachment, proof="{}")
    tell(consortium, north, body)
    assert refused(north) in (Reason.UNEXPECTED, Reason.TOO_LARGE)


# what is sent may not end the agent


def test_terms_out_of_range_are_no_terms(consortium: Consortium) -> None:
    """A deadline beyond all clocks and a `k_of` that is no mapping are refused as they arrive."""
    consortium.add_owner("north", people(ROWS), SCHEMA)
    good = consortium.terms()
    for changes in (
        {"deadline": 2**63},
        {"deadline": 2**38},
        {"deadline": -1},
        {"parameters": {"k": 3, "k_of": 7}},
        {"parameters": {"k": 3, "k_of": [1]}},
        {"parameters": {"k": "3"}},
        {"parameters": {"k": 10**30}},
        {"parameters": {"k": 3, "weights": 5}},
        {"delivery_bytes": 0},
        {"repeats": "x"},
    ):
        with pytest.raises(PlanError):
            dataclasses.replace(good, **changes)


def raw_invitation(consortium: Consortium, **changes: Any) -> bytes:
    """An invitation that the aggregator signed, with terms that no ``Terms`` can have."""
    from sherd.federation.protocol.messages import Invite

    message = Message(
        round="r1",
        plan="",
        sender="registry",
        recipient="north",
        sequence=1,
        body=Invite(terms=consortium.terms(), aggregator_key=consortium.key.public),
    )
    data = parse(seal(message, consortium.key, expires=2**36))
    data["body"]["terms"] |= changes
    import hashlib

    body = canonical(data["body"])
    data["header"]["body_sha256"] = hashlib.sha256(body).hexdigest()
    data["signature"] = consortium.key.sign(b"sherd-envelope-1\0" + canonical(data["header"]))
    return canonical(data)


NESTED: list[Any] = []
for _ in range(700):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    "changes",
    [
        {"deadline": 2**63},
        {"parameters": {"k": 3, "k_of": 7}},
        {"parameters": {"k": 3, "k_of": {"age": []}}},
        {"parameters": {"k": 3, "nobody": {"x": 1}}},
        {"method": "no-such-method"},
        {"epsilon": "1e400"},
        {"epsilon": "nan"},
        {"owners": []},
        {"parameters": {"k": 3, "x": NESTED}},
    ],
)
def test_poisoned_invitations_do_not_stop_the_agent(
    consortium: Consortium, changes: dict[str, Any]
) -> None:
    """The agent survives, also when it is started again, and serves another round."""
    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, people(ROWS, seed=number, first=number * 100), SCHEMA)
    north = consortium.agents["north"]
    receive(north, raw_invitation(consortium, **changes))
    north.work()
    consortium.start("north")
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    data = consortium.store.round("r2")
    assert data is not None
    assert data.state is RoundState.RELEASED


def test_half_a_letter_does_not_stop_the_agent(consortium: Consortium) -> None:
    """A text that no journal can hold is refused as it comes; the true word is taken after it."""
    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, people(ROWS, seed=number, first=number * 100), SCHEMA)
    consortium.aggregator.open_round(consortium.terms())
    north, south = consortium.agents["north"], consortium.agents["south"]
    for agent in (north, north, south, south, north, north, north):
        step(agent)
    data = north.journal.round("r1")
    assert data is not None
    assert data.state is OwnerState.DELIVERED
    assert not tell(consortium, north, Abort(reason=Reason.STOPPED, details=("a\ud800b",)))
    step(north)
    assert tell(consortium, north, Abort(reason=Reason.STOPPED, details=("stopped",)))
    data = north.journal.round("r1")
    assert data is not None
    assert data.state is OwnerState.CLOSED


class Answering(httpx.BaseTransport):
    """Gives one answer instead of the aggregator's for so many calls, and counts them."""

    def __init__(self, inner: httpx.BaseTransport, answer: httpx.Response, times: int) -> None:
        self.inner, self.answer, self.times = inner, answer, times
        self.calls = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        self.calls += 1
        if self.times > 0 and request.url.path == "/v1/exchange":
            self.times -= 1
            kept = self.answer
            return httpx.Response(kept.status_code, headers=kept.headers, content=kept.content)
        return self.inner.handle_request(request)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(429, content=b"slow down"),
        httpx.Response(302, headers={"location": "https://elsewhere.test/"}),
        httpx.Response(200, content=b"<html>hotel wifi</html>"),
        httpx.Response(200, content=b""),
        httpx.Response(404, content=b'{"error": "not a mapping"}'),
        httpx.Response(400, content=b"[]"),
        httpx.Response(200, content=b"\0\0\0\2{}"),
        httpx.Response(503, content=b""),
    ],
    ids=lambda answer: f"{answer.status_code}-{len(answer.content)}",
)
def test_no_answer_ends_the_agent(consortium: Consortium, answer: httpx.Response) -> None:
    """It pauses longer and longer, differently each time, says so once, and goes on."""
    consortium.add_owner("north", people(ROWS), SCHEMA)
    transport = Answering(consortium.transport, answer, times=6)
    north = consortium.start("north", transport)
    pauses: list[float] = []
    north._sleep = pauses.append
    consortium.aggregator.open_round(consortium.terms())

    def done() -> bool:
        consortium.aggregator.work()
        data = consortium.store.round("r1")
        assert data is not None
        return data.state is RoundState.RELEASED

    north.run(wait=0.0, until=done)
    assert len(pauses) == 6
    assert pauses[-1] > 2 * pauses[0]
    trouble = [line for line in north.journal.audit() if line[2] in ("trouble", "network")]
    assert len(trouble) == 1


def test_a_compressed_answer_is_not_decompressed(consortium: Consortium) -> None:
    """A megabyte of gzip that stands for a gigabyte is refused unread."""
    consortium.add_owner("north", people(ROWS), SCHEMA)
    bomb = gzip.compress(bytes(1 << 24))
    answer = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=_Stream(bomb))

    class Bombing(httpx.BaseTransport):
        def handle_request(self, _request: httpx.Request) -> httpx.Response:
            return answer

    with pytest.raises(PeerError, match="compressed"):
        consortium.client("north", Bombing())._raw("GET", "/v1/rounds")


class _Stream(httpx.SyncByteStream):
    def __init__(self, data: bytes, times: int = 1) -> None:
        self.data, self.times = data, times
        self.sent = 0

    def __iter__(self) -> Any:
        for _ in range(self.times):
            self.sent += len(self.data)
            yield self.data


def test_an_endless_answer_is_cut_off(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer without end is given up at its limit, and one that drips at its time."""
    consortium.add_owner("north", people(ROWS), SCHEMA)
    endless = _Stream(bytes(1 << 20), times=10_000)

    class Endless(httpx.BaseTransport):
        def handle_request(self, _request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, stream=endless)

    with pytest.raises(PeerError, match="too large"):
        consortium.client("north", Endless())._raw("GET", "/v1/rounds")
    assert endless.sent <= 65 << 20
    clock = iter(range(0, 10**6, 20))
    monkeypatch.setattr("sherd.federation.wire.client.time.monotonic", lambda: next(clock))
    drip = _Stream(b"x", times=10_000)
    endless = drip
    with pytest.raises(ConnectionFailedError, match="slowly"):
        consortium.client("north", Endless())._raw("GET", "/v1/rounds")
    assert drip.sent < 10


def test_an_answer_does_not_grow_in_memory(consortium: Consortium) -> None:
    """Megabytes of empty mappings are no answer, instead of twenty times as many in memory."""
    import tracemalloc

    consortium.add_owner("north", people(ROWS), SCHEMA)
    bomb = b'{"nonce": [' + b"{}," * (1 << 21) + b"{}]}"

    class Bombing(httpx.BaseTransport):
        def handle_request(self, _request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, stream=_Stream(bomb))

    client = consortium.client("north", Bombing())
    tracemalloc.start()
    with pytest.raises(ConnectionFailedError):
        client.about()
    assert tracemalloc.get_traced_memory()[1] < 10 * len(bomb)
    tracemalloc.stop()


@pytest.mark.parametrize(
    "manifest",
    [
        b"{}",
        b"[]",
        b"null",
        b'{"files": 3}',
        b'{"files": {"a": {}}}',
        b'{"files": {"../key.pem": {"bytes": 1, "sha256": "x"}}}',
        b'{"files": {"a": {"bytes": -1, "sha256": "x"}}}',
        b'{"files": {"a": {"bytes": 1e99, "sha256": "x"}}}',
        b'{"files": {"a": {"bytes": 99999999999999999, "sha256": "x"}}}',
        b"[" * 100_000,
    ],
)
def test_a_release_that_is_none(
    consortium: Consortium, manifest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever manifest the aggregator announces and gives, the agent goes on without it."""
    import hashlib

    consortium.add_owner("north", people(ROWS), SCHEMA)
    north = consortium.agents["north"]
    monkeypatch.setattr(north.client, "release_manifest", lambda _round: manifest)
    consortium.aggregator.open_round(consortium.terms())
    for _ in range(4):
        step(north)
    data = north.journal.round("r1")
    assert data is not None
    assert data.state is OwnerState.DELIVERED
    assert tell(consortium, north, Released(manifest=hashlib.sha256(manifest).hexdigest()))
    step(north)
    assert not list(north.home.releases.glob("*"))
    assert not list(north.home.releases.glob(".*"))
    step(consortium.start("north"))


def test_a_schema_too_long_to_offer_is_refused_at_once(consortium: Consortium) -> None:
    """Half a million categories: the owner says that it is too large, and lives on."""
    values = ", ".join(f"value-{i:06d}" for i in range(500_000))
    schema = SCHEMA.replace("red, green, blue", f"red, green, blue, {values}")
    consortium.add_owner("north", people(ROWS), schema)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle(turns=4)
    assert refused(consortium.agents["north"]) is Reason.TOO_LARGE
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.ABORTED


# a round that fails stops no other


def test_a_task_that_fails_is_given_up(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round whose task fails in unforeseen ways is tried a few times, refused, and no other."""
    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, people(ROWS, seed=number, first=number * 100), SCHEMA)
    deliver, tries = outbox.deliver, []

    def failing(home: Any, ledger: Any, machine: Any, client: Any, **more: Any) -> Any:
        if machine.data.round == "r1" and machine.data.owner == "north":
            tries.append(1)
            raise RuntimeError("a library's bug")
        return deliver(home, ledger, machine, client, **more)

    monkeypatch.setattr(outbox, "deliver", failing)
    for round_id in ("r1", "r2"):
        consortium.aggregator.open_round(consortium.terms(round_id))
    consortium.settle()
    for _ in range(MOST_TRIES + 2):
        step(consortium.agents["north"])
    assert len(tries) == MOST_TRIES
    assert refused_round(consortium, "r1") is Reason.QUARANTINED
    data = consortium.store.round("r2")
    assert data is not None
    assert data.state is RoundState.RELEASED


def refused_round(consortium: Consortium, round_id: str) -> Reason | None:
    """Why north refused a round."""
    data = consortium.agents["north"].journal.round(round_id)
    assert data is not None
    assert data.state is OwnerState.REFUSED
    return data.reason


def test_a_task_that_kills_is_given_up(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that takes the process with it every time is not begun for ever."""
    consortium.add_owner("north", people(ROWS), SCHEMA)

    class Killed(BaseException):
        """Stands for the kernel's out-of-memory killer."""

    def kill(*_given: Any, **_options: Any) -> Any:
        raise Killed

    monkeypatch.setattr(outbox, "deliver", kill)
    consortium.aggregator.open_round(consortium.terms())
    deaths = 0
    for _ in range(MOST_TRIES + 4):
        try:
            step(consortium.start("north"))
        except Killed:
            deaths += 1
    assert deaths == MOST_TRIES
    assert refused_round(consortium, "r1") is Reason.QUARANTINED


# the table is read once


def test_a_round_reads_and_prepares_the_table_once(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offering, linking and protecting share one reading."""
    from sherd.tables import prepare as preparing
    from sherd.tables import read as reading

    reads, prepared = [], []
    read, prepare = reading.read, preparing.prepare

    def counting_read(source: Any, **options: Any) -> Any:
        reads.append(source)
        return read(source, **options)

    def counting_prepare(*given: Any) -> Any:
        prepared.append(1)
        return prepare(*given)

    monkeypatch.setattr(reading, "read", counting_read)
    monkeypatch.setattr(preparing, "prepare", counting_prepare)
    for name in ("north", "south"):
        consortium.add_owner(name, part(name, ROWS), PARTS[name], key_column="id")
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED
    assert sorted(reads) == sorted(home.settings.source for home in consortium.homes.values())
    assert len(prepared) == 2


def test_a_round_that_asks_a_person_keeps_no_table(consortium: Consortium) -> None:
    """While a person decides, the table is not held in memory; a changed one is refused."""
    import pyarrow.parquet as pq

    consortium.add_owner("north", people(ROWS), SCHEMA, approve="ask")
    north = consortium.agents["north"]
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle(turns=4)
    assert north.home._loaded is None
    pq.write_table(people(ROWS, seed=9), north.home.settings.source)
    north.journal.decide("r1", "approve")
    consortium.settle()
    assert refused(north) is Reason.METHOD_FAILED
