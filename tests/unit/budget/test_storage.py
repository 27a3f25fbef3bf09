from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sherd.budget import Amount, Ledger, Reservation, default_path, rows, storage
from sherd.budget.storage import chosen_path
from sherd.errors import StorageError, UsageError, VerificationError

Reserve = Callable[..., Reservation]
HASH = "b" * 64


def test_made_for_its_owner_alone(tmp_path: Path) -> None:
    """The file is 0600 and its new folder 0700 whatever the umask, and nothing else is left."""
    before = os.umask(0)
    try:
        path = tmp_path / "deep" / "folder" / "ledger.db"
        book = Ledger(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        with book._writing():
            wal = Path(f"{path}-wal")
            assert wal.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert [file.name for file in path.parent.iterdir()] == ["ledger.db"]


def test_durable_settings(ledger: Ledger) -> None:
    """Write-ahead log, full synchronisation and foreign keys are on in every connection."""
    with ledger._reading() as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)
        assert db.execute("PRAGMA busy_timeout").fetchone() == (30_000,)


def test_opens_what_is_there(ledger: Ledger) -> None:
    """A second ledger on the same file sees what the first wrote, by a relative path too."""
    ledger.set_limit("people", Amount(1))
    relative = os.path.relpath(ledger.path)
    assert Ledger(relative).account("people").limit == Amount(1)


def test_odd_names_are_no_options(tmp_path: Path) -> None:
    """A question mark or a percent sign in the path is part of the name."""
    path = tmp_path / "a?mode=memory&x=%41 #ü.db"
    Ledger(path).set_limit("people", Amount(1))
    assert path.exists()
    assert Ledger(path).verify() == 1


def test_refuses_a_newer_version(ledger: Ledger) -> None:
    """A ledger of a newer Sherd is left alone, and the message says what to do."""
    with sqlite3.connect(ledger.path) as db:
        db.execute("PRAGMA user_version = 3")
    db.close()
    with pytest.raises(StorageError, match=r"newer Sherd.*update Sherd"):
        Ledger(ledger.path)


@pytest.mark.parametrize("size", [0, 10, 100, 5000])
def test_refuses_what_is_no_ledger(tmp_path: Path, size: int) -> None:
    """An empty file, text and noise are not taken for a ledger, and are not overwritten."""
    path = tmp_path / "ledger.db"
    path.write_bytes(b"x" * size)
    with pytest.raises(VerificationError, match=r"damaged|not a Sherd ledger"):
        Ledger(path)
    assert path.read_bytes() == b"x" * size


def test_refuses_another_database(tmp_path: Path) -> None:
    """A database of something else is not taken for a ledger, nor changed."""
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE t (a)")
    db.close()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(VerificationError, match="not a Sherd ledger"):
        Ledger(tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_damaged_file_is_said(ledger: Ledger, reserve: Reserve, share: float) -> None:
    """Wiping a page of the file is found when reading or verifying, never passed over."""
    for _ in range(40):
        ledger.charge(reserve("1", note="x" * 900), artefact_sha256=HASH)
    data = bytearray(ledger.path.read_bytes())
    start = int(len(data) * share) // 4096 * 4096
    data[start : start + 4096] = b"\xff" * 4096
    ledger.path.write_bytes(data)
    with pytest.raises(VerificationError):
        Ledger(ledger.path).verify()


def test_refuses_a_folder_that_is_a_file(tmp_path: Path) -> None:
    """A folder that cannot be made is a storage error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be made"):
        Ledger(tmp_path / "file" / "ledger.db")


def test_refuses_a_folder_as_file(tmp_path: Path) -> None:
    """A folder in the file's place is a storage error."""
    with pytest.raises(StorageError, match="cannot be read or written"):
        Ledger(tmp_path)


def test_refuses_a_journal_without_its_file(ledger: Ledger) -> None:
    """A ledger deleted in mid-work is not replaced by a new one that its journal would fill."""
    Path(f"{ledger.path}-wal").write_bytes(b"old")
    ledger.path.unlink()
    with pytest.raises(StorageError, match="journal is still there"):
        Ledger(ledger.path)
    assert not ledger.path.exists()


def test_a_deleted_file_is_not_made_again_silently(ledger: Ledger) -> None:
    """A ledger whose file vanishes raises; only making a Ledger makes a file."""
    ledger.path.unlink()
    with pytest.raises(StorageError):
        ledger.entries()
    assert not ledger.path.exists()


def test_the_faster_one_makes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another process makes the file meanwhile, that file is kept."""
    path = tmp_path / "ledger.db"
    plain = os.link

    def slow(source: str, target: Path) -> None:
        monkeypatch.setattr(os, "link", plain)
        Ledger(path).set_limit("people", Amount(1))
        plain(source, target)

    monkeypatch.setattr(os, "link", slow)
    assert Ledger(path).account("people").limit == Amount(1)


def test_waits_for_others_and_then_says_so(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger locked by a process that never ends gives a storage error, not a hang."""
    monkeypatch.setattr(storage, "BUSY_SECONDS", 0.05)
    with ledger._writing(), pytest.raises(StorageError, match="locked"):
        ledger.set_limit("people", None)
    ledger.set_limit("people", None)


def test_a_row_that_breaks_the_rules_is_refused(ledger: Ledger, reserve: Reserve) -> None:
    """The file itself refuses to charge one reservation twice."""
    reservation = reserve("1")
    ledger.charge(reservation, artefact_sha256=HASH)
    with ledger._writing() as db:
        rows.insert_reservation(db, reservation)
    with pytest.raises(VerificationError, match="UNIQUE"):
        ledger.charge(reservation, artefact_sha256=HASH)
    assert ledger.account("people").spent == Amount(1)


def test_a_full_disk_writes_nothing_by_halves(
    ledger: Ledger, reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the file can grow no more, the operation fails whole and the ledger stays true."""
    plain = storage.connect

    def capped(path: Path) -> sqlite3.Connection:
        connection = plain(path)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    failed = 0
    for turn in range(40):
        before = ledger.account("people").spent
        reservation = reserve("1", note="x" * 1000)
        monkeypatch.setattr(storage, "connect", capped)
        message: str | None = None
        try:
            ledger.charge(reservation, artefact_sha256=HASH)
        except StorageError as error:
            message = str(error)
        after = ledger.account("people")
        if message is None:
            assert after.spent == before + Amount(1)
            assert not after.reserved
        else:
            failed += 1
            assert "full" in message
            assert (after.spent, after.reserved) == (before, Amount(1))
        monkeypatch.setattr(storage, "connect", plain)
        ledger._free(reservation.id)
        assert ledger.verify() == turn + 1 - failed
    assert 0 < failed < 40


FULL = """
import resource, sys
from sherd.budget import Amount, Ledger
from sherd.errors import StorageError
book = Ledger(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[3])))
try:
    book.set_limit("people", Amount(2))
except StorageError as error:
    print("refused")
else:
    print("done")
"""


@pytest.mark.parametrize("room", [0, 33, 5000, 13000, 10**7])
def test_a_disk_that_takes_no_more_bytes(ledger: Ledger, room: int) -> None:
    """A write that the system really refuses leaves the ledger as it was before."""
    ledger.set_limit("people", Amount(1))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    answer = subprocess.run(
        [sys.executable, "-c", FULL, str(ledger.path), str(room), str(hard)],
        capture_output=True,
        text=True,
        check=True,
    )
    done = room == 10**7
    assert answer.stdout.strip() == ("done" if done else "refused")
    assert ledger.account("people").limit == Amount(2 if done else 1)
    assert ledger.verify() == (2 if done else 1)


def test_no_room_to_make_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where making the file fails, no part of it stays."""

    def fails(_source: str, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", fails)
    with pytest.raises(StorageError, match="No space left"):
        Ledger(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_closes_a_connection_that_fails_early(
    ledger: Ledger,
) -> None:
    """A file that turns out not to be a database leaves no open handle behind."""
    ledger.path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    handles = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else None
    with pytest.raises(VerificationError, match="damaged"):
        ledger.entries()
    if handles is not None:
        assert len(list(Path("/proc/self/fd").iterdir())) == handles


def test_the_environment_names_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """SHERD_LEDGER wins, with ~ expanded."""
    monkeypatch.setenv("SHERD_LEDGER", "~/mine.db")
    assert default_path() == Path.home() / "mine.db"


def test_the_data_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_DATA_HOME is honoured where absolute; otherwise ~/.local/share is used."""
    monkeypatch.delenv("SHERD_LEDGER", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "sherd" / "ledger.db"
    for ignored in ("", "relative/folder"):
        monkeypatch.setenv("XDG_DATA_HOME", ignored)
        assert default_path() == Path.home() / ".local/share/sherd/ledger.db"


def test_no_ledger_by_option_or_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``none`` is no file's name; what must have a ledger says so."""
    monkeypatch.delenv("SHERD_LEDGER", raising=False)
    assert chosen_path("none") is None
    assert chosen_path("mine.db") == Path("mine.db")
    assert chosen_path(None) == default_path()
    monkeypatch.setenv("SHERD_LEDGER", "none")
    assert chosen_path(None) is None
    assert chosen_path("mine.db") == Path("mine.db")
    with pytest.raises(UsageError, match="SHERD_LEDGER is set to"):
        default_path()


def test_what_is_settled_is_in_the_file_itself(ledger: Ledger, tmp_path: Path) -> None:
    """A copy of the file without its journal has it, while a connection is kept open."""

    def limit(number: int) -> Amount | None:
        copy = tmp_path / f"copy-{number}.db"
        copy.write_bytes(ledger.path.read_bytes())
        return Ledger(copy).account("people").limit

    ledger.settle()  # nothing is kept open: nothing to do
    with ledger.kept_open():
        ledger.set_limit("people", Amount(3))
        assert limit(1) is None
        ledger.settle()
        assert limit(2) == Amount(3)
