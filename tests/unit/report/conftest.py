"""Small audits to report on."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.case.case import Limits
from sherd.report.reporting import audit as audit_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.auditing.verdict.audit_result import Audit

QUICK = Limits(attacked=200, modelled=400, compared=300, queries=20, triples=3, runs=200)
SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "100"]},
            "pay": {"type": "number", "domain": ["0", "5000"], "grid": "1"},
            "since": {"type": "date", "domain": ["2000-01-01", "2025-12-31"]},
            "job": {"type": "category", "values": [f"job {i:02}" for i in range(15)]},
            "ill": {"type": "boolean", "role": "sensitive"},
        }
    }
)


def table(n: int = 300) -> pa.Table:
    """People of every type of attribute."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n)
    return pa.table(
        {
            "age": age,
            "pay": np.rint(age * 40 + rng.normal(0, 100, n)).clip(0, 5000),
            "since": pa.array((11_000 + rng.integers(0, 9000, n)).astype(np.int32)).cast(
                pa.date32()
            ),
            "job": [f"job {i:02}" for i in (age // 5 - 3).clip(0, 14)],
            "ill": rng.random(n) < age / 100,
        }
    )


@cache
def _audit_of(method: str, *, alternatives: bool = False) -> Audit:
    """An audit of the table protected by a method."""
    more: dict[str, Any] = {}
    if method not in ("dp", "idp"):
        more = {"k": 4, "guarantee": "paper"}
    plan = sherd.Plan(method=method, epsilon=1.0, **more)
    release = sherd.protect(table(), SCHEMA, plan, settings=sherd.Settings(seed=1))
    return audit_table(table(), release, limits=QUICK, alternatives=alternatives)


@pytest.fixture(scope="session")
def audit_of() -> Callable[..., Audit]:
    """Audits of the table protected by a method; each is made once."""
    return _audit_of


@pytest.fixture(scope="session")
def audit() -> Audit:
    """A small audit with everything in it."""
    return _audit_of("idp-cbls", alternatives=True)


@pytest.fixture(scope="session")
def text(audit: Audit) -> str:
    """Its page."""
    from sherd.report import page

    return page.audit(audit)
