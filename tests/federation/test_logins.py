"""People log in by an OpenID provider; nobody else does, and tokens of machines stay."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from click.testing import CliRunner
from openid import LocalProvider
from processes import Village, add_owners
from studio_process import entered as entered_studio

from sherd.cli import cli
from sherd.errors import PeerError, UsageError
from sherd.federation.aggregator.login_routes import LOGIN_SECONDS
from sherd.federation.aggregator.storage.statements import person_text
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.wire import browser_login
from sherd.federation.wire.openid_provider import Provider

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from consortium import Consortium


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    """A provider on this machine."""
    made = LocalProvider()
    yield made
    made.close()


@pytest.fixture
def registry(consortium: Consortium, provider: LocalProvider) -> Consortium:
    """An aggregator at which people log in, with an analyst and an operator."""
    consortium.aggregator.provider = Provider(provider.issuer, provider.client)
    for name, role, person in (
        ("ann", "analyst", "sub:u-1"), ("olga", "operator", "email:olga@example.org"),
    ):  # fmt: skip
        text = person_text(provider.issuer, person)
        consortium.store.add_member(name, role, person=text, now=0)
    consortium.time = time.time()
    return consortium


def asked(registry: Consortium, method: str, path: str, **options: Any) -> httpx.Response:
    """A request of somebody without a session."""
    with httpx.Client(base_url="https://registry.test", transport=_Kept(registry)) as line:
        return line.request(method, path, **options)


class _Kept(httpx.BaseTransport):
    def __init__(self, registry: Consortium) -> None:
        self._inner = registry.transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._inner.handle_request(request)


def nonce_of(registry: Consortium) -> str:
    """A fresh number of the aggregator."""
    told = asked(registry, "GET", "/v1/login").json()
    assert told["client_id"] == "sherd-aggregator"
    return str(told["nonce"])


def entered(registry: Consortium, token: str, nonce: str) -> httpx.Response:
    """What the aggregator says to a token."""
    return asked(registry, "POST", "/v1/login", json={"id_token": token, "nonce": nonce})


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_somebody_who_is_known_gets_a_session(
    registry: Consortium, provider: LocalProvider, algorithm: str
) -> None:
    """A session with the role that the aggregator gave, which ends and is in the audit log."""
    nonce = nonce_of(registry)
    told = entered(registry, provider.signed(provider.claims(nonce), algorithm), nonce).json()
    assert (told["name"], told["role"]) == ("ann", "analyst")
    headers = {"Authorization": f"Bearer {told['token']}"}
    assert asked(registry, "GET", "/v1/rounds", headers=headers).status_code == 200
    assert asked(registry, "GET", "/v1/metrics", headers=headers).status_code == 403
    registry.time += 3601
    assert asked(registry, "GET", "/v1/rounds", headers=headers).status_code == 401


def test_an_address_counts_once_the_provider_has_verified_it(
    registry: Consortium, provider: LocalProvider
) -> None:
    """Whoever writes somebody else's address into a profile is nobody."""
    for verified, status in ((True, 200), (False, 403), ("true", 403), (None, 403)):
        provider.person = {"sub": "u-9", "email": "Olga@example.org", "email_verified": verified}
        nonce = nonce_of(registry)
        answer = entered(registry, provider.signed(provider.claims(nonce)), nonce)
        assert answer.status_code == status, verified


WRONG: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://elsewhere.example"},
    "another client": {"aud": "somebody-else"},
    "several clients": {"aud": ["sherd-aggregator", "other"], "azp": "other"},
    "several, none named": {"aud": ["sherd-aggregator", "other"]},
    "expired": {"exp": 1_000_000_000},
    "not yet": {"iat": 4_000_000_000},
    "no end": {"exp": "never"},
    "true is no time": {"exp": True},
    "another number": {"nonce": "0"},
    "no number": {"nonce": None},
    "a stranger": {"sub": "u-2"},
    "nobody": {"sub": ""},
    "no text": {"sub": 7},
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_claims_are_refused(registry: Consortium, provider: LocalProvider, what: str) -> None:
    """Signed by the provider, and yet not its word to us about somebody we know."""
    provider.changes = WRONG[what]
    nonce = nonce_of(registry)
    answer = entered(registry, provider.signed(provider.claims(nonce)), nonce)
    assert answer.status_code == 403
    assert "u-2" not in answer.text


def test_forged_tokens_are_refused(registry: Consortium, provider: LocalProvider) -> None:
    """No algorithm, a public key as a secret, a key of another kind, a changed or cut token."""
    nonce = nonce_of(registry)
    claims = provider.claims(nonce)
    good = provider.signed(claims)
    head, body, signature = good.split(".")
    other = LocalProvider()
    try:
        forged = [
            provider.signed(claims, "none"),
            provider.signed(claims, "HS256"),
            provider.signed(claims, "RS256", kid="ec-1"),
            provider.signed(claims, "ES256", kid="rsa-1"),
            provider.signed(claims, "RS256", kid="shared"),
            other.signed(claims),
            f"{head}.{body}.",
            f"{head}.{body}",
            f"{head}.{other.signed({**claims, 'sub': 'u-3'}).split('.')[1]}.{signature}",
            f"{good}.{signature}",
            "..",
            "",
        ]
        for token in forged:
            assert entered(registry, token, nonce).status_code in (400, 403), token[:60]
    finally:
        other.close()
    assert entered(registry, good, nonce).status_code == 200


def test_a_login_is_used_once_and_in_time(registry: Consortium, provider: LocalProvider) -> None:
    """A token that was seen on its way, a number of our own, an old one: all refused."""
    nonce = nonce_of(registry)
    token = provider.signed(provider.claims(nonce))
    assert entered(registry, token, nonce).status_code == 200
    assert entered(registry, token, nonce).status_code == 403
    made_up = "9999999999-" + "0" * 32 + "-" + "0" * 128
    assert entered(registry, provider.signed(provider.claims(made_up)), made_up).status_code == 403
    late = nonce_of(registry)
    registry.time += LOGIN_SECONDS + 1
    assert entered(registry, provider.signed(provider.claims(late)), late).status_code == 403


def test_keys_are_renewed_and_asked_for_seldom(
    registry: Consortium, provider: LocalProvider
) -> None:
    """A key that the provider takes up is found; unknown ones do not make us ask each time."""
    now = time.time()
    source = Provider(provider.issuer, provider.client, clock=lambda: now)
    registry.aggregator.provider = source
    nonce = nonce_of(registry)
    assert entered(registry, provider.signed(provider.claims(nonce)), nonce).status_code == 200
    provider.names["rsa"] = "rsa-2"
    for _ in range(5):
        nonce = nonce_of(registry)
        assert entered(registry, provider.signed(provider.claims(nonce)), nonce).status_code == 403
    assert provider.asked.count("/keys") == 1
    now += 31
    assert entered(registry, provider.signed(provider.claims(nonce)), nonce).status_code == 200
    assert provider.asked.count("/keys") == 2


def test_without_a_provider_nobody_logs_in(consortium: Consortium) -> None:
    """The routes say so."""
    assert asked(consortium, "GET", "/v1/login").status_code == 404
    assert entered(consortium, "a.b.c", "0").status_code == 404


@pytest.mark.parametrize(
    "address",
    ["http://provider.example", "ftp://x", "https://u@p", "x", "https://p[t", "https://p:x"],
)
def test_a_provider_is_reached_safely(address: str) -> None:
    """Not over a line on which tokens could be read."""
    with pytest.raises(UsageError, match="address of the provider"):
        Provider(address, "sherd")


def test_a_provider_that_says_it_is_another(provider: LocalProvider) -> None:
    """Is none."""
    asked_for = Provider(provider.issuer.replace("127.0.0.1", "localhost"), provider.client)
    with pytest.raises(PeerError, match="another issuer"):
        asked_for.endpoint("jwks_uri")


def run(*command: str) -> Any:
    """The command line's JSON."""
    result = CliRunner().invoke(cli, list(command), catch_exceptions=False)
    assert result.exit_code in (0, None), result.output
    return result


def test_people_work_by_the_commands(
    village: Village, provider: LocalProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator logs in with a browser, opens and ends a round; the log says who it was."""
    home = str(village.premises.folder)
    run("aggregator", "provider", "--home", home, "--issuer", provider.issuer, "--client-id",
        provider.client)  # fmt: skip
    run("aggregator", "enrol", "--home", home, "--operator", "olga", "--person", "sub:u-1")
    add_owners(village, Kind.HORIZONTAL)
    village.start("aggregator")
    authority, token = str(village.premises.authority), str(tmp_path / "token")

    monkeypatch.setattr("webbrowser.open", _browse)
    there = ("--url", village.url, "--authority", authority)
    said = json.loads(run("login", *there, "-o", token, "--json").stdout)
    assert (said["name"], said["role"]) == ("olga", "operator")
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    remote = (*there, "--token-file", token)
    run("aggregator", "round", "open", "r1", "--kind", "horizontal", "--owner", "north", "--owner",
        "south", "-m", "dp-um", "-e", "1", "-k", "3", *remote)  # fmt: skip
    assert village.round("r1").terms.owners == ("north", "south")
    run("aggregator", "round", "abort", "r1", *remote)
    lines = run("aggregator", "audit", "--home", home).stdout
    for event in ("logged in", "round opened", "round stopped"):
        assert event in lines
    assert lines.count("olga") >= 3
    # Whoever is let in without being an operator does not get into the studio.
    run("aggregator", "enrol", "--home", home, "--analyst", "ann", "--person", "sub:u-2")
    provider.person = {"sub": "u-2"}
    refused = CliRunner().invoke(cli, ["studio", "--aggregator", home])
    assert "only operators" in str(refused.exception)
    # An analyst who logs in is told what it may not do, and a stranger that it is one.
    run("login", *there, "-o", str(tmp_path / "ann"), "--json")
    words = ["aggregator", "round", "abort", "r1", *there, "--token-file", str(tmp_path / "ann")]
    refused = CliRunner().invoke(cli, words)
    assert "this is not for your role" in str(refused.exception)
    provider.person = {"sub": "u-3"}
    refused = CliRunner().invoke(cli, ["login", *there, "-o", str(tmp_path / "nobody")])
    assert "does not let this person in" in str(refused.exception)
    assert not (tmp_path / "nobody").exists()


def test_the_studio_of_a_person(
    village: Village, provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an operator does in the studio is logged by name, and ends with the login."""
    home = str(village.premises.folder)
    run("aggregator", "provider", "--home", home, "--issuer", provider.issuer, "--client-id",
        provider.client)  # fmt: skip
    run("aggregator", "enrol", "--home", home, "--operator", "olga", "--person", "sub:u-1")
    add_owners(village, Kind.HORIZONTAL)
    village.start("aggregator")
    monkeypatch.setattr("webbrowser.open", _browse)
    opened: list[Any] = []
    monkeypatch.setattr("sherd.cli.studio.serve", lambda studio, **_: opened.append(studio))
    assert "logged in as 'olga'" in run("studio", "--aggregator", home).output
    ((app, most, close),) = opened
    village.open_round("r1")
    with entered_studio(app, most) as olga:
        assert "r1" in olga.get("/").text
        assert olga.post("/round/r1/abort").status_code == 200
        assert olga.post("/members/revoke", {"name": "south"}).status_code == 200
        lines = json.loads("[" + ",".join(olga.get("/audit-log.jsonl").text.splitlines()) + "]")
        done = {line["event"]: line["actor"] for line in lines if "event" in line}
        assert done["round stopped"] == "olga"
        assert done["member removed"] == "olga"
        run("aggregator", "enrol", "--home", home, "--remove", "olga")
        for answer in (olga.get("/"), olga.get("/audit-log.jsonl"), olga.post("/members/revoke")):
            assert answer.status_code == 403
            assert "login has ended" in answer.text
        assert village.premises.aggregator().store.member("north") is not None
    close()


def _browse(address: str, *_: object) -> bool:
    """A browser whose user is logged in at the provider."""
    threading.Thread(
        target=lambda: httpx.get(address, follow_redirects=True, trust_env=False), daemon=True
    ).start()
    return True


def test_a_browser_that_comes_from_elsewhere(provider: LocalProvider) -> None:
    """Another state, another issuer, or no code: no token is asked for."""
    source = Provider(provider.issuer, provider.client)
    for brought in ({"state": "x", "code": "c"}, {"code": "c", "iss": "https://e"}, {}):

        def show(address: str, brought: dict[str, str] = brought) -> None:
            query = httpx.URL(address).params
            back = {"state": query["state"], **brought}
            httpx.get(query["redirect_uri"], params=back, trust_env=False)

        with pytest.raises(PeerError):
            browser_login._id_token(source, "n", show, 5.0)
    assert "/token" not in provider.asked
