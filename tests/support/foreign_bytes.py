"""Every parser that sees bytes of somebody else, with messages of a real round to begin from.

A parser gives a value or an error of ours; anything else is a crash. ``TARGETS`` is what tests
and the fuzzer (`make fuzz`) go through, and `python foreign_bytes.py FOLDER` writes the corpus.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from foreign_files import FILE_TARGETS, file_corpus
from people import KINDS, PARTS, SCHEMA, part, people, terms_of

from sherd.errors import SherdError
from sherd.federation.protocol.announced_policy import AnnouncedPolicy
from sherd.federation.protocol.joint_plan import JointPlan, Kind, Offer, Terms
from sherd.federation.protocol.messages import BODIES, Attachment, Invite, Message
from sherd.federation.wire.arrow_stream import read_table
from sherd.federation.wire.chunks import check_chunk, describe, gather
from sherd.federation.wire.client import Client
from sherd.federation.wire.enrolment import parse_answer
from sherd.federation.wire.enrolment import read_request as read_enrolment
from sherd.federation.wire.envelope import (
    open_envelope,
    parse,
    read_announcement,
    seal,
    sign_announcement,
)
from sherd.federation.wire.exchange import Call, Parcel, read_request, read_response, write_request
from sherd.federation.wire.fetching import _listed_files
from sherd.federation.wire.openid_provider import key_name, read_id_token, read_keys
from sherd.signing_keys import SigningKey
from sherd.values import canonical, from_data, to_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from consortium import AppTransport

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
NOW = 1_800_000_000
MOST = 12_000
"""The most bytes of a message in the corpus."""


def sealed(body: Any, sequence: int = 1) -> bytes:
    """A body in an envelope that north takes."""
    message = Message(
        round="r1", plan="", sender="registry", recipient="north", sequence=sequence, body=body
    )
    return seal(message, KEY, expires=2**36)


TERMS = terms_of(("north", "south"), NOW, round="r1")
ENVELOPE = sealed(Invite(terms=TERMS, aggregator_key=KEY.public))
REQUEST = write_request(Call(parcels=(Parcel(round="r1", raw=ENVELOPE),), seen={"r1": 3}, wait=0.0))


def stream(table: pa.Table) -> bytes:
    """A table as it is delivered."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


CODES = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1] * 3, pa.uint8()), [19, 57])


def opened(raw: bytes) -> Any:
    """An envelope as an owner opens it, whoever signed it: what is inside shall be looked at."""
    return open_envelope(raw, key_of=lambda _sender: KEY.public, recipient="north", now=0)


def signed_again(raw: bytes) -> Any:
    """The body of an envelope, whatever it is, as a sender with a key may send it."""
    data = parse(raw)
    for kind in {*BODIES.values(), Terms, Offer, JointPlan, AnnouncedPolicy}:
        try:
            from_data(kind, data)
        except SherdError:
            continue


def gathered(raw: bytes) -> bytes:
    """Bulk, of an attachment that says what it likes and chunks that are what they are."""
    head, _, rest = raw.partition(b"\n")
    attachment = from_data(Attachment, parse(head))

    def chunk(sha256: str) -> bytes:
        check_chunk(sha256, rest)
        return rest

    return gather(attachment, chunk)


def enrolled(raw: bytes) -> Any:
    """An enrolment's request file, and an answer."""
    with contextlib.suppress(SherdError):
        parse_answer(raw)
    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        return read_enrolment(Path(file.name))


@functools.cache
def _provider_keys() -> list[dict[str, str]]:
    from openid import LocalProvider

    provider = LocalProvider()
    provider.close()
    return provider.keys()


def identified(raw: bytes) -> None:
    """A provider's token, and its list of keys."""
    text = raw.decode("latin-1")
    keys = read_keys(_provider_keys())
    with contextlib.suppress(SherdError):
        key_name(text)
    with contextlib.suppress(SherdError):
        read_id_token(text, keys, issuer="https://p", client="c", nonce="n", now=NOW)
    with contextlib.suppress(ValueError, RecursionError):
        read_keys(json.loads(raw))


class _Says(httpx.BaseTransport):
    """An aggregator that answers everything by the same bytes."""

    def __init__(self, raw: bytes) -> None:
        self._status = [200, 200, 200, 400, 403, 409, 500][raw[0] % 7] if raw else 200
        self._raw = raw[1:]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One answer."""
        return httpx.Response(self._status, stream=httpx.ByteStream(self._raw), request=request)


def answered(raw: bytes) -> None:
    """An aggregator's answer to each call of an owner."""
    for call in ("commitments", "rounds", "release_manifest", "exchange", "log_in"):
        token = None if call == "log_in" else "token"
        client = Client(
            url="http://registry", name="north", aggregator="registry", key=KEY, token=token,
            transport=_Says(raw),
        )  # fmt: skip
        try:
            if call == "exchange":
                client.exchange(Call(parcels=(), seen={}, wait=0.0))
            elif call == "release_manifest":
                client.release_manifest("r1")
            else:
                getattr(client, "rounds" if call == "log_in" else call)()
        except SherdError:
            continue


@functools.cache
def _service() -> AppTransport:
    """A service with two owners whose sessions are known."""
    from consortium import Consortium

    made = Consortium(Path(tempfile.mkdtemp(prefix="sherd-fuzz-")))
    for name in ("north", "south"):
        made.store.add_member(name, "owner", key=KEY.public, now=NOW)
    made.store.add_session("t" * 40, "north", expires=2**33)
    made.store.add_member("op", "operator", token="o" * 40, now=NOW)
    made.aggregator.open_round(TERMS)
    return made.transport


def asked(raw: bytes) -> None:
    """A request to the service: a line with method and path, headers, an empty line, a body."""
    head, _, body = raw.partition(b"\n\n")
    line, *lines = head.decode("latin-1").split("\n")
    method, _, path = line.partition(" ")
    halves = [each.partition(": ") for each in lines]
    headers = [(name, value) for name, colon, value in halves if colon]
    request = httpx.Request("POST", "https://registry/v1/rounds", content=body)
    request.method = method
    try:
        request.url = httpx.URL("https://registry").join(path or "/")
        request.headers = httpx.Headers(headers)
    except (httpx.InvalidURL, ValueError, UnicodeError):
        return  # no client could send it
    status = _service().handle_request(request).status_code
    assert status < 500, status


TARGETS: dict[str, Callable[[bytes], Any]] = {
    "envelope": opened,
    "canonical": parse,
    "body": signed_again,
    "request": read_request,
    "response": lambda raw: read_response(raw, 1),
    "delivery": lambda raw: read_table(raw, 1 << 20),
    "manifest": _listed_files,
    "chunks": gathered,
    "enrolment": enrolled,
    "announcement": lambda raw: read_announcement(
        raw, owner="north", key=KEY.public, aggregator="registry"
    ),
    "answers": answered,
    "id-token": identified,
    "http": asked,
    **FILE_TARGETS,
}
"""By name: what it is given are bytes of somebody else."""


def try_one(name: str, raw: bytes) -> None:
    """Give a parser bytes; whatever it raises that is not ours is a crash."""
    with contextlib.suppress(SherdError):
        TARGETS[name](raw)


class _Heard(httpx.BaseTransport):
    """Passes calls on, and keeps what was said."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner = inner
        self.said: list[tuple[httpx.Request, bytes]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One call."""
        answer = self.inner.handle_request(request)
        self.said.append((request, answer.content))
        return answer


def record() -> dict[str, list[bytes]]:
    """What is said in a round of each kind, by who parses it."""
    from consortium import Consortium
    from openid import LocalProvider

    found: dict[str, list[bytes]] = {name: [] for name in TARGETS}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            made = Consortium(Path(folder))
            heard = _Heard(made.transport)
            for number, name in enumerate(("north", "south")):
                vertical = kind is Kind.VERTICAL
                table = part(name, 12) if vertical else people(12, number, number * 100)
                schema = PARTS[name] if vertical else SCHEMA
                made.add_owner(name, table, schema, key_column="id")
                made.start(name, heard)
                enrolment = made.folder / name
                found["enrolment"] += [
                    (enrolment / "request.json").read_bytes(),
                    (enrolment / "answer.json").read_bytes(),
                ]
            made.aggregator.open_round(made.terms(kind=kind))
            made.settle()
            _sort(heard.said, found)
            made.close()
    found["delivery"] += [
        stream(people(12)),
        stream(people(12).set_column(3, "colour", people(12)["colour"].dictionary_encode())),
        stream(people(12).set_column(1, "age", CODES)),
    ]
    found["id-token"] += [
        LocalProvider()
        .signed({"iss": "https://p", "aud": "c", "nonce": "n", "exp": 2**40})
        .encode(),
        json.dumps(_provider_keys()).encode(),
    ]
    for name, raws in file_corpus().items():
        found[name] += raws
    attachment = to_data(describe(b"bulk"))
    found["chunks"].append(canonical(attachment) + b"\nbulk")
    policy = AnnouncedPolicy(owner="north", aggregator="registry", version=NOW, least_k=3)
    found["announcement"].append(sign_announcement(policy, KEY))
    return found


def _sort(said: list[tuple[httpx.Request, bytes]], found: dict[str, list[bytes]]) -> None:
    for request, answer in said:
        path, body = request.url.path, request.read()
        head = f"{request.method} {path}\nauthorization: Bearer {'t' * 40}\n\n".encode()
        found["http"].append(head + body)
        found["answers"].append(b"\0" + answer)
        if path.endswith("manifest.json"):
            found["manifest"].append(answer)
        if path == "/v1/exchange":
            found["request"].append(body)
            found["response"].append(answer)
            parts = [p.raw for p in read_request(body).parcels]
            for raw in parts:
                data = json.loads(raw)
                found["envelope"].append(raw)
                found["canonical"].append(raw)
                found["body"].append(canonical(data["body"]))
            for raw in read_response(answer, len(parts)).messages:
                found["envelope"].append(raw)
                found["body"].append(canonical(json.loads(raw)["body"]))


def main(folder: Path) -> None:
    """Write the corpus, each message once."""
    for name, raws in record().items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        small = sorted({raw for raw in raws if len(raw) <= MOST}, key=lambda raw: (len(raw), raw))
        for number, raw in enumerate(small[:: max(1, len(small) // 10)]):
            (place / f"{number:02d}").write_bytes(raw)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
