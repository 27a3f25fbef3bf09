"""What a test of released noise is given besides the case: the artefact and the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.auditing.noise.row_order import check_order
from sherd.release.manifest import ORDER_KEPT
from sherd.release.method import traits_of
from sherd.release.traits import loaded

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sherd.auditing.case.case import Case
    from sherd.tables.schema import Schema
    from sherd.verifying.check import Check


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The released tables and documents, what their manifest says, and the prepared original."""

    manifest: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
    documents: Mapping[str, Mapping[str, Any]]
    original: pa.Table
    schema: Schema

    @property
    def plan(self) -> Mapping[str, Any]:
        """The plan that the manifest states."""
        plan: Mapping[str, Any] = self.manifest.get("plan", {})
        return plan

    @property
    def by_rows(self) -> bool:
        """Whether several owners each protected rows of their own."""
        return bool(self.manifest.get("joint", {}).get("kind") == "horizontal")


def check_artefact(case: Case, evidence: Evidence) -> list[Check]:
    """The checks of released values against the plan; none where the plan adds no noise."""
    traits = traits_of(evidence.manifest)
    if traits is None or traits.noise is None:
        return []
    checks = []
    if case.records and ORDER_KEPT not in evidence.manifest.get("stamps", ()):
        checks.append(check_order(case))
    test = loaded(traits.noise)
    return [*checks, *test(case, evidence)]
