"""The ledger's file: one SQLite database, opened for every operation and closed after it.

The standard library's ``sqlite3`` is used as it is, without an object mapper: this is one
local file with five small tables, and what matters about it is exactly which statement
runs in which transaction. A connection lives for one operation, or for a block of them by one
thread (``kept_open``), so that threads and forked processes never share one.

The file is made whole under another name and then linked to its own, so that two
processes that start at once cannot both make it and a crash cannot leave half of it.

``chosen_path`` says where the file lies unless told otherwise.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.budget.entries import GENESIS
from sherd.errors import SherdError, StorageError, UsageError, VerificationError
from sherd.tables.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


APPLICATION = 0x53484C44
"""SQLite's application id of a ledger ("SHLD")."""

VERSION = 2
"""The version of the tables below."""

BUSY_SECONDS = 30.0
"""How long an operation waits for another process's transaction."""

ENTRIES = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY CHECK (number >= 1),
    time TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('charge', 'limit', 'look')),
    population TEXT NOT NULL,
    amount INTEGER CHECK (amount IS NULL OR (amount >= 0 AND typeof(amount) = 'integer')),
    method TEXT NOT NULL,
    plan_hash TEXT NOT NULL,
    schema_hash TEXT NOT NULL,
    artefact TEXT NOT NULL,
    note TEXT NOT NULL,
    reservation TEXT UNIQUE,
    previous TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL UNIQUE,
    form INTEGER NOT NULL CHECK (form IN (1, 2)),
    measure TEXT,
    cost INTEGER CHECK (cost IS NULL OR (cost >= 0 AND typeof(cost) = 'integer')),
    rho TEXT,
    delta TEXT,
    CHECK (kind != 'charge' OR (amount IS NOT NULL AND reservation IS NOT NULL))
);
CREATE INDEX entries_by_population ON entries (population, number);
"""

OTHERS = """
CREATE TABLE reservations (
    id TEXT PRIMARY KEY,
    population TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount >= 0 AND typeof(amount) = 'integer'),
    method TEXT NOT NULL,
    plan_hash TEXT NOT NULL,
    schema_hash TEXT NOT NULL,
    note TEXT NOT NULL,
    time TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    boot TEXT NOT NULL,
    namespace TEXT NOT NULL,
    measure TEXT NOT NULL,
    rho TEXT,
    delta TEXT,
    seal TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE artefacts (
    number INTEGER PRIMARY KEY REFERENCES entries (number),
    staged TEXT NOT NULL,
    final TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    boot TEXT NOT NULL,
    namespace TEXT NOT NULL,
    seal TEXT NOT NULL,
    published INTEGER NOT NULL DEFAULT 0 CHECK (published IN (0, 1)),
    key TEXT
);
CREATE TABLE stagings (
    path TEXT PRIMARY KEY,
    reservation TEXT NOT NULL
) WITHOUT ROWID;
"""

TABLES = f"""
{ENTRIES}
CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO head VALUES (1, 0, '{GENESIS}');
{OTHERS}
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""  # noqa: S608 - our own constants

FROM_VERSION_1 = f"""
ALTER TABLE entries RENAME TO entries_1;
DROP INDEX entries_by_population;
ALTER TABLE artefacts RENAME TO artefacts_1;
DROP TABLE accounts;
DROP TABLE reservations;
{ENTRIES}
INSERT INTO entries SELECT *, 1, NULL, NULL, NULL, NULL FROM entries_1;
{OTHERS}
INSERT INTO artefacts SELECT *, NULL FROM artefacts_1;
DROP TABLE artefacts_1;
DROP TABLE entries_1;
PRAGMA user_version = {VERSION};
"""  # noqa: S608 - our own constants
"""From version 1, which counted one sum for each population in a table of its own.

Rows keep their hashes. Reservations go: a run of the older version that still lives cannot charge
and publishes nothing.
"""


def create(path: Path) -> None:
    """Make an empty ledger, readable by its owner alone, unless there is a file already."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            return
        # Asked for again: another process may have made both since.
        if Path(f"{path}-wal").exists() and not path.exists():
            # SQLite would play the old journal into the new file.
            raise StorageError(
                "the ledger's file is gone but its journal is still there",
                got=f"{path}-wal",
                do="put the file back, or move the journal away to start a new ledger",
            )
        _create(path)
    except OSError as error:
        if isinstance(error, SherdError):
            raise
        raise StorageError(
            "the ledger cannot be made", got=f"{path}: {error.strerror}", do="check the folder"
        ) from None


def _create(path: Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        with translated(path), contextlib.closing(_open(Path(name))) as connection:
            _configure(connection)
            connection.executescript(f"BEGIN;{TABLES}COMMIT;")
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(name, path)
        sync_folder(path.parent)
    finally:
        for left in (name, f"{name}-wal", f"{name}-shm"):
            Path(left).unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions are written out
    )
    # Broken text must reach the check of its row's hash, which then names the row.
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return connection


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def connect(path: Path) -> sqlite3.Connection:
    """A connection to an existing ledger, after looking at what kind of file it is."""
    connection = _open(path)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION or version < 1:
            raise VerificationError(
                "the file is not a Sherd ledger",
                got=str(path),
                do="name another file; if this one was a ledger, restore it from a backup",
            )
        if version > VERSION:
            raise StorageError(
                "the ledger was written by a newer Sherd",
                must=f"of version {VERSION}",
                got=f"version {version} in {path}",
                do="update Sherd; nothing was changed",
            )
        _configure(connection)  # not before: it writes, and the file may be somebody else's
        if version < VERSION:
            _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables of an older version into today's form, in one transaction."""
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have done it while this one waited.
    if connection.execute("PRAGMA user_version").fetchone()[0] < VERSION:
        for statement in FROM_VERSION_1.split(";"):
            connection.execute(statement)
    connection.execute("COMMIT")
    connection.execute("PRAGMA foreign_keys = ON")


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours: a damaged file, or a disk that failed."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT):
            raise VerificationError(
                "the ledger's file is damaged",
                got=f"{path}: {error}",
                do="restore it from a backup; do not delete it, it says what has been spent",
            ) from error
        raise StorageError(
            "the ledger cannot be read or written",
            got=f"{path}: {error}",
            do="check that the disk has room and that the file can be written; nothing was spent"
            " that `sherd ledger show` does not list",
        ) from error


_kept = threading.local()
"""By path: the process and the file that a connection of this thread was opened in, and itself."""


@contextlib.contextmanager
def kept_open(path: Path) -> Iterator[None]:
    """Let what this thread does with a ledger in a block use one connection.

    Not for longer than a round: while one is open, the file has a journal beside it, without which
    a copy of it is not whole, but for what was settled (``settle``).
    """
    kept: dict[Path, tuple[int, tuple[int, int] | None, sqlite3.Connection]]
    kept = _kept.__dict__.setdefault("by_path", {})
    if path in kept:
        yield
        return
    with translated(path):
        connection = connect(path)
    kept[path] = os.getpid(), _identity(path), connection
    try:
        yield
    finally:
        del kept[path]
        with translated(path):
            connection.close()


def settle(path: Path) -> None:
    """Bring what this thread wrote into the file itself, where a connection is kept open.

    Where none is, closing has done so. A copy of the file alone then has it.
    """
    _, file, connection = _kept.__dict__.get("by_path", {}).get(path, (0, None, None))
    if connection is not None and file == _identity(path) and not connection.in_transaction:
        with translated(path):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """The connection kept open for this thread, or a new one where another file has its place.

    Whatever goes wrong, no transaction is left.
    """
    kept = _kept.__dict__.get("by_path", {})
    process, file, connection = kept.get(path, (0, None, None))
    ours = process == os.getpid() and file == _identity(path)
    if connection is None or connection.in_transaction or not ours:
        with contextlib.closing(connect(path)) as connection:
            yield connection
        return
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """One read transaction: everything read inside is of the same moment."""
    with translated(path), _connected(path) as connection:
        connection.execute("BEGIN")
        yield connection
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """One write transaction, begun at once so that what it reads stays true until it commits.

    Whatever goes wrong inside, it is rolled back.
    """
    with translated(path), _connected(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


NO_LEDGER = "none"
"""In the place of a ledger's path: nothing is charged."""


def chosen_path(given: str | Path | None) -> Path | None:
    """The ledger to charge: as given, else by default; nothing where either says ``none``."""
    named = given if given is not None else os.environ.get("SHERD_LEDGER")
    if str(named) == NO_LEDGER:
        return None
    return default_path() if given is None else Path(given)


def default_path() -> Path:
    """``$SHERD_LEDGER``, else ``ledger.db`` in the user's data folder.

    The data folder is ``$XDG_DATA_HOME/sherd``, else ``~/.local/share/sherd``. As the XDG
    specification asks, a relative ``XDG_DATA_HOME`` is ignored.
    """
    given = os.environ.get("SHERD_LEDGER")
    if given == NO_LEDGER:
        raise UsageError(
            "no ledger is in use: SHERD_LEDGER is set to 'none'",
            must="a ledger's file",
            got=repr(given),
            do="name one with --ledger, or unset SHERD_LEDGER",
        )
    if given:
        return Path(given).expanduser()
    data = Path(os.environ.get("XDG_DATA_HOME") or "")
    if not data.is_absolute():
        data = Path("~/.local/share").expanduser()
    return data / "sherd" / "ledger.db"
