"""The aggregator's audit log: what was done by whom, in lines of which each holds the one before.

A line's hash covers the line and the hash of its predecessor, so that no line can be changed, added
or taken out between two others unseen. That the end was not cut off is seen by comparing the last
hash with one that was kept elsewhere: exports and backups hold it. Lines name people, rounds,
states and reasons, never data.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select, text

from sherd.errors import FormatError, VerificationError
from sherd.federation.aggregator.storage import database
from sherd.federation.aggregator.storage.tables import AUDIT
from sherd.values import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection, Engine

START = "0" * 64
"""What the first line has for the hash of the line before."""

log = logging.getLogger("sherd.aggregator")

_MOST_DETAIL = 2000
_LAST = select(AUDIT.c.number, AUDIT.c.hash).order_by(AUDIT.c.number.desc()).limit(1)


@dataclass(frozen=True, kw_only=True)
class AuditLine:
    """One line of the audit log; ``subject`` is the round or the member that it is about."""

    number: int
    time: int
    actor: str
    event: str
    subject: str
    detail: str
    hash: str

    def expected(self, before: str) -> str:
        """The hash that the line must have after another."""
        about = [self.number, self.time, self.actor, self.event, self.subject, self.detail]
        return digest(["sherd-audit-1", before, *about])


def append(
    db: Connection, *, now: int, actor: str, event: str, subject: str, detail: str = ""
) -> None:
    """Add a line, in the transaction that does what it tells of."""
    if db.dialect.name == "postgresql":  # SQLite has one writer anyway
        db.execute(text("LOCK TABLE audit IN EXCLUSIVE MODE"))
    last = db.execute(_LAST).first()
    number, before = (0, START) if last is None else (last[0], last[1])
    line = AuditLine(
        number=number + 1,
        time=now,
        actor=actor[:63],
        event=event[:63],
        subject=subject[:63],
        detail=detail[:_MOST_DETAIL],
        hash="",
    )
    db.execute(insert(AUDIT), {**asdict(line), "hash": line.expected(before)})
    # The same line for whoever watches the service: what it tells of is about to be kept.
    which = "round_id" if event.startswith(("round ", "release ")) else "about"
    log.info(event, extra={"actor": line.actor, which: line.subject, "detail": line.detail})


def lines(engine: Engine) -> Iterator[AuditLine]:
    """Every line, in order."""
    with database.reading(engine) as db:
        rows = db.execution_options(yield_per=500).execute(select(AUDIT).order_by(AUDIT.c.number))
        for row in rows.mappings():
            yield AuditLine(**row)


def ends_by_reason(engine: Engine) -> dict[str, int]:
    """How many rounds ended without a release, by the code of the reason."""
    ended = AUDIT.c.event.in_(["round aborted", "round expired"])
    counted = select(AUDIT.c.detail, func.count()).where(ended).group_by(AUDIT.c.detail)
    with database.reading(engine) as db:
        return {str(row[0]): int(row[1]) for row in db.execute(counted)}


def verify_lines(given: Iterable[AuditLine], head: str | None = None) -> tuple[int, str]:
    """How many lines there are, and the last one's hash, after all were checked.

    With ``head``, a line of that hash must be among them: nothing up to it was cut off.
    """
    count, before, met = 0, START, head in (None, START)
    for line in given:
        count += 1
        if line.number != count or line.hash != line.expected(before):
            raise VerificationError(
                "the audit log was changed",
                must="lines that each hold the hash of the one before",
                got=f"line {count}",
                do="compare it with an export or a backup that was kept elsewhere",
            )
        before, met = line.hash, met or line.hash == head
    if not met:
        raise VerificationError(
            "the end of the audit log is missing",
            must=f"a line of the hash {head}",
            got=f"{count} lines",
            do="compare it with an export or a backup that was kept elsewhere",
        )
    return count, before


def export(given: Iterable[AuditLine]) -> Iterator[str]:
    """The lines as JSON texts, one each."""
    for line in given:
        yield json.dumps(asdict(line), ensure_ascii=True)


def read_export(texts: Iterable[str]) -> Iterator[AuditLine]:
    """The lines of an export."""
    for number, each in enumerate(texts, 1):
        try:
            data = json.loads(each)
            line = AuditLine(**data)
            sound = type(line.number) is int and type(line.time) is int
        except (ValueError, TypeError, RecursionError):
            sound = False
        if not sound:
            raise FormatError("the export of an audit log cannot be read", got=f"line {number}")
        yield line
