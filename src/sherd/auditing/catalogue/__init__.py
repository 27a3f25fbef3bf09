"""Every measure the audit knows: definition, range, meaning, label. The documentation's source.

``docs/reference/measures.md`` lists the same, by test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.auditing.catalogue.promise_measures import PROMISE
from sherd.auditing.catalogue.risk_measures import RISK
from sherd.auditing.catalogue.utility_measures import UTILITY

if TYPE_CHECKING:
    from sherd.auditing.verdict.measure import Spec

CATALOGUE: dict[str, Spec] = {spec.code: spec for spec in (*UTILITY, *RISK, *PROMISE)}
"""Every measure by its code, in the order of the report."""
