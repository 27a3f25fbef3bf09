"""What an owner's agent writes down: rounds, messages to send, decisions and the audit log.

One SQLite file. A round's machine and the messages it sends are written in one transaction,
before anything is sent. That a message was received is written with whatever is written
next: an agent that dies before sends it again, which the aggregator answers as before. The
audit log says what happened and never holds data; each line holds the hash of the one before.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sherd.errors import FormatError, StorageError
from sherd.federation.protocol.audit_chain import START, AuditLine
from sherd.federation.protocol.knowledge import OwnerData
from sherd.federation.protocol.states import OWNER_ENDS
from sherd.values import canonical_text, from_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

log = logging.getLogger("sherd.owner")

VERSION = 2
FETCHED = "fetched the release"
"""What the audit log says once an owner has a release."""
FAR = 2**62
"""The deadline of a round whose terms are not known yet."""

_TABLES = """
CREATE TABLE rounds (
    id TEXT PRIMARY KEY, ended INTEGER NOT NULL, received INTEGER NOT NULL,
    deadline INTEGER NOT NULL, data TEXT NOT NULL
);
CREATE INDEX rounds_open ON rounds (id) WHERE ended = 0;
CREATE INDEX rounds_seen ON rounds (deadline, id, received);
CREATE TABLE outgoing (
    round TEXT NOT NULL REFERENCES rounds (id), sequence INTEGER NOT NULL, raw BLOB NOT NULL,
    files TEXT NOT NULL, acknowledged INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (round, sequence)
);
CREATE INDEX outgoing_open ON outgoing (round, sequence) WHERE acknowledged = 0;
CREATE TABLE decisions (round TEXT PRIMARY KEY, decision TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE audit (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, round TEXT NOT NULL, event TEXT NOT NULL,
    detail TEXT NOT NULL, hash TEXT NOT NULL DEFAULT ''
);
"""


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A message to send; ``files`` says where what it announces lies, by name."""

    round: str
    sequence: int
    raw: bytes
    files: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class RoundChange:
    """What a round has become, what it sends, and lines for the audit log."""

    data: OwnerData
    outgoing: tuple[Outgoing, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


class OwnerJournal:
    """The journal of one owner's agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._acknowledged: set[tuple[str, int]] = set()
        # Rounds as last written, so that they are not read back at every step; handed out
        # once, and only where the text in the file is still the same.
        self._last: dict[str, tuple[str, OwnerData]] = {}
        self._lent: dict[str, str] = {}
        self._connection: sqlite3.Connection | None = None
        with self._open() as db:
            known = db.execute("PRAGMA user_version").fetchone()[0]
            if known > VERSION:
                self.close()
                raise FormatError(
                    "a later version of Sherd wrote the owner's journal",
                    must=f"at most {VERSION}",
                    got=f"{path}: {known}",
                    do="install the version of sherd that wrote it, or a later one",
                )
            if known == 0:
                version = f"PRAGMA user_version = {VERSION};"
                db.executescript(f"BEGIN IMMEDIATE;{_TABLES}{version}COMMIT;")
        if known == 1:
            with self._writing() as db:
                _chain_earlier_lines(db)
        path.chmod(0o600)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                if self._acknowledged:
                    with contextlib.suppress(StorageError), self._writing():
                        pass
                self._connection.close()
                self._connection = None

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                if self._connection is None:
                    db = sqlite3.connect(
                        self.path, timeout=30.0, isolation_level=None, check_same_thread=False
                    )
                    self._connection = db
                    db.execute("PRAGMA journal_mode = WAL")
                    db.execute("PRAGMA synchronous = FULL")
                    db.execute("PRAGMA foreign_keys = ON")
                yield self._connection
        except sqlite3.Error as error:
            raise StorageError(
                "the owner's journal cannot be read or written",
                got=f"{self.path}: {error}",
                do="check that the disk has room",
            ) from None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                acknowledged = list(self._acknowledged)
                db.executemany(
                    "UPDATE outgoing SET acknowledged = 1 WHERE round = ? AND sequence = ?",
                    acknowledged,
                )
                db.execute("COMMIT")
                self._acknowledged.difference_update(acknowledged)
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # the first error is the one to tell
                    db.execute("ROLLBACK")
                raise

    @property
    def is_busy(self) -> bool:
        """Whether a round was written down that has not ended."""
        return bool(self._last)

    def store(
        self,
        data: OwnerData,
        outgoing: tuple[Outgoing, ...] = (),
        note: tuple[str, str] | None = None,
    ) -> None:
        """Write a round down with what it sends."""
        notes = () if note is None else (note,)
        self.write([RoundChange(data=data, outgoing=outgoing, notes=notes)])

    def write(self, changes: Sequence[RoundChange]) -> None:
        """Write rounds down with what they send, all of it or nothing."""
        texts = [canonical_text(change.data) for change in changes]
        with self._writing() as db:
            for change, written in zip(changes, texts, strict=True):
                data = change.data
                db.execute(
                    "INSERT INTO rounds VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                    " ended = excluded.ended, received = excluded.received,"
                    " deadline = excluded.deadline, data = excluded.data",
                    (
                        data.round,
                        data.state in OWNER_ENDS,
                        data.received,
                        FAR if data.terms is None else data.terms.deadline,
                        written,
                    ),
                )
                for each in change.outgoing:
                    db.execute(
                        "INSERT INTO outgoing VALUES (?, ?, ?, ?, 0)",
                        (each.round, each.sequence, each.raw, json.dumps(each.files)),
                    )
                for note in change.notes:
                    _note(db, data.round, *note)
        for change, written in zip(changes, texts, strict=True):
            for note in change.notes:
                _tell(change.data.round, *note)
            self._lent.pop(change.data.round, None)
            if change.data.state not in OWNER_ENDS:
                self._last[change.data.round] = (written, change.data)

    def _read(self, id: str, written: str) -> OwnerData:  # noqa: A002
        last, data = self._last.pop(id, ("", None))
        self._lent[id] = written
        if data is None or last != written:
            data = from_data(OwnerData, json.loads(written))
        return data

    def unchanged(self, data: OwnerData) -> None:
        """Take back a round that was read and not changed."""
        written = self._lent.pop(data.round, None)
        if written is not None and data.state not in OWNER_ENDS:
            self._last[data.round] = (written, data)

    def round(self, id: str) -> OwnerData | None:  # noqa: A002
        """What is known of a round."""
        with self._open() as db:
            row = db.execute("SELECT data FROM rounds WHERE id = ?", (id,)).fetchone()
        return None if row is None else self._read(id, row[0])

    def rounds(self, *, all: bool = False) -> list[OwnerData]:  # noqa: A002
        """The rounds that have not ended, or all of them."""
        which = "" if all else "WHERE ended = 0"
        with self._open() as db:
            rows = db.execute(f"SELECT id, data FROM rounds {which} ORDER BY id").fetchall()  # noqa: S608
        return [self._read(*row) for row in rows]

    def overdue(self, since: int) -> list[str]:
        """The rounds that have not ended though their deadline is before ``since``."""
        with self._open() as db:
            rows = db.execute("SELECT id FROM rounds WHERE ended = 0 AND deadline < ?", (since,))
            return [str(row[0]) for row in rows.fetchall()]

    def seen(self, *, since: int = 0) -> dict[str, int]:
        """The last message seen in each round whose deadline is not before ``since``."""
        with self._open() as db:
            rows = db.execute("SELECT id, received FROM rounds WHERE deadline >= ?", (since,))
            return {row[0]: int(row[1]) for row in rows.fetchall()}

    def unsent(self) -> list[Outgoing]:
        """What was not acknowledged, in order."""
        outgoing = self._outgoing("acknowledged = 0", ())
        return [each for each in outgoing if (each.round, each.sequence) not in self._acknowledged]

    def outgoing(self, round_id: str) -> list[Outgoing]:
        """Everything that was ever sent in a round, in order."""
        return self._outgoing("round = ?", (round_id,))

    def _outgoing(self, which: str, given: tuple[str, ...]) -> list[Outgoing]:
        with self._open() as db:
            rows = db.execute(
                f"SELECT round, sequence, raw, files FROM outgoing WHERE {which}"  # noqa: S608
                " ORDER BY round, sequence",
                given,
            ).fetchall()
        return [
            Outgoing(round=r, sequence=s, raw=raw, files=json.loads(files))
            for r, s, raw, files in rows
        ]

    def unfetched(self, *, since: int) -> set[str]:
        """The rounds with a release that was never fetched, whose deadline is not long past."""
        with self._open() as db:
            rows = db.execute(
                "SELECT data FROM rounds WHERE ended = 1 AND deadline >= ? AND id NOT IN"
                " (SELECT round FROM audit WHERE event = ?)",
                (since, FETCHED),
            ).fetchall()
        ended = [from_data(OwnerData, json.loads(row[0])) for row in rows]
        return {data.round for data in ended if data.manifest is not None}

    def files_of(self, round_id: str) -> list[str]:
        """Where everything lies that a round announced; empty while something is unsent."""
        with self._open() as db:
            rows = db.execute(
                "SELECT files, acknowledged, sequence FROM outgoing WHERE round = ?", (round_id,)
            ).fetchall()
        if not all(done or (round_id, number) in self._acknowledged for _, done, number in rows):
            return []
        return [path for files, _, _ in rows for path in json.loads(files).values()]

    def acknowledge(self, message: Outgoing) -> None:
        """The aggregator has a message and everything it announced; written down later."""
        self._acknowledged.add((message.round, message.sequence))

    def resend(self, received: Mapping[str, int]) -> int:
        """Send again what an aggregator says that it does not have of a round; how much that is."""
        with self._writing() as db:
            return sum(
                db.execute(
                    "UPDATE outgoing SET acknowledged = 0 WHERE round = ? AND sequence > ?"
                    " AND acknowledged = 1 AND round IN (SELECT id FROM rounds WHERE ended = 0)",
                    (round_id, last),
                ).rowcount
                for round_id, last in received.items()
            )

    def decide(self, round_id: str, decision: str) -> None:
        """Note a person's decision."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO decisions VALUES (?, ?) ON CONFLICT (round) DO UPDATE SET"
                " decision = excluded.decision",
                (round_id, decision),
            )
            _note(db, round_id, "decision", decision)

    def decision(self, round_id: str) -> str | None:
        """What a person decided."""
        with self._open() as db:
            rows = db.execute("SELECT decision FROM decisions WHERE round = ?", (round_id,))
            decision: str | None = next((row[0] for row in rows), None)
        return decision

    def note(self, round_id: str, event: str, detail: str = "") -> None:
        """Write a line into the audit log."""
        with self._writing() as db:
            _note(db, round_id, event, detail)
        _tell(round_id, event, detail)

    def audit(self) -> list[tuple[str, str, str, str]]:
        """The audit log: time, round, event, detail."""
        with self._open() as db:
            return db.execute(
                "SELECT time, round, event, detail FROM audit ORDER BY number"
            ).fetchall()

    def audit_lines(self) -> list[AuditLine]:
        """The same with hashes, for ``verify_lines`` to tell whether a line was changed."""
        with self._open() as db:
            return _lines(db)


def _lines(db: sqlite3.Connection) -> list[AuditLine]:
    rows = db.execute("SELECT number, time, round, event, detail, hash FROM audit ORDER BY number")
    return [_line(*row) for row in rows.fetchall()]


def _line(number: int, time: str, round_id: str, event: str, detail: str, hash_: str) -> AuditLine:
    when = int(datetime.fromisoformat(time).timestamp())
    return AuditLine(
        number=number,
        time=when,
        actor="owner",
        event=event,
        subject=round_id,
        detail=detail,
        hash=hash_,
    )


def _chain_earlier_lines(db: sqlite3.Connection) -> None:
    """Give lines that an earlier version wrote their hashes."""
    if db.execute("PRAGMA user_version").fetchone()[0] != 1:  # another process did so meanwhile
        return
    db.execute("ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT ''")
    before = START
    for line in _lines(db):
        before = line.expected(before)
        db.execute("UPDATE audit SET hash = ? WHERE number = ?", (before, line.number))
    db.execute("PRAGMA user_version = 2")


def _note(db: sqlite3.Connection, round_id: str, event: str, detail: str) -> None:
    last = db.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    number, before = (0, START) if last is None else last
    time = datetime.now(UTC).isoformat(timespec="seconds")
    line = _line(number + 1, time, round_id, event, detail, "").after(before)
    db.execute(
        "INSERT INTO audit (number, time, round, event, detail, hash) VALUES (?, ?, ?, ?, ?, ?)",
        (line.number, time, round_id, event, detail, line.hash),
    )


def _tell(round_id: str, event: str, detail: str) -> None:
    """The same line for whoever watches the agent."""
    which = {"round_id": round_id} if round_id else {}
    log.info(event, extra={**which, "detail": detail})
