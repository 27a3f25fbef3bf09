"""The owner's journal: its audit log is a chain that cannot be edited unseen."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from sherd.errors import VerificationError
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.protocol.audit_chain import export, read_export, verify_lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with four lines in its audit log."""
    path = tmp_path / "journal.db"
    with closing(OwnerJournal(path)) as journal:
        for event in ("offered", "refused", "trouble"):
            journal.note("r1", event, "why")
        journal.decide("r1", "approve")
    return path


def changed(path: Path, statement: str) -> None:
    """What somebody with the file does to it."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


def test_lines_hold_the_one_before(path: Path) -> None:
    """All are checked, and an export is the same again."""
    with closing(OwnerJournal(path)) as journal:
        lines = journal.audit_lines()
    count, head = verify_lines(lines)
    assert count == 4
    assert [line.event for line in lines] == ["offered", "refused", "trouble", "decision"]
    assert verify_lines(read_export(export(lines)), head) == (4, head)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET detail = 'no reason' WHERE number = 2",
        "UPDATE audit SET event = 'approved' WHERE number = 2",
        "UPDATE audit SET round = 'r2' WHERE number = 1",
        "UPDATE audit SET time = '2020-01-01T00:00:00+00:00' WHERE number = 3",
        "DELETE FROM audit WHERE number = 2",
        "DELETE FROM audit WHERE number = 1",
        "INSERT INTO audit SELECT 5, time, round, event, detail, hash FROM audit WHERE number = 4",
    ],
)
def test_an_edited_line_shows(path: Path, statement: str) -> None:
    """Changed, taken out or added."""
    changed(path, statement)
    with (
        closing(OwnerJournal(path)) as journal,
        pytest.raises(VerificationError, match="was changed"),
    ):
        verify_lines(journal.audit_lines())


def test_an_end_that_was_cut_off_shows_by_a_head(path: Path) -> None:
    """And only by one: a shorter chain is whole in itself."""
    with closing(OwnerJournal(path)) as journal:
        head = verify_lines(journal.audit_lines())[1]
    changed(path, "DELETE FROM audit WHERE number = 4")
    with closing(OwnerJournal(path)) as journal:
        assert verify_lines(journal.audit_lines())[0] == 3
        with pytest.raises(VerificationError, match="end of the audit log is missing"):
            verify_lines(journal.audit_lines(), head)


def test_an_earlier_journal_s_lines_are_chained_once(path: Path) -> None:
    """As version 1 wrote them: without hashes; what is noted later goes on from there."""
    changed(path, "ALTER TABLE audit DROP COLUMN hash")
    changed(path, "PRAGMA user_version = 1")
    for _ in range(2):
        with closing(OwnerJournal(path)) as journal:
            journal.note("r1", "released")
            lines = journal.audit_lines()
    assert verify_lines(lines)[0] == 6
