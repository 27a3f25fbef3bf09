"""Backups of both sides, restored in the middle of rounds; databases of an earlier version."""

from __future__ import annotations

import dataclasses
import io
import shutil
import sqlite3
import tarfile
from pathlib import Path

import pytest
from alembic import command
from click.testing import CliRunner
from consortium import AppTransport, Consortium
from deliveries import round_of
from driving import step
from people import SCHEMA, people
from processes import make_database
from sqlalchemy import MetaData, create_engine, insert, text

import sherd
from sherd.cli import run
from sherd.errors import FormatError, OutputExistsError, StorageError, UsageError
from sherd.federation.aggregator.aggregator_home import (
    AggregatorHome,
    AggregatorSettings,
    back_up_aggregator,
    restore_aggregator,
)
from sherd.federation.aggregator.api import make_app
from sherd.federation.aggregator.round_work import Aggregator
from sherd.federation.aggregator.storage import Store
from sherd.federation.aggregator.storage import database as database_of
from sherd.federation.owner.owner_home import OwnerHome
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.owner.recovery import back_up_owner, recover, restore_owner
from sherd.federation.protocol.audit_chain import verify_lines
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.federation.wire.backup_archive import read_backup, write_backup
from sherd.signing_keys import SigningKey

RECORDED = Path(__file__).parents[1] / "recorded" / "federation-0.1.tar.gz"


@pytest.fixture
def database() -> str | None:
    """Where the aggregator keeps its rounds, if not in its folder."""
    return None


@pytest.fixture
def registry(consortium: Consortium, quick_path: Path, database: str | None) -> AggregatorHome:
    """The consortium's aggregator in a folder of its own, and two owners."""
    settings = AggregatorSettings(name="registry", url="https://registry.test", database=database)
    home = AggregatorHome.make(quick_path / "registry", settings, ["registry.test"])
    serve(consortium, home)
    for number, name in enumerate(("north", "south")):
        table = people(12, seed=number, first=number * 100)
        consortium.add_owner(name, table, SCHEMA, key_column="id")
    return home


def serve(consortium: Consortium, home: AggregatorHome) -> None:
    """Let the consortium's aggregator be the one of a folder, and its owners call that."""
    consortium.transport.stop()
    consortium.store.close()
    consortium.key, consortium.store = home.key, home.store()
    consortium.aggregator = Aggregator(
        name="registry",
        key=home.key,
        store=consortium.store,
        releases=home.releases,
        clock=lambda: consortium.time,
    )
    consortium.transport = AppTransport(make_app(consortium.aggregator, worker=False))
    for name in list(consortium.agents):
        consortium.start(name)


def steps(consortium: Consortium, turns: int) -> None:
    """Let the owners take turns, and the aggregator work."""
    for _ in range(turns):
        for agent in consortium.agents.values():
            step(agent)
        consortium.aggregator.work()


def again(consortium: Consortium, backup: Path, place: str = "again") -> AggregatorHome:
    """Restore a backup of the aggregator and put it to work."""
    home = restore_aggregator(backup, consortium.folder / place)
    serve(consortium, home)
    return home


def spent(consortium: Consortium) -> set[str]:
    """What the owners have spent."""
    return {
        str(agent.ledger.account(f"people of {name}").spent)
        for name, agent in consortium.agents.items()
    }


# the aggregator's half


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_rounds_go_on_after_a_restore(
    consortium: Consortium, registry: AggregatorHome, turns: int
) -> None:
    """Where nothing happened since the backup, the restored aggregator ends the same round."""
    consortium.aggregator.open_round(consortium.terms())
    steps(consortium, turns)
    home = again(consortium, back_up_aggregator(registry, consortium.folder / "b.tar"))
    consortium.settle()
    assert round_of(consortium).state is RoundState.RELEASED
    assert not sherd.verify(home.releases / "r1").failed
    assert spent(consortium) == {"1"}


class TestPostgresql:
    """The same where the rounds are in PostgreSQL, and moved to or from it."""

    @pytest.fixture
    def database(self, postgresql: str, quick_path: Path) -> str:
        """A new database."""
        return make_database(postgresql, f"first_{quick_path.name.lower().replace('-', '_')}")

    @pytest.mark.parametrize("target", ["postgresql", "file"])
    def test_a_round_goes_on_in_another_database(
        self,
        consortium: Consortium,
        registry: AggregatorHome,
        database: str,
        postgresql: str,
        target: str,
    ) -> None:
        """Backed up in the middle of a round; what was sent since then is sent again."""
        consortium.aggregator.open_round(consortium.terms())
        steps(consortium, 2)
        backup = back_up_aggregator(registry, consortium.folder / "b.tar")
        for agent in consortium.agents.values():
            step(agent)
        to = None
        if target == "postgresql":
            with pytest.raises(UsageError, match="already holds"):
                restore_aggregator(backup, consortium.folder / "no", database=database)
            to = make_database(postgresql, database.rpartition("/")[2].replace("first", "second"))
        home = restore_aggregator(backup, consortium.folder / "again", database=to)
        assert home.settings.database == to
        assert (home.folder / "aggregator.db").exists() is (to is None)
        serve(consortium, home)
        assert consortium.store.engine.dialect.name == ("sqlite" if to is None else target)
        consortium.settle()
        assert round_of(consortium).state is RoundState.RELEASED
        assert not sherd.verify(home.releases / "r1").failed
        assert spent(consortium) == {"1"}


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_what_was_sent_since_is_sent_again(
    consortium: Consortium, registry: AggregatorHome, turns: int
) -> None:
    """Messages that the restored aggregator lacks come again, and the round is released."""
    consortium.aggregator.open_round(consortium.terms())
    steps(consortium, turns)
    backup = back_up_aggregator(registry, consortium.folder / "b.tar")
    for agent in consortium.agents.values():
        step(agent)
    again(consortium, backup)
    consortium.settle()
    assert round_of(consortium).state is RoundState.RELEASED
    assert spent(consortium) == {"1"}
    consortium.settle()
    assert consortium.ended()


@pytest.mark.parametrize("turns", [0, 1])
def test_rounds_that_went_on_end_with_a_reason(
    consortium: Consortium, registry: AggregatorHome, turns: int
) -> None:
    """Owners have seen more than the restored aggregator: the round ends, and theirs with it."""
    consortium.aggregator.open_round(consortium.terms())
    steps(consortium, turns)
    backup = back_up_aggregator(registry, consortium.folder / "b.tar")
    steps(consortium, 3)
    again(consortium, backup)
    consortium.settle()
    data = round_of(consortium)
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.RESTORED)
    consortium.time += 3600 + 601
    consortium.settle()
    assert consortium.ended()
    lost = {"spent, nothing released"} if spent(consortium) == {"1"} else set()
    for agent in consortium.agents.values():
        assert lost <= {line[2] for line in agent.journal.audit()}


def test_a_round_that_the_restored_aggregator_never_knew(
    consortium: Consortium, registry: AggregatorHome
) -> None:
    """Owners that paid for it ask after its deadline, say what is lost, and wait no longer."""
    backup = back_up_aggregator(registry, consortium.folder / "b.tar")
    consortium.aggregator.open_round(consortium.terms())
    for _ in range(4):
        for agent in consortium.agents.values():
            step(agent)  # delivered, and nobody assembles
    again(consortium, backup)
    consortium.settle()
    north = consortium.agents["north"]
    data = north.journal.round("r1")
    assert data is not None
    assert data.state is OwnerState.DELIVERED
    consortium.time += 3600 + 601
    consortium.settle()
    data = north.journal.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (OwnerState.CLOSED, Reason.RESTORED)
    assert "spent, nothing released" in {line[2] for line in north.journal.audit()}
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    assert round_of(consortium, "r2").state is RoundState.RELEASED


def test_a_release_is_never_orphaned(
    consortium: Consortium, registry: AggregatorHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published, and the aggregator died before it wrote that down: the restored one finds it."""
    from sherd.federation.aggregator import round_tasks

    class Died(BaseException):
        """Stands for a kill."""

    def die(place: str) -> None:
        if place == "aggregator.published":
            raise Died

    consortium.aggregator.open_round(consortium.terms())
    with monkeypatch.context() as patch:
        patch.setattr(round_tasks, "reach", die)
        with pytest.raises(Died):
            steps(consortium, 6)
    published = (registry.releases / "r1" / "manifest.json").read_bytes()
    assert round_of(consortium).state is RoundState.ASSEMBLING
    home = again(consortium, back_up_aggregator(registry, consortium.folder / "b.tar"))
    consortium.settle()
    assert round_of(consortium).state is RoundState.RELEASED
    assert (home.releases / "r1" / "manifest.json").read_bytes() == published
    for owner in consortium.homes.values():
        assert not sherd.verify(owner.releases / "r1").failed


# the owner's half


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 8])
def test_an_owner_is_led_back(consortium: Consortium, registry: AggregatorHome, turns: int) -> None:
    """It does not run before it is led back, and has then spent what it may have spent, once."""
    del registry
    consortium.aggregator.open_round(consortium.terms())
    steps(consortium, turns)
    backup = back_up_owner(consortium.homes["north"], consortium.folder / "north.tar")
    steps(consortium, 8)
    assert round_of(consortium).state is RoundState.RELEASED
    consortium.agents["north"].journal.close()
    home = restore_owner(backup, consortium.folder / "north-again")
    consortium.homes["north"] = home
    with pytest.raises(UsageError, match="sherd owner recover"):
        consortium.start("north")
    from sherd.budget.ledger import Ledger

    journal = OwnerJournal(home.journal)
    recover(home, consortium.client("north"), Ledger(home.ledger), journal)
    journal.close()
    consortium.start("north")
    consortium.settle()
    assert spent(consortium) == {"1"}
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    assert round_of(consortium, "r2").state is RoundState.RELEASED
    assert spent(consortium) == {"2"}
    assert home.seed == (consortium.folder / "north" / "seed").read_bytes()


# the file itself


def archive(folder: Path, name: str = "b.tar") -> Path:
    """A small backup."""
    folder.mkdir(exist_ok=True)
    (folder / "key.pem").write_bytes(b"secret" * 1000)
    files = [("key.pem", folder / "key.pem"), ("deep/key.pem", folder / "key.pem")]
    return write_backup(folder / name, kind="owner", name="north", files=files)


def test_backups_are_private_and_come_back_the_same(tmp_path: Path) -> None:
    """Only their user may read them; nothing is overwritten."""
    backup = archive(tmp_path)
    assert backup.stat().st_mode & 0o077 == 0
    read_backup(backup, tmp_path / "again", kind="owner")
    assert (tmp_path / "again/deep/key.pem").read_bytes() == b"secret" * 1000
    assert (tmp_path / "again/key.pem").stat().st_mode & 0o077 == 0
    for broken in (
        lambda: archive(tmp_path),
        lambda: read_backup(backup, tmp_path / "again", kind="owner"),
    ):
        with pytest.raises(OutputExistsError):
            broken()
    with pytest.raises(FormatError, match="another kind"):
        read_backup(backup, tmp_path / "other", kind="aggregator")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "b.tar", "key.pem"]


def add(archived: bytes, entry: tarfile.TarInfo, data: bytes = b"") -> bytes:
    """An archive with one more member before all others."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        entry.size = len(data)
        made.addfile(entry, io.BytesIO(data))
        with tarfile.open(fileobj=io.BytesIO(archived)) as old:
            for each in old:
                made.addfile(each, old.extractfile(each))
    return out.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    """A link."""
    found = tarfile.TarInfo(name)
    found.type, found.linkname = tarfile.SYMTYPE, target
    return found


def test_what_is_no_whole_backup_is_refused(tmp_path: Path) -> None:
    """A changed byte, an end cut off, links, names that lead out: nothing of it is kept."""
    good = archive(tmp_path).read_bytes()
    flipped = bytearray(good)
    flipped[700] ^= 1
    unlisted = add(good, tarfile.TarInfo("more"), b"x")
    outside = add(good, tarfile.TarInfo("../outside"), b"x")
    wrong = [bytes(flipped), good[:2000], good[:-1024][:5000], b"", b"x" * 5000, unlisted, outside]
    wrong += [add(good, tarfile.TarInfo("/outside"), b"x"), add(good, link("a", "/etc"))]
    wrong += [add(good, tarfile.TarInfo("key.pem"), b"twice")]
    for number, data in enumerate(wrong):
        path = tmp_path / "wrong.tar"
        path.write_bytes(data)
        with pytest.raises(FormatError):
            read_backup(path, tmp_path / "again", kind="owner")
        assert not (tmp_path / "again").exists(), number
    assert not (tmp_path.parent / "outside").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_commands(consortium: Consortium, registry: AggregatorHome) -> None:
    """Both sides are backed up and restored by their commands."""
    folder = consortium.folder
    north = consortium.homes["north"].folder
    assert run(["aggregator", "backup", "--home", str(registry.folder), "-o", f"{folder}/a"]) == 0
    assert run(["aggregator", "restore", f"{folder}/a", "--home", f"{folder}/a2"]) == 0
    assert AggregatorHome(folder / "a2").key.public == registry.key.public
    assert run(["owner", "backup", "--home", str(north), "-o", f"{folder}/o"]) == 0
    assert run(["owner", "restore", f"{folder}/o", "--home", f"{folder}/o2"]) == 0
    told = CliRunner().invoke(sherd.cli.cli, ["owner", "run", "--home", f"{folder}/o2"])
    assert isinstance(told.exception, UsageError)
    assert "sherd owner recover" in str(told.exception)


# databases shrink, and earlier versions' are read


@pytest.mark.parametrize("beside", [True, False])
def test_the_database_gives_room_back(
    consortium: Consortium, registry: AggregatorHome, beside: bool
) -> None:
    """What a round's bulk took is given back when it has ended, beside the database or in it."""
    consortium.aggregator.open_round(consortium.terms())
    path = registry.folder / "aggregator.db"
    if not beside:  # as an earlier version kept it, and a backup does
        consortium.store.bulk = None
    with consortium.store.working("r1") as work:
        assert work is not None
        bulk = {f"{number:064x}": bytes(1 << 20) for number in range(24)}
        work.add_bulk(bulk)
        work.unchanged = True
    sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    folder = registry.folder / ".aggregator.db-bulk" / "r1"
    files = list(folder.iterdir()) if beside else [path]
    assert sum(file.stat().st_size for file in files) >= 24 << 20
    consortium.aggregator.abort("r1")
    consortium.aggregator.work()
    assert path.stat().st_size < 2 << 20
    assert not folder.exists()


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """What version 0.1 left: an aggregator with a released and a running round, and two owners."""
    with tarfile.open(RECORDED) as recorded:
        recorded.extractall(tmp_path / "earlier", filter="data")
    return tmp_path / "earlier"


def on_postgresql(earlier: Path, server: str) -> str:
    """The address of a database of PostgreSQL that version 0.1 would have left."""
    address = make_database(server, "earlier")
    store, source = Store(address), create_engine(f"sqlite:///{earlier}/aggregator.db")
    with source.connect() as read, database_of.writing(store.engine) as write:
        revision = read.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        command.upgrade(database_of._config(write), revision)
        tables = MetaData()
        tables.reflect(write)
        for table in tables.sorted_tables:
            rows = read.execute(text(f"SELECT * FROM {table.name}")).mappings().all()  # noqa: S608
            if rows and table.name != "alembic_version":
                write.execute(insert(table), [dict(row) for row in rows])
    source.dispose()
    store.close()
    return address


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_databases_of_the_last_version_are_brought_up_to_date(
    earlier: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """The tables are migrated, the journals read, and the round that was running is released."""
    address = f"sqlite:///{earlier}/aggregator.db"
    if kind == "postgresql":
        address = on_postgresql(earlier, request.getfixturevalue("postgresql"))
        (earlier / "aggregator.db").unlink()
    store = Store(address)
    with pytest.raises(StorageError, match="init --upgrade"):
        store.check()
    store.migrate()
    store.close()
    consortium = Consortium(earlier, database=address)
    consortium.key = SigningKey.load(earlier / "aggregator-key.pem")
    consortium.aggregator.key = consortium.key
    try:
        for name in ("north", "south"):
            home = consortium.homes[name] = OwnerHome(earlier / name)
            known = home.settings
            from sherd.federation.owner.owner_home import SETTINGS
            from sherd.federation.wire.settings_file import write_settings

            moved = dataclasses.replace(
                known,
                source=str(earlier / name / "table.parquet"),
                schema=str(earlier / name / "schema.yaml"),
            )
            write_settings(home.folder / SETTINGS, moved)
            consortium.start(name)
        consortium.settle()
        data = round_of(consortium, "old-running")
        assert data.state is RoundState.RELEASED, (data.reason, data.details)
        assert data.terms.signed_release is None
        assert not sherd.verify(consortium.aggregator.folder("old-running")).failed
        assert round_of(consortium, "old-released").state is RoundState.RELEASED
        assert spent(consortium) == {"2"}
        for agent in consortium.agents.values():
            assert agent.ledger.verify() > 0
            assert verify_lines(agent.journal.audit_lines())[0] == len(agent.journal.audit()) > 0
        consortium.aggregator.open_round(consortium.terms("new"))
        consortium.settle()
        assert round_of(consortium, "new").state is RoundState.RELEASED
    finally:
        consortium.close()
    if kind == "sqlite":
        with sqlite3.connect(earlier / "aggregator.db") as db:
            assert db.execute("PRAGMA auto_vacuum").fetchone()[0] == 2, "it can shrink from now on"
        db.close()


def test_what_a_later_version_wrote_is_refused(earlier: Path) -> None:
    """Neither a journal nor a database of a later version is touched."""
    for name, change in (
        ("north/journal.db", "PRAGMA user_version = 9"),
        ("aggregator.db", "UPDATE alembic_version SET version_num = '0999'"),
    ):
        db = sqlite3.connect(earlier / name)
        db.execute(change)
        db.commit()
        db.close()
    before = {name: (earlier / name).read_bytes() for name in ("north/journal.db", "aggregator.db")}
    with pytest.raises(FormatError, match="later version"):
        OwnerJournal(earlier / "north" / "journal.db")
    store = Store(f"sqlite:///{earlier}/aggregator.db")
    for act in (store.check, store.migrate):
        with pytest.raises(StorageError, match="later version"):
            act()
    store.close()
    for name, content in before.items():
        db = sqlite3.connect(earlier / name)
        db.execute("PRAGMA journal_mode = DELETE")
        db.close()
        assert len((earlier / name).read_bytes()) == len(content)
    shutil.rmtree(earlier)
