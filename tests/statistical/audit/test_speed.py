"""How long an audit of Adult takes; the million rows are in ``benchmarks/audit.py``."""

from __future__ import annotations

import time

import pytest

import sherd


@pytest.mark.slow
def test_adult_is_audited_within_a_minute() -> None:
    """48,842 records × 15 attributes: a minute of two cores, measured as processor time."""
    table, schema = sherd.datasets.load("adult"), sherd.datasets.schema("adult")
    plan = sherd.Plan(method="idp-ls", epsilon=1.0, k=100, guarantee="paper")
    release = sherd.protect(table, schema, plan)
    start = time.process_time()
    found = sherd.audit(original=table, release=release, target="income")
    assert time.process_time() - start < 60
    assert len(found.measures) > 30
