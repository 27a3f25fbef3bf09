"""Opening the aggregator's database, and bringing its tables up to date.

SQLite takes one writer at a time, so a transaction that will write says so at its beginning;
threads of one process wait for each other in line, since SQLite itself would have them look
again and again. PostgreSQL locks the round's row instead.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from sherd.errors import StorageError, UsageError
from sherd.tables.sql import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

BUSY_SECONDS = 30.0

_lines: WeakKeyDictionary[Engine, threading.Lock] = WeakKeyDictionary()
"""Where the writers of a SQLite file wait for each other, those of this process."""

REVISION = "0003"
"""The revision of the tables this version works with: the last of the migrations."""


INCREMENTAL = 2
"""What SQLite calls a file that gives free pages back when it is told to."""


def sqlite_file(address: str) -> Path | None:
    """The file of a SQLite database; None for another."""
    known = address.startswith("sqlite:///")
    return Path(address.removeprefix("sqlite:///")) if known else None


def open_engine(address: str) -> Engine:
    """An engine for ``sqlite:///file`` or ``postgresql://…``."""
    file = sqlite_file(address)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        # One thread at a time uses a connection of the pool, though not always the same.
        options = {"timeout": BUSY_SECONDS, "check_same_thread": False}
        engine = create_engine(address, pool_size=8, max_overflow=32, connect_args=options)
        event.listen(engine, "connect", _set_up_sqlite)
        _lines[engine] = threading.Lock()
        return engine
    for scheme in ("postgresql://", "postgres://"):
        if address.startswith(scheme):
            return create_engine(
                "postgresql+psycopg://" + address.removeprefix(scheme), pool_pre_ping=True
            )
    raise UsageError(
        "the database's address is not valid",
        must="sqlite:///FILE or postgresql://…",
        got=redact(address),
    )


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    # The driver's own idea of transactions would begin them too late.
    connection.isolation_level = None
    connection.execute("PRAGMA page_size = 16384")  # of a new file: chunks are large
    connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")  # of a new file
    # Some builds write zeros over whatever is deleted, others never do: a round's bulk would be
    # written twice more, and its pages go back to the disk right after.
    connection.execute("PRAGMA secure_delete = FAST")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


@contextlib.contextmanager
def _begun(connection: Connection, sqlite_statement: str = "BEGIN") -> Iterator[None]:
    """A transaction; SQLite's driver, as it is set up here, begins none by itself.

    An event could begin it as well, but then SQLAlchemy looks for listeners at every statement.
    """
    with connection.begin():
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(sqlite_statement)
        yield


@contextlib.contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One transaction that only reads."""
    with _translated(), engine.connect() as connection, _begun(connection):
        yield connection


@contextlib.contextmanager
def glancing(engine: Engine) -> Iterator[Connection]:
    """A connection that only reads, each statement for itself; for what is asked all the time."""
    with _translated(), engine.connect() as connection:
        yield connection


@contextlib.contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """One transaction that only reads, and sees one moment however long it takes."""
    level = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with (
        _translated(),
        engine.connect().execution_options(**level) as connection,
        _begun(connection),
    ):
        yield connection


@contextlib.contextmanager
def alone(engine: Engine) -> Iterator[Connection]:
    """A connection without a transaction, for what SQLite does outside of any."""
    with (
        _translated(),
        _lines.get(engine, contextlib.nullcontext()),
        engine.connect() as connection,
    ):
        yield connection


@contextlib.contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes; it commits at the end, or not at all."""
    with (
        _translated(),
        _lines.get(engine, contextlib.nullcontext()),
        engine.connect() as connection,
        _begun(connection, "BEGIN IMMEDIATE"),
    ):
        yield connection


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        # The driver's message may hold an address or a value; its kind is enough.
        raise StorageError(
            f"the aggregator's database {_kind(error)}",
            got=type(getattr(error, "orig", None) or error).__name__,
            do="check that it runs, has room, and was made by `sherd aggregator init`",
        ) from None


def _kind(error: SQLAlchemyError) -> str:
    """What happened to the database, from the driver's code."""
    cause = getattr(error, "orig", None)
    code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or ""
    if code in ("SQLITE_FULL", "53100"):
        return "has no room left"
    if code.startswith("SQLITE_IOERR"):
        return "cannot be read or written"
    if not isinstance(error, OperationalError):
        return "failed"
    said = str(cause)
    return next((tell for words, tell in _TROUBLES if words in said), "is not reachable or busy")


_TROUBLES = (
    ("authentication failed", "does not accept the user or the password in its address"),
    ("no password supplied", "asks for a password: put it into its address or into ~/.pgpass"),
    ("refused", "is not running at its address, or refuses connections"),
    ("resolve", "has an address with a host that does not exist"),
    ("role ", "does not know the user in its address"),
    ("does not exist", "does not exist on its server: create it there, or correct its address"),
)
"""What the words of PostgreSQL's driver mean, which has no code where nobody answered."""


def migrate(engine: Engine) -> None:
    """Bring the tables up to date."""
    from alembic import command

    with writing(engine) as connection:
        command.upgrade(_config(connection), "head")


def current_revision(engine: Engine) -> str | None:
    """The revision the tables are at; asked without Alembic, which takes long to import."""
    with reading(engine) as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return None if revision is None else str(revision)


def _config(connection: Connection | None) -> Any:
    from alembic.config import Config

    config = Config()
    folder = Path(__file__).parents[1] / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
