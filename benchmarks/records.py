"""What each paper says, how near is near enough, and the verdict recorded: ``expected.yaml``.

    F2-pattern:
      claim: "For larger ε the SSE decreases."     the paper's words
      tolerance: {rise: 0.05}                      handed to the judge by these names
      verdict: not reproduced                      of the short version
      reason: why, where it is not "reproduced"
      full: {verdict: …, reason: …}                of the full version, where it differs

A run whose verdict differs from its record ends with an error, so a verdict changes only together
with this file, and a verdict other than "reproduced" only with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

REPRODUCED, NOT_REPRODUCED, UNTOLD = "reproduced", "not reproduced", "cannot be told"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, UNTOLD)
_KEYS = {"claim", "tolerance", "verdict", "reason", "full"}


class RecordError(ValueError):
    """A record that says nothing, or something else than it must."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One claim's record."""

    claim: str = ""
    tolerance: dict[str, Any] = field(default_factory=dict)
    verdict: str | None = None
    reason: str = ""
    full: dict[str, str] = field(default_factory=dict)

    def expected(self, quick: bool) -> tuple[str | None, str]:
        """The verdict and its reason for the short or the full version."""
        if quick or not self.full:
            return self.verdict, self.reason
        return self.full["verdict"], self.full.get("reason", "")


def load(folder: Path) -> dict[str, Record]:
    """The records of a paper, checked."""
    given = yaml.safe_load((folder / "expected.yaml").read_text(encoding="utf-8")) or {}
    return {name: _record(name, data) for name, data in given.items()}


def _record(name: str, data: dict[str, Any]) -> Record:
    strange = set(data) - _KEYS
    if strange:
        raise RecordError(f"{name}: unknown key {', '.join(sorted(strange))}")
    for part in (data, data.get("full")):
        if part is None:
            continue
        verdict = part.get("verdict")
        if verdict not in VERDICTS:
            raise RecordError(f"{name}: the verdict must be one of {', '.join(VERDICTS)}")
        if verdict != REPRODUCED and not str(part.get("reason", "")).strip():
            raise RecordError(f"{name}: '{verdict}' needs a reason")
    return Record(**data)


def without_claim(records: dict[str, Record], claims: Iterable[str]) -> list[str]:
    """Records whose claim is gone: a claim must not disappear unseen."""
    return sorted(set(records) - set(claims))
