"""Chunks beside a SQLite database: synced before it knows of them, gone with their round."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sherd.errors import StorageError
from sherd.federation.aggregator.storage import Store
from sherd.federation.aggregator.storage.bulk_files import LEAST, BulkFiles
from sherd.federation.aggregator.storage.upkeep import copy_store
from sherd.federation.protocol.joint_plan import Kind, Terms
from sherd.federation.protocol.knowledge import RoundData
from sherd.federation.protocol.states import RoundState

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = b"x" * LEAST
SMALL = b"y" * (LEAST - 1)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _round(name: str) -> RoundData:
    terms = Terms(
        round=name, aggregator="registry", kind=Kind.HORIZONTAL, owners=("north",),
        method="dp-um", parameters={"k": 3}, epsilon="1", deadline=2000,
    )  # fmt: skip
    return RoundData(terms=terms, aggregator_key="00", keys={"north": "11"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A database with a round that has a large chunk and a small one."""
    made = Store(f"sqlite:///{tmp_path}/a.db")
    made.migrate()
    made.add_round(_round("r1"), now=1, sent=[])
    with made.working("r1") as work:
        assert work is not None
        work.add_bulk({_sha256(LARGE): LARGE, _sha256(SMALL): SMALL})
    yield made
    made.close()


def add(store: Store, data: bytes) -> None:
    """Keep one more chunk of the round."""
    with store.working("r1") as work:
        assert work is not None
        work.add_bulk({_sha256(data): data})


def purge(store: Store, *, fail: bool = False) -> None:
    """End the round, or fail just before that is kept."""
    with store.working("r1") as work:
        assert work is not None
        work.data.state = RoundState.ABORTED
        work.purge()
        work.save([], now=2)
        if fail:
            raise ZeroDivisionError


def test_large_chunks_lie_in_files(store: Store, tmp_path: Path) -> None:
    """A large one is a file for its owner alone, a small one is in the database; both are read."""
    folder = tmp_path / ".a.db-bulk" / "r1"
    assert [path.name for path in folder.iterdir()] == [_sha256(LARGE)]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / _sha256(LARGE)).stat().st_mode & 0o777 == 0o600
    assert store.chunk("r1", _sha256(LARGE)) == LARGE
    assert store.chunk("r1", _sha256(SMALL)) == SMALL
    (folder / _sha256(LARGE)).unlink()
    assert store.chunk("r1", _sha256(LARGE)) is None


def test_synced_before_the_database_knows(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and its folder are forced to disk, and a chunk that cannot be is not known."""
    synced, kept = list[str](), os.fsync

    def sync(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        kept(handle)

    monkeypatch.setattr(os, "fsync", sync)
    folder = tmp_path / ".a.db-bulk"
    BulkFiles(folder).put("r2", "a" * 64, LARGE)
    place = folder / "r2"
    assert synced == [str(folder), str(tmp_path), str(place / ("a" * 64)), str(place)]

    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    other = LARGE + b"z"
    with pytest.raises(StorageError, match="a chunk cannot be written"):
        add(store, other)
    assert store.chunk("r1", _sha256(other)) is None


def test_files_go_with_their_round(store: Store, tmp_path: Path) -> None:
    """Once the end is kept; a round that a dead process ended loses its files at the next start."""
    folder = tmp_path / ".a.db-bulk"
    with pytest.raises(ZeroDivisionError):
        purge(store, fail=True)
    assert (folder / "r1").exists()
    purge(store)
    assert not (folder / "r1").exists()
    (folder / "r1").mkdir()
    (folder / "r1" / ("a" * 64)).write_bytes(LARGE)
    store.add_round(_round("r2"), now=3, sent=[])
    with store.working("r2") as work:
        assert work is not None
        work.add_bulk({_sha256(LARGE): LARGE})
    store.sweep()
    assert [path.name for path in folder.iterdir()] == ["r2"]
    assert store.chunk("r2", _sha256(LARGE)) == LARGE


def test_a_copy_has_the_chunks(store: Store, tmp_path: Path) -> None:
    """A copy of the database alone, as a backup holds it, has what lay in files."""
    copy = Store(f"sqlite:///{tmp_path}/copies/b.db")
    copy.migrate()
    copy_store(store, copy)
    assert copy.chunk("r1", _sha256(LARGE)) == LARGE
    assert not (tmp_path / "copies" / ".b.db-bulk").exists()
    copy.close()
