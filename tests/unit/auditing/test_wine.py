"""What the report says of white wine: the closest method of the papers, and plain noise."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.run import audit
from sherd.report import page

if TYPE_CHECKING:
    from sherd.auditing.verdict.audit_result import Audit

QUICK = Limits(attacked=500, modelled=4_000, compared=2_000, queries=60, triples=10, runs=400)


@cache
def audit_of(method: str) -> Audit:
    """The audit of white wine protected with ε = 1."""
    wine = sherd.datasets.load("wine")
    white = wine.filter(pc.equal(wine["color"], "white"))
    more: dict[str, Any] = {"k": 5, "guarantee": "paper"} if method == "idp-cbls" else {}
    plan = sherd.Plan(method=method, epsilon=1.0, **more)
    release = sherd.protect(white, sherd.datasets.schema("wine"), plan)
    return audit(white, release, target="quality", limits=QUICK, alternatives=False)


def first_screen(audit: Audit) -> str:
    """What stands above the first section."""
    return page.audit(audit).split('<main id="main">')[0].split("<body>")[1]


def test_cluster_based_noise_leaves_most_cells_and_records_open() -> None:
    """idp-cbls, k = 5: cells are originals, linkage succeeds, the promise fails; said first."""
    audit = audit_of("idp-cbls")
    assert audit["unchanged"].value > 0.8
    assert audit["linkage"].value > 0.6
    verdict = audit.verdict
    assert (verdict.risk, verdict.usefulness, verdict.promise) == ("serious", "high", "fails")
    text = first_screen(audit)
    assert "Not safe to publish" in text
    assert "of protected cells are unchanged originals" in text
    assert "Most (" in text
    assert "finds their record in most (" in text
    assert "does not hold once clusters are recomputed" in text


def test_plain_noise_protects_and_destroys() -> None:
    """dp: hardly a cell is unchanged, linkage is chance, the promise holds, little is left."""
    audit = audit_of("dp")
    chance = audit["unchanged"].baseline
    assert chance is not None
    assert audit["unchanged"].value == pytest.approx(chance, abs=0.01)
    assert audit["linkage"].value < 0.01
    verdict = audit.verdict
    assert (verdict.risk, verdict.usefulness, verdict.promise) == ("low", "poor", "holds")
    text = first_screen(audit)
    assert "The attacks we ran do" in text
    assert "it keeps little of what the data says" in text
    assert "Most (" not in text


def test_the_claim_is_exceeded_many_times_over() -> None:
    """The ordered centroids of white wine spend many times the claimed ε."""
    audit = audit_of("idp-cbls")
    assert audit["loss-factor"].value > 20
