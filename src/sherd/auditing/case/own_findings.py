"""What a method itself found of a release's risk: the audit is never more lenient than that.

Findings are told to the owner when a release is made and are not saved with it. Of a release that
was read from its folder, those of a shadow release by the same plan stand in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sherd.release.method import REAL_SPEND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sherd.release.method import Finding


@dataclass(frozen=True, kw_only=True)
class OwnFindings:
    """The worst of a method's own findings.

    ``risk`` is what an attacker gains, as a share of what is possible, by the finding called
    ``name``; ``spent`` the epsilon that the release really spends, 0 where nobody said.
    """

    risk: float = 0.0
    name: str = ""
    spent: float = 0.0

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> OwnFindings:
        """The worst of some findings.

        >>> from sherd.release.method import Finding
        >>> one = Finding(name="membership advantage", value=0.9, meaning="bad", risk=0.9)
        >>> OwnFindings.of([one]).risk
        0.9
        """
        worst = cls()
        for one in findings:
            spent = float(one.value) if one.name == REAL_SPEND else 0.0
            worst = worst.worst(cls(risk=one.risk or 0.0, name=one.name, spent=spent))
        return worst

    def worst(self, other: OwnFindings) -> OwnFindings:
        """The worse of two, each part by itself."""
        risky = other if other.risk > self.risk else self
        return OwnFindings(risk=risky.risk, name=risky.name, spent=max(self.spent, other.spent))
