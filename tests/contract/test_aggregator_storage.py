"""One suite for the aggregator's storage, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, text

from sherd.errors import StorageError, UsageError
from sherd.federation.aggregator.storage import Sent, Store, database
from sherd.federation.aggregator.storage.statements import use_once
from sherd.federation.aggregator.storage.tables import METADATA
from sherd.federation.protocol.joint_plan import Kind, Terms
from sherd.federation.protocol.knowledge import RoundData
from sherd.federation.protocol.states import RoundState
from sherd.federation.wire.chunks import describe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1000


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/a.db"
        return
    server: str = request.getfixturevalue("postgresql")
    name = f"sherd_{abs(hash(str(tmp_path)))}"
    admin = create_engine(
        server.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield server.rpartition("/")[0] + f"/{name}"
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    """An empty storage."""
    made = Store(address)
    made.migrate()
    yield made
    made.close()


def data(name: str = "r1", deadline: int = 2000) -> RoundData:
    """A round that was just made."""
    terms = Terms(
        round=name,
        aggregator="registry",
        kind=Kind.HORIZONTAL,
        owners=("north", "south"),
        method="dp-um",
        parameters={"k": 3},
        epsilon="1",
        deadline=deadline,
    )
    return RoundData(terms=terms, aggregator_key="00", keys={"north": "11", "south": "22"})


def test_migrations_make_the_tables(address: str) -> None:
    """The migrations make exactly the declared tables, go back, and say their version."""
    from alembic import command
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    fresh = Store(address)
    with pytest.raises(StorageError, match="is empty"):
        fresh.check()
    fresh.migrate()
    fresh.migrate()
    fresh.check()
    with database.reading(fresh.engine) as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    assert ScriptDirectory.from_config(database._config(None)).get_heads() == [database.REVISION]
    with database.writing(fresh.engine) as connection:
        command.downgrade(database._config(connection), "base")
    with pytest.raises(StorageError, match="is empty"):
        fresh.check()
    fresh.close()


def test_members_and_tokens(store: Store) -> None:
    """Members are found by name and by token, once each; removed ones are gone."""
    store.add_member("north", "owner", key="aa", now=NOW)
    store.add_member("ann", "analyst", token="secret", now=NOW)
    with pytest.raises(UsageError, match="taken"):
        store.add_member("north", "analyst", now=NOW)
    assert [m.name for m in store.members()] == ["ann", "north"]
    found = store.member_of_token("secret", NOW)
    assert found is not None
    assert found.role == "analyst"
    assert store.member_of_token("other", NOW) is None
    assert store.member("south") is None
    assert store.remove_member("ann")
    assert not store.remove_member("ann")
    assert store.member_of_token("secret", NOW) is None


def test_challenges_are_used_once(store: Store) -> None:
    """A challenge is used once; sessions expire."""
    store.add_member("north", "owner", key="aa", now=NOW)
    assert use_once(store, "a", now=NOW, expires=NOW + 10)
    assert not use_once(store, "a", now=NOW, expires=NOW + 10)
    assert not use_once(store, "a", now=NOW + 10, expires=NOW + 20)
    assert use_once(store, "b", now=NOW, expires=NOW + 10)
    store.add_session("token", "north", expires=NOW + 10)
    assert store.member_of_token("token", NOW + 10) is not None
    assert store.member_of_token("token", NOW + 11) is None


def test_rounds_are_kept_whole_or_not_at_all(store: Store) -> None:
    """What a block does to a round is kept together; an error keeps nothing."""
    sent = [Sent(recipient="north", sequence=1, raw=b"hello")]
    store.add_round(data(), now=NOW, sent=sent)
    with pytest.raises(UsageError, match="already"):
        store.add_round(data(), now=NOW, sent=sent)

    def fail() -> None:
        with store.working("r1") as work:
            assert work is not None
            work.data.state = RoundState.ATTRIBUTES
            work.save([Sent(recipient="south", sequence=1, raw=b"x")], now=NOW)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    found = store.round("r1")
    assert found is not None
    assert found.state is RoundState.DRAFT
    assert store.inbox("south", {}) == []
    with store.working("r1") as work:
        assert work is not None
        work.data.state = RoundState.ATTRIBUTES
        work.save([], now=NOW)
    found = store.round("r1")
    assert found is not None
    assert found.state is RoundState.ATTRIBUTES
    assert store.round("none") is None
    with store.working("none") as work:
        assert work is None
    (only,) = store.unfinished()
    assert (only.id, only.state, only.deadline) == ("r1", "attributes", 2000)
    assert store.counts() == {"attributes": 1}


def test_inbox_by_round_and_in_order(store: Store) -> None:
    """Messages come in order, without what was seen and without old rounds."""
    for name, deadline in (("r1", 2000), ("r2", 500)):
        sent = [Sent(recipient="north", sequence=n, raw=f"{name}-{n}".encode()) for n in (1, 2)]
        store.add_round(data(name, deadline), now=NOW, sent=sent)
    assert store.inbox("north", {}) == [b"r1-1", b"r1-2", b"r2-1", b"r2-2"]
    assert store.inbox("north", {"r1": 1}) == [b"r1-2", b"r2-1", b"r2-2"]
    assert store.inbox("north", {"r1": 2}, since=600) == []
    assert store.inbox("south", {}) == []


def test_messages_and_chunks(store: Store) -> None:
    """Chunks must be announced by their sender; the last one completes its message."""
    store.add_round(data(), now=NOW, sent=[])
    one, two = describe(b"one").sha256, describe(b"two").sha256
    with store.working("r1") as work:
        assert work is not None
        assert work.known_message("north", 1) is None
        raw = f'["{one}","{two}"]'.encode()
        work.add_message("north", 1, raw, [one, two, one], now=NOW)
        assert work.known_message("north", 1) is not None
        assert work.wanted("north", 1) == sorted([one, two])
        assert work.put_chunk("south", one, b"one") is None
        assert work.put_chunk("north", one, b"one") == []
        assert work.put_chunk("north", one, b"one") == []
        assert work.put_chunk("north", two, b"two") == [("north", 1)]
        assert work.put_chunk("north", "00" * 32, b"") is None
        work.add_message("north", 2, b"raw2", [one], now=NOW)
        assert work.wanted("north", 2) == []
        work.add_bulk({one: b"one"})
        reader = Sent(recipient="south", sequence=1, raw=b"x", chunks=(one, one))
        again = Sent(recipient="south", sequence=2, raw=b"y", chunks=(one,))
        work.save([reader, again], now=NOW)
    assert store.granted_chunk("r1", "south", one) == b"one"
    assert store.granted_chunk("r1", "south", two) is None
    assert store.granted_chunk("r1", "north", one) is None
    assert store.chunk("r1", two) == b"two"
    with store.working("r1") as work:
        assert work is not None
        work.purge()
        # A copy of a call that comes late is acknowledged; what was never announced is not.
        assert work.put_chunk("north", one, b"one") == []
        assert work.put_chunk("south", one, b"one") is None
    assert store.chunk("r1", one) is None


def test_heads(store: Store) -> None:
    """The last ledger head of each owner is kept."""
    store.add_round(data(), now=NOW, sent=[])
    with store.working("r1") as work:
        assert work is not None
        assert work.heads(["north"]) == {}
        work.set_head("north", "aa", now=NOW)
        work.set_head("north", "bb", now=NOW)
        assert work.heads(["north", "south"]) == {"north": "bb"}


def test_one_at_a_time(store: Store) -> None:
    """Two threads that work on one round follow each other; nothing is lost."""
    store.add_round(data(), now=NOW, sent=[])

    def count() -> None:
        for _ in range(10):
            with store.working("r1") as work:
                assert work is not None
                work.data.received["north"] = work.data.received.get("north", 0) + 1
                work.save([], now=NOW)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.round("r1")
    assert found is not None
    assert found.received == {"north": 40}


def test_addresses() -> None:
    """Another kind of address is refused, and its password is not shown."""
    with pytest.raises(UsageError, match="sqlite:///FILE") as caught:
        Store("mysql://user:secret@host/x")
    assert "secret" not in str(caught.value)


def test_unreachable_database() -> None:
    """A database that does not answer is said, without its address."""
    store = Store("postgresql://user:secret@127.0.0.1:1/x")
    with pytest.raises(StorageError, match="not running at its address") as caught:
        store.members()
    assert "secret" not in str(caught.value)


def test_a_copy_holds_everything_that_lasts(store: Store, tmp_path: Path) -> None:
    """Members, rounds and messages are in it, sessions are not; nothing is mixed with it."""
    from sherd.federation.aggregator.storage.upkeep import check_empty, copy_store, shrink

    store.add_member("north", "owner", key="11", now=NOW)
    store.add_session("token", "north", expires=NOW + 100)
    sent = [Sent(recipient="north", sequence=1, raw=b"\x00hello")]
    store.add_round(data(), now=NOW, sent=sent)
    copy = Store(f"sqlite:///{tmp_path}/copy.db")
    check_empty(copy)
    copy.migrate()
    copy_store(store, copy)
    assert copy.members() == store.members()
    assert copy.round("r1") == store.round("r1")
    assert copy.inbox("north", {}) == [b"\x00hello"]
    assert copy.member_of_token("token", NOW) is None
    with pytest.raises(UsageError, match="already"):
        check_empty(copy)
    shrink(store)
    copy.close()
