"""Lines of an audit log, of which each holds the one before.

A line's hash covers the line and the hash of its predecessor, so that no line can be changed, added
or taken out between two others unseen. That the end was not cut off is seen by comparing the last
hash with one that was kept elsewhere: exports and backups hold it. Lines name people, rounds,
states and reasons, never data.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from sherd.errors import FormatError, VerificationError
from sherd.values import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

START = "0" * 64
"""What the first line has for the hash of the line before."""


@dataclass(frozen=True, kw_only=True)
class AuditLine:
    """One line of the audit log; ``subject`` is the round or the member that it is about."""

    number: int
    time: int
    actor: str
    event: str
    subject: str
    detail: str
    hash: str = ""

    def expected(self, before: str) -> str:
        """The hash that the line must have after another."""
        about = [self.number, self.time, self.actor, self.event, self.subject, self.detail]
        return digest(["sherd-audit-1", before, *about])

    def after(self, before: str) -> AuditLine:
        """The line with the hash that it has after another."""
        return replace(self, hash=self.expected(before))


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
