"""The aggregator's audit log: who did what, in lines of which each holds the one before."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select, text

from sherd.federation.aggregator.storage import database
from sherd.federation.aggregator.storage.tables import AUDIT
from sherd.federation.protocol.audit_chain import START, AuditLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

log = logging.getLogger("sherd.aggregator")

_MOST_DETAIL = 2000
_LAST = select(AUDIT.c.number, AUDIT.c.hash).order_by(AUDIT.c.number.desc()).limit(1)


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
    ).after(before)
    db.execute(insert(AUDIT), asdict(line))
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
