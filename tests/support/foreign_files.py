"""More parsers of bytes of somebody else: of parties, of releases' files, of plans and tables.

``FILE_TARGETS`` and ``file_corpus`` are joined to those of ``foreign_bytes``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import sherd
from sherd.errors import SherdError
from sherd.federation.wire.certificates import (
    check_issued,
    days_left,
    hosts_of,
    issue_client,
    make_authority,
    new_key,
    request,
)
from sherd.federation.wire.openid_provider import Provider
from sherd.secure.engine.link import framed, unframed
from sherd.secure.engine.mpyc_engine import load_mpyc
from sherd.secure.engine.mpyc_wire import ShareBytes, exchanger
from sherd.secure.party import message_frames
from sherd.secure.party.meeting import Hello, told_journals
from sherd.secure.party.run_journal import SignedResult
from sherd.tables.read import read
from sherd.verifying.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTS = ("model.json", "signature.json", "countersignatures.json", "manifest.json")
SHARES = ShareBytes(2**89 - 1)
SCHEMA = """
attributes:
  age: {type: integer, domain: [0, 99]}
  town: {type: category, values: [a, b]}
"""


def party_said(raw: bytes) -> None:
    """Frames of a party, and what they may hold; then the same bytes as each engine hears them."""
    with contextlib.suppress(SherdError):
        unframed(raw)
    with contextlib.suppress(SherdError):
        SHARES.loads(raw)
    _as_mpyc_hears(raw)
    place = 0
    while place + message_frames.HEADER <= len(raw):
        head = raw[place : place + message_frames.HEADER]
        _, length = message_frames.read_header(head)
        place += message_frames.HEADER
        message = message_frames.unpack(raw[place : place + length])
        place += length
        with contextlib.suppress(SherdError):
            Hello.from_data(message)
        with contextlib.suppress(SherdError):
            told_journals({0: message, 1: message}, {"plan": "p"})
        with contextlib.suppress(ValueError, TypeError):
            SignedResult.from_data(message)


def _as_mpyc_hears(raw: bytes) -> None:
    load_mpyc()
    loop = asyncio.new_event_loop()
    try:
        made = exchanger(SimpleNamespace(_loop=loop), 1, lambda _error: None)
        waiting = made.receive(1)
        with contextlib.suppress(SherdError):
            for at in range(0, len(raw), 7):
                made.data_received(raw[at : at + 7])
        if waiting.done():
            with contextlib.suppress(SherdError):
                SHARES.loads(waiting.result())
        assert made.kept >= 0
    finally:
        loop.close()


@functools.cache
def _authority() -> tuple[bytes, bytes, bytes]:
    key, authority = make_authority("registry")
    return key, authority, new_key()


def certified(raw: bytes) -> None:
    """A certificate that an aggregator sends an owner, and a request that an owner sends."""
    key, authority, own = _authority()
    with contextlib.suppress(SherdError):
        issue_client((key, authority), raw, "north")
    check_issued(raw, own, authority)  # nothing else is asked of one that this lets pass
    days_left(raw)
    with contextlib.suppress(Exception):
        hosts_of(raw)  # of our own certificate alone


def provider_said(raw: bytes) -> None:
    """What a provider answers: its description, its keys, a token."""
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return
    provider = Provider("https://p", "c")
    provider.ask = lambda *_given, **_more: told if isinstance(told, dict) else {}  # type: ignore[method-assign]
    for name in ("token_endpoint", "jwks_uri"):
        with contextlib.suppress(SherdError):
            provider.endpoint(name)
    provider.identify(str(provider.ask("", "").get("id_token")), nonce="n")


@functools.cache
def _release() -> Path:
    from releases import PEOPLE, people_alone

    folder = Path(tempfile.mkdtemp(prefix="sherd-fuzz-")) / "release"
    table = people_alone().slice(0, 40).select(["id", "age", "sex", "town"])
    schema = sherd.Schema.from_data(
        {"missing": "refuse", "attributes": {
            name: PEOPLE.as_data()["attributes"][name] for name in table.column_names}}
    )  # fmt: skip
    sherd.protect(table, schema, sherd.Plan(method="dp-graph", epsilon=5)).save(folder)
    return folder


def verified(raw: bytes) -> None:
    """A release with one of its documents replaced, and its hashes worked out again."""
    folder = _release()
    name, content = DOCUMENTS[raw[0] % len(DOCUMENTS)] if raw else "manifest.json", raw[1:]
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    try:
        (folder / name).write_bytes(content)
        manifest = json.loads(kept["manifest.json"])
        if name in manifest["files"]:
            manifest["files"][name]["sha256"] = hashlib.sha256(content).hexdigest()
            manifest["files"][name]["bytes"] = len(content)
            (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
        verify(folder)
    finally:
        for path in folder.iterdir():
            if path.name not in kept:
                path.unlink()
        for each, before in kept.items():
            (folder / each).write_bytes(before)


def _loaded(raw: bytes, suffix: str, load: Callable[[Path], Any]) -> Any:
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(raw)
        file.flush()
        return load(Path(file.name))


def planned(raw: bytes) -> None:
    """A plan or a schema in a file of somebody else."""
    schema = sherd.Schema.from_data({"attributes": {"a": {"type": "integer", "domain": [0, 9]}}})
    with contextlib.suppress(SherdError):
        _loaded(raw, ".yaml", sherd.Schema.load)
    plan = _loaded(raw, ".yaml", sherd.Plan.load)
    plan.guarantee(schema)


def uploaded(raw: bytes) -> None:
    """A table as somebody uploads it in the studio, by its schema and without."""
    with contextlib.suppress(SherdError):
        _loaded(raw, ".csv", read)
    schema = _loaded(SCHEMA.encode(), ".yaml", sherd.Schema.load)
    _loaded(raw, ".csv", lambda path: read(path, schema=schema))


FILE_TARGETS: dict[str, Callable[[bytes], Any]] = {
    "party": party_said,
    "certificate": certified,
    "provider": provider_said,
    "bundle": verified,
    "plan": planned,
    "upload": uploaded,
}


def file_corpus() -> dict[str, list[bytes]]:
    """What each of them reads in life."""
    hello = {"terms": {"plan": "p"}, "rows": 3, "nonce": "n", "open": None, "finished": None,
             "published": False}  # fmt: skip
    journal = {"statement": {"plan": "p", "records": 3}, "entries": [["x", [1, -2], ["00"]]]}
    said = [hello, journal, ["places of choices", [3], []]]
    frames = [
        message_frames.frame(message_frames.MESSAGE, message_frames.pack(one)) for one in said
    ]
    key, authority, own = _authority()
    folder = _release()
    documents = [
        bytes([place]) + (folder / name).read_bytes()
        for place, name in enumerate(DOCUMENTS)
        if (folder / name).exists()
    ]
    signature = {"format": 1, "key": "0" * 64, "signature": "1" * 128}
    owners = {"format": 1, "owners": {"north": "1" * 128}}
    about = {"issuer": "https://p", "token_endpoint": "https://p/t", "jwks_uri": "https://p/k",
             "keys": [], "id_token": "a.b.c"}  # fmt: skip
    shares = SHARES.dumps([1, 2, 3])
    mpyc = (1).to_bytes(8, "little") + len(shares).to_bytes(4, "little") + shares
    return {
        "party": [*frames, b"".join(frames), framed([b"meta", b"chunk"]), shares, mpyc],
        "certificate": [authority, issue_client((key, authority), request("north", own), "north")],
        "provider": [json.dumps(about).encode()],
        "bundle": [*documents, b"\1" + json.dumps(signature).encode(),
                   b"\2" + json.dumps(owners).encode()],
        "plan": [b"method: dp-um\nepsilon: 1\nk: 3\n", b"method: dp-graph\nepsilon: 2\n",
                 SCHEMA.encode()],
        "upload": [b"age,town\n12,a\n13,b\n", b'age;town\n"1";"a"\n',
                   b"\xef\xbb\xbfage\ttown\n1\ta\n"],
    }  # fmt: skip
