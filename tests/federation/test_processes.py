"""Real processes with mutual TLS: databases, certificates, and what is left behind."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import httpx
import pytest
import trustme
from driving import inbox
from people import PARTS, part, people
from processes import Village, add_owners, make_database

from sherd.errors import ConnectionFailedError
from sherd.federation.owner.owner_home import SETTINGS
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.wire import certificates
from sherd.federation.wire.client import Client, tls_context
from sherd.federation.wire.settings_file import write_settings

if TYPE_CHECKING:
    from pathlib import Path


def test_postgresql_source_and_database(quick_path: Path, postgresql: str) -> None:
    """An aggregator on PostgreSQL and an owner whose table is a PostgreSQL query."""
    import psycopg

    database = make_database(postgresql, "sherd_village")
    table = people(30)
    with psycopg.connect(database) as direct, direct.cursor() as cursor:
        cursor.execute("CREATE TABLE people (id text, age int, income float8, colour text)")
        for row in table.to_pylist():
            cursor.execute(
                "INSERT INTO people VALUES (%(id)s, %(age)s, %(income)s, %(colour)s)", row
            )
    village = Village(quick_path, database)
    try:
        add_owners(village, Kind.HORIZONTAL)
        north = village.homes["north"]
        import dataclasses

        settings = dataclasses.replace(
            north.settings, source=database, query="SELECT id, age, income, colour FROM people"
        )
        write_settings(north.folder / SETTINGS, settings)
        village.start_all()
        village.open_round()
        village.check_released()
        assert village.round().deliveries["north"].rows == 30
        password = database.split(":")[2].split("@")[0].encode()
        for log in village.logs:
            assert password not in log.read_bytes()
    finally:
        village.close()


def test_certificates(village: Village, tmp_path: Path) -> None:
    """Wrong, expired and missing certificates, and another owner's, are refused."""
    add_owners(village, Kind.HORIZONTAL)
    village.start("aggregator")
    north, south = village.homes["north"], village.homes["south"]
    own = (north.certificate, north.channel_key)

    def client(
        authority: Path, certificate: tuple[Path, Path] | None, name: str = "north"
    ) -> Client:
        return Client(
            url=village.url,
            name=name,
            aggregator="registry",
            key=village.homes[name].key,
            context=tls_context(authority, certificate),
        )

    good = client(north.authority, own)
    assert inbox(good, {}) == []
    good.close()
    authority = trustme.CA()
    foreign = authority.issue_cert("north")
    foreign.cert_chain_pems[0].write_to_path(str(tmp_path / "foreign.pem"))
    foreign.private_key_pem.write_to_path(str(tmp_path / "foreign-key.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "foreign-ca.pem"))
    import datetime

    ca = (
        (village.premises.folder / "authority-key.pem").read_bytes(),
        village.premises.authority.read_bytes(),
    )
    csr = certificates.request("north", north.channel_key.read_bytes())
    past = datetime.timedelta(hours=-1)
    (tmp_path / "expired.pem").write_bytes(certificates.issue_client(ca, csr, "north", life=past))
    wrong = {
        "of another authority": (tmp_path / "foreign.pem", tmp_path / "foreign-key.pem"),
        "expired": (tmp_path / "expired.pem", north.channel_key),
        "none": None,
        "another owner's": (south.certificate, south.channel_key),
    }
    for what, certificate in wrong.items():
        refused = client(north.authority, certificate)
        with pytest.raises(ConnectionFailedError):
            inbox(refused, {})
        refused.close()
        assert what
    # The aggregator's own certificate must be of the authority the owner trusts.
    stranger = client(tmp_path / "foreign-ca.pem", own)
    with pytest.raises(ConnectionFailedError, match="cannot be reached"):
        inbox(stranger, {})
    stranger.close()
    context = ssl.create_default_context(cafile=str(north.authority))
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    with httpx.Client(verify=context, trust_env=False) as plain:
        assert plain.get(f"{village.url}/v1/health").is_success
        assert plain.get(f"{village.url}/v1/rounds").status_code == 401


def test_nothing_raw_in_logs_wire_or_service(village: Village) -> None:
    """Planted values and identifiers are in no log, no message, no chunk and no release."""
    marker, number = "MARKER-7f3a91", 987.31
    tables = {}
    for name in ("north", "south"):
        table = part(name, 20)
        ids = [f"{marker}-{i}" for i in range(20)]
        table = table.set_column(0, "id", [ids])
        if name == "north":
            incomes = table.column("income").to_pylist()
            incomes[5] = number
            table = table.set_column(2, "income", [incomes])
        tables[name] = table
        village.add_owner(name, table, PARTS[name], key="id")
    village.start_all()
    village.open_round(kind=Kind.VERTICAL)
    village.check_released()
    village.close()
    seen = [path for path in village.premises.folder.rglob("*") if path.is_file()]
    seen += village.logs
    seen += [home.journal for home in village.homes.values()]
    for path in seen:
        content = path.read_bytes()
        assert marker.encode() not in content, path
        assert str(number).encode() not in content, path
    store = village.premises.store()
    with store.engine.connect() as connection:
        from sqlalchemy import text

        for (raw,) in connection.execute(text("SELECT raw FROM messages")):
            assert marker.encode() not in bytes(raw)
            assert str(number).encode() not in bytes(raw)
    store.close()
