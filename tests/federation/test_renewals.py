"""Certificates are renewed before they end: by command, by themselves, only by the right one."""

from __future__ import annotations

import datetime
import json
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from people import SCHEMA
from processes import Village, add_owners, wait_until

from sherd.errors import PeerError, SherdError, UsageError
from sherd.federation.aggregator.aggregator_home import AggregatorHome, AggregatorSettings
from sherd.federation.owner.agent_duties import DAY, Renewer, renew
from sherd.federation.owner.owner_home import OwnerHome, OwnerSettings
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.wire import certificates
from sherd.federation.wire.enrolment import parse_answer, read_request

if TYPE_CHECKING:
    from pathlib import Path

SOON = datetime.timedelta(days=20)


@pytest.fixture
def registry(tmp_path: Path) -> AggregatorHome:
    """An aggregator."""
    settings = AggregatorSettings(name="registry", url="https://127.0.0.1:1")
    return AggregatorHome.make(tmp_path / "registry", settings, ["127.0.0.1", "registry.test"])


@pytest.fixture
def north(registry: AggregatorHome, tmp_path: Path) -> OwnerHome:
    """An owner that is enrolled with it."""
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    settings = OwnerSettings(
        name="north", source="t.csv", schema=str(tmp_path / "schema.yaml"), population="p"
    )
    home = OwnerHome.make(tmp_path / "north", settings)
    home.join(parse_answer(registry.enrol(read_request(home.folder / "request.json"), now=0)))
    return home


class Line:
    """A line to an aggregator in the same process, which may be a rogue."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.contexts = answer, list[ssl.SSLContext]()

    def next_certificate(self, csr: bytes) -> bytes:
        """What the aggregator answers."""
        found: bytes = self.answer(csr)
        return found

    def reconnect(self, context: ssl.SSLContext) -> None:
        """The context that is used from now on."""
        self.contexts.append(context)


def end_soon(registry: AggregatorHome, home: OwnerHome) -> None:
    """Give an owner a certificate that ends within the days of warning."""
    csr = certificates.request(home.settings.name, home.channel_key.read_bytes())
    made = certificates.issue_client(registry._authority(), csr, home.settings.name, life=SOON)
    home.certificate.write_bytes(made)


def test_an_owner_renews_once_when_it_is_due(registry: AggregatorHome, north: OwnerHome) -> None:
    """Not before, by a new key, and the old certificate stays good meanwhile."""
    line: Any = Line(lambda csr: registry.certify("north", north.key.public, csr.decode()))
    said: list[tuple[str, str]] = []
    now = [0.0]
    renewer = Renewer(north, line, clock=lambda: now[0])
    renewer.try_renewing(lambda *words: said.append(words))
    assert (said, line.contexts) == ([], [])
    end_soon(registry, north)
    old = north.channel
    renewer.try_renewing(lambda *words: said.append(words))
    assert not line.contexts, "one look a day"
    now[0] += DAY
    renewer.try_renewing(lambda *words: said.append(words))
    assert said == [("renewed the certificate", "the old one is good for 19 more days")]
    assert len(line.contexts) == 1
    made = north.channel[0]
    assert made.stat().st_mode & 0o077 == 0
    assert certificates.days_left(made.read_bytes()) > 300
    assert certificates.days_left(old[0].read_bytes()) == 19
    assert old[1].read_bytes() not in made.read_bytes(), "the key is new"
    now[0] += DAY
    renewer.try_renewing(lambda *words: said.append(words))
    assert len(line.contexts) == 1


def test_only_the_right_certificate_is_taken(
    registry: AggregatorHome, north: OwnerHome, tmp_path: Path
) -> None:
    """Another owner's, another key's, another aggregator's or a changed answer is refused."""
    settings = AggregatorSettings(name="registry", url="https://127.0.0.1:1")
    other = AggregatorHome.make(tmp_path / "other", settings, ["127.0.0.1"])
    own = north.key.public

    def changed(csr: bytes) -> bytes:
        data = json.loads(registry.certify("north", own, csr.decode()))
        data["authority"] = other.authority.read_text()
        return json.dumps(data).encode()

    stolen = certificates.request("north", certificates.new_key()).decode()
    before = north.authority.read_bytes()
    for answer in (
        lambda csr: registry.certify("south", own, csr.decode()),
        lambda csr: registry.certify("north", other.key.public, csr.decode()),
        lambda csr: other.certify("north", own, csr.decode()),
        lambda _csr: registry.certify("north", own, stolen),
        changed,
        lambda _csr: b"{}",
        lambda _csr: b"\xff" * 100_000,
    ):
        line: Any = Line(answer)
        with pytest.raises(SherdError):
            renew(north, line)
        assert not line.contexts
    assert north.channel[0] == north.certificate
    assert north.authority.read_bytes() == before


def test_a_request_that_is_none_is_refused(registry: AggregatorHome) -> None:
    """And without the authority's key nothing is issued."""
    with pytest.raises(PeerError):
        registry.certify("north", "00" * 32, "no request")
    (registry.folder / "authority-key.pem").unlink()
    with pytest.raises(UsageError, match="authority's key"):
        registry.certify("north", "00" * 32, "-")


def test_the_service_renews_its_own(registry: AggregatorHome) -> None:
    """For the same hosts, by a new key, where it ends soon."""
    assert not registry.renew_if_due()
    key = registry.channel_key.read_bytes()
    short = certificates.issue_server(registry._authority(), key, ["127.0.0.1", "a.b"], life=SOON)
    registry.certificate.write_bytes(short)
    assert registry.renew_if_due()
    assert not registry.renew_if_due()
    made = registry.channel[0].read_bytes()
    assert certificates.hosts_of(made) == ["127.0.0.1", "a.b"]
    assert certificates.days_left(made) > 300


def test_real_processes_renew_by_themselves(village: Village) -> None:
    """Service and owner start with certificates that end soon, and release under new ones."""
    add_owners(village, Kind.HORIZONTAL, 40)
    registry, north = village.premises, village.homes["north"]
    key = registry.channel_key.read_bytes()
    short = certificates.issue_server(registry._authority(), key, ["127.0.0.1"], life=SOON)
    registry.certificate.write_bytes(short)
    end_soon(registry, north)
    village.start_all()
    village.open_round()
    village.check_released()
    wait_until(lambda: north.channel[0] != north.certificate, "the owner has renewed")
    assert certificates.days_left(registry.channel[0].read_bytes()) > 300

    def shown() -> bool:
        place = ("127.0.0.1", village.port)
        pem = ssl.get_server_certificate(place, ca_certs=str(registry.authority))
        return certificates.days_left(pem.encode()) > 300

    wait_until(shown, "the running service shows its new certificate")
