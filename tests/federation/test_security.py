"""Who may do what, and what the service does with whatever it is sent."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from driving import fetch, inbox, send
from people import SCHEMA, people

from sherd.errors import ConnectionFailedError, PeerError
from sherd.federation.aggregator.api import make_app
from sherd.federation.protocol.messages import CHUNK, Message, Refusal
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import ROUND_ENDS, RoundState
from sherd.federation.wire.client import session_text
from sherd.federation.wire.envelope import seal
from sherd.federation.wire.exchange import MOST_REQUEST, Call, write_request
from sherd.signing_keys import SigningKey
from sherd.values import canonical, to_data

if TYPE_CHECKING:
    from consortium import Consortium

    from sherd.federation.owner.agent import Agent


def set_up(consortium: Consortium) -> None:
    """Two owners, an operator, an analyst, a released and an open round."""
    for number, name in enumerate(("north", "south", "stranger")):
        table = people(12, seed=number, first=number * 100)
        consortium.add_owner(name, table, SCHEMA, key_column="id")
    consortium.store.add_member("boss", "operator", token="operator-token", now=0)
    consortium.store.add_member("ann", "analyst", token="analyst-token", now=0)
    both = ("north", "south")
    consortium.aggregator.open_round(consortium.terms("done", owners=both))
    consortium.settle()
    consortium.aggregator.open_round(consortium.terms("running", owners=both))


def token(agent: Agent) -> str:
    """An owner's session."""
    return agent.client._log_in()


def call(consortium: Consortium, bearer: str | None, method: str, path: str, **options: Any) -> int:
    """The status of a request."""
    headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
    with httpx.Client(base_url="https://registry.test", transport=_keep(consortium)) as client:
        return client.request(method, path, headers=headers, **options).status_code


class _Kept(httpx.BaseTransport):
    """The consortium's transport, left open."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._inner.handle_request(request)


def _keep(consortium: Consortium) -> httpx.BaseTransport:
    return _Kept(consortium.transport)


HASH = hashlib.sha256(b"").hexdigest()
ROUTES = Path(__file__).parents[2] / "docs" / "federation" / "routes.md"


def matrix() -> dict[tuple[str, str, str], tuple[int, ...]]:
    """The reference's table: route and state of the round, and the statuses of each caller."""
    found = {}
    for line in ROUTES.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            method, path = cells[0].strip("`").split(" ")
            found[method, path, cells[1]] = tuple(int(cell) for cell in cells[2:7])
    return found


def body_of(path: str) -> dict[str, Any]:
    """A well-formed body for a path."""
    if path == "/v1/challenge":
        return {"json": {"name": "north"}}
    if path == "/v1/session":
        return {"json": {"name": "north", "nonce": "00", "signature": "00"}}
    if path == "/v1/exchange":
        return {"content": write_request(Call(parcels=(), seen={}, wait=0.0))}
    if path == "/v1/certificate":
        return {"json": {"csr": "-"}}
    if path == "/v1/login":
        return {"json": {"id_token": "a.b.c", "nonce": "0"}}
    if path.endswith("/countersignature"):
        return {"json": {"signature": "0" * 128}}
    return {}


def states() -> dict[str, list[RoundState]]:
    """The states that the reference calls by one word, by that word."""
    text = ROUTES.read_text(encoding="utf-8")
    lines = re.findall(r"^- \*(\w+)\*: (.*)$", text, re.MULTILINE)
    return {word: [RoundState(each) for each in listed.split(", ")] for word, listed in lines}


def in_state(consortium: Consortium, state: RoundState) -> str:
    """A round of north and south in a state; the one with a release if that is it."""
    if state is RoundState.RELEASED:
        return "done"
    name = f"in-{state.value}"
    if consortium.store.round(name) is None:
        consortium.aggregator.open_round(consortium.terms(name, owners=("north", "south")))
    with consortium.store.working(name) as work:
        assert work is not None
        work.data.state = state
        work.save([], now=int(consortium.time))
    return name


def test_role_by_endpoint(consortium: Consortium) -> None:
    """Every route answers every role in every state as the reference says, which has them all."""
    set_up(consortium)
    bearers = [
        None,
        "analyst-token",
        "operator-token",
        token(consortium.agents["north"]),
        token(consortium.agents["stranger"]),
    ]
    told, meant, cells = matrix(), states(), 0
    assert sorted(state for each in meant.values() for state in each) == sorted(RoundState)
    for (method, path, word), expected in told.items():
        for state in meant.get(word, [RoundState.DRAFT]):
            round_id = in_state(consortium, state)
            where = path.format(round_id=round_id, sha256=HASH, name="manifest.json")
            # The operator last: it may end the round.
            found = {
                i: call(consortium, bearers[i], method, where, **body_of(where))
                for i in (0, 1, 3, 4, 2)
            }
            assert tuple(found[i] for i in range(5)) == expected, (method, path, state)
            cells += 5
            after = consortium.store.round(round_id)
            assert after is not None
            ends = path.endswith("/abort") and state not in ROUND_ENDS
            assert after.state is (RoundState.ABORTED if ends else state), (path, state)
    app = make_app(consortium.aggregator, worker=False)
    listed = {
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }
    assert {(method, path) for method, path, _ in told} == listed
    # And nothing answers that no description lists.
    assert {getattr(route, "path", "") for route in app.routes} - {""} <= {p for _, p in listed}
    for path in ("/openapi.json", "/docs", "/redoc", "/", "/v1"):
        assert call(consortium, None, "GET", path) == 404, path
    by_round = {path for _, path, _ in told if "{round_id}" in path}
    for path in by_round:
        assert {word for _, other, word in told if other == path} == set(meant), path
    assert cells == 5 * (len([w for *_, w in told if w == "any"]) + 5 * len(RoundState))


def test_a_stranger_cannot_feign_trouble_with_the_database(consortium: Consortium) -> None:
    """A name that PostgreSQL could not look up is refused as malformed, not as our problem."""
    odd = "a\x00b"
    answer = {"name": "north", "nonce": "0", "signature": "0"}
    for path, body in (
        ("/v1/challenge", {"name": odd}),
        ("/v1/session", answer | {"name": odd}),
        ("/v1/session", answer | {"nonce": odd}),
    ):
        assert call(consortium, None, "POST", path, json=body) == 400


def test_asking_for_a_number_tells_and_keeps_nothing(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks, under whatever name: the database is neither read nor written."""
    set_up(consortium)

    def touched(*_given: Any, **_options: Any) -> Any:
        raise AssertionError("the database was asked")

    with monkeypatch.context() as then:
        then.setattr(type(consortium.store), "member", touched)
        then.setattr("sherd.federation.aggregator.storage.database.writing", touched)
        for name in ("north", "nobody"):
            assert call(consortium, None, "POST", "/v1/challenge", json={"name": name}) == 200


def test_a_number_opens_one_session(consortium: Consortium) -> None:
    """Answered twice, too late, under another name, or one that we did not give: refused."""
    from sherd.federation.aggregator.api import CHALLENGE_SECONDS
    from sherd.federation.aggregator.fresh_numbers import fresh_number
    from sherd.federation.wire.client import session_text

    set_up(consortium)
    key = consortium.homes["north"].key

    def answer(nonce: str, name: str = "north", signer: Any = key) -> int:
        signed = signer.sign(session_text("registry", name, nonce))
        body = {"name": name, "nonce": nonce, "signature": signed}
        return call(consortium, None, "POST", "/v1/session", json=body)

    def number(what: str = "challenge") -> str:
        return fresh_number(consortium.aggregator, what, seconds=CHALLENGE_SECONDS)

    once = number()
    assert [answer(once), answer(once)] == [200, 403]
    assert answer(number(), "stranger") == 403
    assert answer(number(), "nobody") == 403
    assert answer(number(), signer=consortium.homes["stranger"].key) == 403
    assert answer(number("login")) == 403
    late, forged = number(), number()
    assert answer(str(int(forged[0]) + 1) + forged[1:]) == 403
    assert answer("0-0-0") == 403
    consortium.time += CHALLENGE_SECONDS + 1
    assert answer(late) == 403


def test_rounds_are_listed_by_role(consortium: Consortium) -> None:
    """An analyst sees released rounds, an owner its own, an operator all."""
    set_up(consortium)

    def listed(bearer: str) -> list[str]:
        with httpx.Client(base_url="https://registry.test", transport=_keep(consortium)) as client:
            answer = client.get("/v1/rounds", headers={"Authorization": f"Bearer {bearer}"})
        return [each["round"] for each in answer.json()["rounds"]]

    assert listed("analyst-token") == ["done"]
    assert listed("operator-token") == ["done", "running"]
    assert listed(token(consortium.agents["north"])) == ["done", "running"]
    assert listed(token(consortium.agents["stranger"])) == []


def test_path_traversal_and_odd_names(consortium: Consortium) -> None:
    """No name leads out of a release, whatever it is spelled like."""
    set_up(consortium)
    for name in (
        "..%2faggregator.db",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "....//x",
        "data.parquet%00",
        ".hidden",
        "nothing.txt",
        "%2fetc%2fpasswd",
    ):
        path = f"/v1/rounds/done/release/{name}"
        assert call(consortium, "analyst-token", "GET", path) in (400, 404), name
    assert call(consortium, "analyst-token", "GET", "/v1/rounds/..%2f..%2f/release/x") in (400, 404)


def test_oversize_and_malformed_bodies(consortium: Consortium) -> None:
    """Bodies too large are cut short with 413, malformed ones are answered with 400."""
    set_up(consortium)
    mine = token(consortium.agents["north"])
    send = "/v1/exchange"
    assert call(consortium, mine, "POST", send, content=b"x" * (MOST_REQUEST + 1)) == 413
    chunk = f"/v1/rounds/running/chunks/{HASH}"
    assert call(consortium, mine, "PUT", chunk, content=b"x" * (CHUNK + 1)) == 413
    assert call(consortium, mine, "PUT", chunk, content=b"x") == 400
    assert call(consortium, mine, "PUT", "/v1/rounds/running/chunks/zz", content=b"") == 400
    for body in (b"", b"{", b"[]", b"null", b'{"header":1,"body":2,"signature":3}'):
        assert call(consortium, mine, "POST", send, content=body) == 400
    for odd in (Call(parcels=(), seen={"x": -1}, wait=0.0), Call(parcels=(), seen={}, wait=1e9)):
        assert call(consortium, mine, "POST", send, content=write_request(odd)) == 400
    assert call(consortium, "x" * 201, "GET", "/v1/rounds") == 401
    assert call(consortium, "operator-token", "POST", "/v1/rounds", content=b"{}") == 400


def test_operator_opens_a_round_over_http(consortium: Consortium) -> None:
    """The terms of a round in canonical JSON open it."""
    set_up(consortium)
    terms = consortium.terms("fresh", owners=("north",))
    body = canonical(to_data(terms))
    assert call(consortium, "operator-token", "POST", "/v1/rounds", content=body) == 201
    assert call(consortium, "operator-token", "POST", "/v1/rounds", content=body) == 400
    other = canonical(to_data(consortium.terms("other", owners=("nobody",))))
    assert call(consortium, "operator-token", "POST", "/v1/rounds", content=other) == 400


def refused(consortium: Consortium, agent: Agent, round_id: str, raw: bytes) -> str:
    """Why the aggregator refuses an envelope."""
    with pytest.raises(PeerError) as caught:
        send(agent.client, round_id, raw)
    return caught.value.reason


def test_replay_cross_round_and_cross_owner(consortium: Consortium) -> None:
    """Envelopes cannot be used again elsewhere, by others, under other numbers or plans."""
    set_up(consortium)
    north, south = consortium.agents["north"], consortium.agents["south"]
    fetch(north)
    base = Message(
        round="running",
        plan="",
        sender="north",
        recipient="registry",
        sequence=1,
        body=Refusal(reason=Reason.NOT_INTERESTED),
    )

    def sealed(key: SigningKey, **changes: Any) -> bytes:
        return seal(Message(**{**vars(base), **changes}), key, expires=2**40)

    own = sealed(north.key)
    assert refused(consortium, north, "done", own) is Reason.WRONG_ROUND
    assert refused(consortium, south, "running", own) is Reason.UNKNOWN_SENDER
    assert refused(consortium, north, "running", sealed(south.key)) is Reason.SIGNATURE
    as_south = sealed(south.key, sender="south")
    assert refused(consortium, north, "running", as_south) is Reason.UNKNOWN_SENDER
    to_south = sealed(north.key, recipient="south")
    assert refused(consortium, north, "running", to_south) is Reason.WRONG_RECIPIENT
    assert (
        refused(consortium, north, "running", sealed(north.key, sequence=2)) is Reason.SEQUENCE_GAP
    )
    ended = sealed(north.key, round="done", sequence=9)
    assert refused(consortium, north, "done", ended) is Reason.ENDED
    stale = seal(base, north.key, expires=5)
    assert refused(consortium, north, "running", stale) is Reason.STALE
    assert send(north.client, "running", own) == []
    assert send(north.client, "running", own) == []  # the same again is acknowledged again
    other = sealed(north.key, body=Refusal(reason=Reason.BUDGET))
    assert refused(consortium, north, "running", other) is Reason.SEQUENCE_REUSED
    data = consortium.store.round("running")
    assert data is not None
    assert data.state is RoundState.ABORTED


def test_stranger_to_a_round(consortium: Consortium) -> None:
    """An enrolled owner that was not invited finds no round, no messages and no chunks."""
    set_up(consortium)
    stranger = consortium.agents["stranger"]
    message = Message(
        round="running",
        plan="",
        sender="stranger",
        recipient="registry",
        sequence=1,
        body=Refusal(reason=Reason.BUDGET),
    )
    raw = seal(message, stranger.key, expires=2**40)
    assert refused(consortium, stranger, "running", raw) is Reason.WRONG_ROUND
    assert refused(consortium, stranger, "no-such", raw) is Reason.WRONG_ROUND
    assert inbox(stranger.client, {}) == []
    with pytest.raises(PeerError):
        stranger.client.put_chunk("running", HASH, b"")


def test_sessions_need_the_key(consortium: Consortium) -> None:
    """A challenge is answered by the enrolled key only; a removed owner is out at once."""
    set_up(consortium)
    north = consortium.agents["north"]
    wrong = consortium.client("north")
    wrong._key = SigningKey.generate()
    with pytest.raises(ConnectionFailedError, match="refuses this owner"):
        inbox(wrong, {})
    nobody = consortium.client("north")
    nobody._name = "nobody"
    with pytest.raises(ConnectionFailedError):
        inbox(nobody, {})
    assert session_text("a", "b", "c") != session_text("a", "bc", "")
    assert inbox(north.client, {"done": 99, "running": 99}) == []
    assert consortium.store.remove_member("north")
    with pytest.raises(ConnectionFailedError):
        inbox(north.client, {})


def test_certificate_must_be_the_owners(consortium: Consortium) -> None:
    """With certificates, an owner's session works on a channel that shows its own only."""
    from consortium import AppTransport

    set_up(consortium)
    transport = AppTransport(make_app(consortium.aggregator, certificates=True, worker=False))
    try:
        transport.peer = "north"
        client = consortium.client("north", _Kept(transport))
        assert inbox(client, {"done": 99, "running": 99}) == []
        for peer in ("south", None):
            transport.peer = peer
            with pytest.raises(PeerError):
                inbox(client, {})
            with pytest.raises(ConnectionFailedError):
                inbox(consortium.client("north", _Kept(transport)), {})
    finally:
        transport.stop()


def test_metrics_have_no_rounds_and_no_data(consortium: Consortium) -> None:
    """Metrics count by route, state, reason and owner; no round, attribute or value is in them."""
    set_up(consortium)
    with httpx.Client(base_url="https://registry.test", transport=_keep(consortium)) as client:
        answer = client.get("/v1/metrics", headers={"Authorization": "Bearer operator-token"})
    text = answer.text
    assert 'sherd_rounds{state="released"} 1.0' in text
    assert 'path="/v1/exchange",status="200"' in text
    assert 'sherd_owner_silent_seconds{owner="north"} 0.0' in text
    assert "sherd_queue 0.0" in text
    assert 'sherd_request_seconds_bucket{le="0.5",path="/v1/exchange"}' in text
    for name in ("done", "running", "income", "registry", "stranger.de"):
        assert name not in text
    consortium.aggregator.abort("running")
    with httpx.Client(base_url="https://registry.test", transport=_keep(consortium)) as client:
        answer = client.get("/v1/metrics", headers={"Authorization": "Bearer operator-token"})
    assert 'sherd_rounds_failed{reason="stopped"} 1.0' in answer.text


def test_errors_carry_a_code_and_a_sentence_only(consortium: Consortium) -> None:
    """What a refused caller is told never quotes what it sent."""
    set_up(consortium)
    mine = token(consortium.agents["north"])
    with httpx.Client(base_url="https://registry.test", transport=_keep(consortium)) as client:
        for body in (b'{"SECRET-CELL":1}', b"SECRET-CELL"):
            answer = client.post(
                "/v1/exchange",
                content=body,
                headers={"Authorization": f"Bearer {mine}"},
            )
            assert "SECRET-CELL" not in answer.text
            assert set(json.loads(answer.text)["error"]) == {"code", "what", "reason"}


@pytest.mark.parametrize("examples", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_schemathesis_over_the_description(consortium: Consortium, examples: int) -> None:
    """Requests made up from the OpenAPI description never make the service fail."""
    import schemathesis

    set_up(consortium)
    app = make_app(consortium.aggregator, worker=False)
    described = schemathesis.openapi.from_dict(app.openapi())
    bearers = [token(consortium.agents["north"]), "operator-token", "analyst-token", None]
    tried = 0
    from hypothesis import HealthCheck, Phase, given, settings

    for result in described.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]
        strategy = operation.as_strategy()

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def check(case: Any) -> None:
            nonlocal tried
            built = case.as_transport_kwargs(base_url="https://registry.test")
            for bearer in bearers:
                tried += 1
                headers = dict(dict(built.get("headers") or {}).items())
                if bearer is not None:
                    headers["Authorization"] = f"Bearer {bearer}"
                options = {k: built[k] for k in ("params", "json", "data") if built.get(k)}
                with httpx.Client(transport=_keep(consortium)) as client:
                    try:
                        request = client.build_request(
                            built["method"], built["url"], headers=headers, **options
                        )
                    except (httpx.InvalidURL, UnicodeEncodeError, TypeError, ValueError):
                        continue
                    answer = client.send(request)
                assert answer.status_code < 500, (built["method"], built["url"])

        check()
    assert tried > 20 * examples
