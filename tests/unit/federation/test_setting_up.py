"""Keys, certificates, enrolment, policies, folders, sources: what they refuse."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import httpx
import pytest
from driving import inbox, send
from people import SCHEMA, people

from sherd import extras as parts
from sherd.errors import (
    ConnectionFailedError,
    FormatError,
    MissingPartError,
    PeerError,
    SchemaError,
    StorageError,
    TableError,
    UsageError,
    VerificationError,
)
from sherd.federation.aggregator.aggregator_home import AggregatorHome, AggregatorSettings
from sherd.federation.owner.owner_home import OwnerHome, OwnerSettings
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.owner.owner_table import OwnerTable
from sherd.federation.owner.policy import TEMPLATE, Policy
from sherd.federation.protocol.collusion import collusion_table
from sherd.federation.protocol.joint_plan import Kind, Linkage, Terms
from sherd.federation.protocol.messages import CHUNK
from sherd.federation.wire import certificates, chunks, enrolment, failpoints
from sherd.federation.wire.client import Client, tls_context
from sherd.federation.wire.log_lines import JsonLines
from sherd.signing_keys import (
    SigningKey,
    fingerprint,
    same_fingerprint,
    verify,
    write_secret,
)
from sherd.tables.schema import Schema
from sherd_examples.rounds_demonstration import _clear

if TYPE_CHECKING:
    from pathlib import Path

KEY = SigningKey.generate()


def settings(tmp_path: Path, name: str = "north") -> OwnerSettings:
    """An owner's settings."""
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    return OwnerSettings(
        name=name,
        source=str(tmp_path / "table.parquet"),
        schema=str(tmp_path / "schema.yaml"),
        population="people",
    )


def test_keys_are_kept_secret_and_checked(tmp_path: Path) -> None:
    """A key file is readable by its owner alone; other files are refused."""
    KEY.save(tmp_path / "key.pem")
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
    assert SigningKey.load(tmp_path / "key.pem").public == KEY.public
    with pytest.raises(StorageError, match="cannot be written"):
        KEY.save(tmp_path / "key.pem")
    with pytest.raises(StorageError, match="cannot be read"):
        SigningKey.load(tmp_path / "none.pem")
    (tmp_path / "text.pem").write_text("no key", encoding="utf-8")
    with pytest.raises(FormatError, match="not a private key"):
        SigningKey.load(tmp_path / "text.pem")
    (tmp_path / "other.pem").write_bytes(certificates.new_key())
    with pytest.raises(FormatError, match="another kind"):
        SigningKey.load(tmp_path / "other.pem")


def test_signatures_and_fingerprints() -> None:
    """What is no key or signature never verifies; fingerprints forgive how they are typed."""
    signature = KEY.sign(b"x")
    assert verify(KEY.public, b"x", signature)
    for key, given in ((KEY.public, "zz"), ("zz", signature), ("ff" * 32, signature)):
        assert not verify(key, b"x", given)
    shown = fingerprint(KEY.public)
    assert same_fingerprint(shown.replace("-", " ").upper(), KEY.public)
    assert not same_fingerprint(shown[:-1], KEY.public)


def test_enrolment_files(tmp_path: Path) -> None:
    """Changed, foreign and misread files are refused; fingerprints must be compared."""
    csr = certificates.request("north", certificates.new_key())
    good = tmp_path / "request.json"
    good.write_bytes(enrolment.make_request("north", KEY, csr))
    request = enrolment.read_request(good)
    enrolment.compare(fingerprint(KEY.public), request.key, "owner")
    with pytest.raises(UsageError, match="not compared"):
        enrolment.compare(None, request.key, "owner")
    with pytest.raises(VerificationError, match="not the owner's"):
        enrolment.compare("0000-0000", request.key, "owner")
    data = json.loads(good.read_text())
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps({**data, "name": "south"}))
    with pytest.raises(VerificationError, match="was changed"):
        enrolment.read_request(changed)
    for content in ("{", "[]", json.dumps({**data, "format": "other"}), "x" * 100_000):
        changed.write_text(content)
        with pytest.raises(FormatError, match="not an enrolment file"):
            enrolment.read_request(changed)
    with pytest.raises(UsageError, match="cannot be read"):
        enrolment.read_answer(tmp_path / "none.json")


def test_certificate_requests_are_checked() -> None:
    """Only a sound request is signed."""
    authority = certificates.make_authority("registry")
    with pytest.raises(PeerError, match="certificate request"):
        certificates.issue_client(authority, b"no request", "north")


def test_owner_folder(tmp_path: Path) -> None:
    """A folder is set up once, answers must be its own, and what is missing is said."""
    home = OwnerHome.make(tmp_path / "home", settings(tmp_path))
    assert home.settings.name == "north"
    assert home.policy_file.read_text(encoding="utf-8") == TEMPLATE
    assert home.shared_key is None
    with pytest.raises(UsageError, match="already"):
        OwnerHome.make(tmp_path / "home", settings(tmp_path))
    with pytest.raises(UsageError, match="not enrolled"):
        assert home.enrolled
    with pytest.raises(UsageError, match="not an owner's folder"):
        assert OwnerHome(tmp_path / "nowhere").settings
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be made"):
        OwnerHome.make(tmp_path / "file" / "home", settings(tmp_path))
    premises = AggregatorHome.make(
        tmp_path / "aggregator",
        AggregatorSettings(name="registry", url="https://127.0.0.1:1"),
        ("127.0.0.1", "localhost"),
    )
    request = enrolment.read_request(home.folder / "request.json")
    (tmp_path / "answer.json").write_bytes(premises.enrol(request, now=0))
    answer = enrolment.read_answer(tmp_path / "answer.json")
    with pytest.raises(UsageError, match="somebody else"):
        home.join(dataclasses.replace(answer, owner="south"))
    home.join(answer)
    assert home.enrolled["aggregator"] == "registry"
    with pytest.raises(UsageError, match="already"):
        AggregatorHome.make(premises.folder, premises.settings, ("x",))
    with pytest.raises(UsageError, match="not an aggregator's folder"):
        assert AggregatorHome(tmp_path / "nowhere").settings
    with pytest.raises(StorageError, match="cannot be made"):
        AggregatorHome.make(tmp_path / "file" / "a", premises.settings, ("x",))
    (home.folder / "owner.json").write_text("[]")
    with pytest.raises(UsageError, match="cannot be read"):
        assert home.settings
    (premises.folder / "aggregator.json").write_text("[]")
    with pytest.raises(UsageError, match="cannot be read"):
        assert premises.settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "a mapping of settings"),
        ("ages: 1", "unknown setting"),
        ("aggregators: []\nkinds: 3", "a list"),
        ("aggregators: [a]", "mapping of names"),
        ("kinds: [diagonal]", "horizontal, vertical"),
        ("least_k: 2", "whole number from 3"),
        ("least_rows: few", "whole number"),
        ("largest_epsilon: much", "amount of budget"),
        ("approve: maybe", "ask or automatic"),
        ("methods: {a: b}", "a list"),
    ],
)
def test_policies_that_cannot_be(tmp_path: Path, text: str, words: str) -> None:
    """A policy is read strictly: what is not understood allows nothing."""
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=words):
        Policy.load(path)


def test_sources(tmp_path: Path) -> None:
    """A key must be an attribute, people have one row, something must be shared."""
    schema = Schema.load(settings(tmp_path).schema)
    with pytest.raises(SchemaError, match="linkage key"):
        OwnerTable(read=lambda: people(5), schema=schema, key=("ssn",))
    twice = dataclasses.replace(schema, unit="id", rows_per_unit=2)
    with pytest.raises(SchemaError, match="one row for each person"):
        OwnerTable(read=lambda: people(5), schema=twice)
    source = OwnerTable(read=lambda: people(5), schema=schema)
    with pytest.raises(SchemaError, match="shares no attribute"):
        source.shared_schema(Policy(aggregators={}))
    everything = Policy(aggregators={}, attributes=None)
    shared = source.shared_schema(everything)
    assert tuple(shared.attributes) == ("age", "income", "colour")
    with pytest.raises(TableError, match="no linkage key"):
        source.load(shared, linked=True)
    loaded = OwnerTable(read=lambda: people(5), schema=schema, key=("id",)).load(
        shared, linked=True
    )
    with pytest.raises(PeerError, match="this owner does not have"):
        loaded.arranged(b"a" * 160, b"b" * 32)


def test_chunks_are_checked() -> None:
    """Chunks and what is put together from them are what their hashes say."""
    data = b"x" * (CHUNK + 5)
    attachment = chunks.describe(data)
    pieces = dict(zip(attachment.chunks, (data[:CHUNK], data[CHUNK:]), strict=True))
    assert chunks.gather(attachment, pieces.__getitem__) == data
    with pytest.raises(PeerError, match="does not match its announcement"):
        chunks.gather(attachment, lambda _: b"")
    with pytest.raises(PeerError, match="larger"):
        chunks.check_chunk(attachment.sha256, data)
    with pytest.raises(PeerError, match="match its hash"):
        chunks.check_chunk("0" * 64, b"x")
    assert chunks.describe(b"").chunks == ()


def answering(status: int, content: bytes) -> Client:
    """A client whose aggregator always answers the same."""
    transport = httpx.MockTransport(lambda _request: httpx.Response(status, content=content))
    return Client(url="https://x", name="north", aggregator="a", key=KEY, transport=transport)


def test_strange_answers() -> None:
    """An aggregator that answers nonsense is refused; one that fails is waited for."""
    for content in (b"", b"[]", b"<html>"):
        with pytest.raises(ConnectionFailedError, match="does not come from an aggregator"):
            inbox(answering(200, content), {})
    for content in (b"{}", b'{"nonce":1}'):
        with pytest.raises(PeerError, match="cannot be understood"):
            inbox(answering(200, content), {})
    for status in (500, 408, 429):
        with pytest.raises(ConnectionFailedError, match="has a problem"):
            inbox(answering(status, b""), {})
    for content in (b'{"nonce":"a","token":"b"}', b'{"nonce":"a","token":"b","head":7}'):
        with pytest.raises(PeerError, match="not valid"):
            inbox(answering(200, content), {})
        with pytest.raises(PeerError, match="not valid"):
            send(answering(200, content), "r1", b"")
    large = b'{"nonce":"a","token":"b"}' + b" " * CHUNK
    with pytest.raises(PeerError, match="larger"):
        answering(200, large).chunk("r1", HASH)
    with pytest.raises(PeerError, match="refuses"):
        answering(404, b"{}").chunk("r1", HASH)


HASH = "0" * 64


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    """Files that are no certificates are said to be so."""
    (tmp_path / "x.pem").write_text("nothing")
    with pytest.raises(UsageError, match="certificates cannot be used"):
        tls_context(tmp_path / "x.pem", None)


def test_journal_that_cannot_be_opened(tmp_path: Path) -> None:
    """A journal that is no database is said to be so."""
    (tmp_path / "journal.db").write_text("not a database, but long enough to look like a file" * 9)
    with pytest.raises(StorageError, match="journal"):
        OwnerJournal(tmp_path / "journal.db")


def test_missing_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is not installed is named with how to install it."""
    parts.require()
    with pytest.raises(MissingPartError, match=r"sherd\[federation\]"):
        parts.require(("no_such_module_at_all",))


def test_failpoints_are_silent_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable, and for another place, nothing happens."""
    monkeypatch.delenv("SHERD_FAILPOINT", raising=False)
    failpoints.reach("owner.charged")
    monkeypatch.setenv("SHERD_FAILPOINT", "owner.sent:100")
    failpoints.reach("owner.charged")
    failpoints.reach("owner.sent")


def test_logs_hold_known_fields_only() -> None:
    """What libraries say is not quoted; our own records show a few fields."""
    import logging

    record = logging.LogRecord("uvicorn.error", 30, "", 1, "SECRET %s", ("x",), None)
    assert "SECRET" not in JsonLines().format(record)
    ours = logging.LogRecord("sherd.aggregator", 20, "", 1, "request", (), None)
    ours.path, ours.secret = "/v1", "SECRET"
    line = json.loads(JsonLines().format(ours))
    assert (line["event"], line["path"]) == ("request", "/v1")
    assert "SECRET" not in json.dumps(line)


def test_demonstration_does_not_overwrite(tmp_path: Path) -> None:
    """A folder that is not a demonstration's is left alone."""
    (tmp_path / "mine").write_text("")
    with pytest.raises(UsageError, match="not a demonstration's"):
        _clear(tmp_path)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("linkage", list(Linkage))
def test_collusion_table_says_who_learns_what(kind: Kind, linkage: Linkage) -> None:
    """Every coalition has its line; the low-assurance linkage is named where it is used."""
    if kind.joins and linkage is Linkage.NONE:
        return
    terms = Terms(
        round="r",
        aggregator="a",
        kind=kind,
        owners=("x", "y"),
        method="dp",
        epsilon="1",
        linkage=linkage,
        deadline=1,
    )
    table = collusion_table(terms)
    assert set(table) == {
        "analyst",
        "one owner",
        "the aggregator",
        "one owner with the aggregator",
        "two owners",
    }
    low = any("low assurance" in line for lines in table.values() for line in lines)
    assert low == (linkage is Linkage.HMAC)


def test_secrets_are_not_overwritten(tmp_path: Path) -> None:
    """A secret file that is there stays as it is."""
    write_secret(tmp_path / "s", b"1")
    with pytest.raises(StorageError):
        write_secret(tmp_path / "s", b"2")
    assert (tmp_path / "s").read_bytes() == b"1"


def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner dials through the proxy its environment names, but not to excepted hosts."""
    from sherd.federation.wire.client import proxy_for

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert proxy_for("https://registry.test:8443") is None
    monkeypatch.setenv("https_proxy", "proxy.test:3128")
    monkeypatch.setenv("no_proxy", "inside.test")
    assert proxy_for("https://registry.test:8443") == "http://proxy.test:3128"
    assert proxy_for("https://inside.test") is None
    assert proxy_for("http://registry.test") is None
    monkeypatch.setenv("all_proxy", "http://other.test")
    assert proxy_for("http://registry.test") == "http://other.test"
