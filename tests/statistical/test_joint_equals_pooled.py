"""Vertical releases equal centralised ones in distribution; so does one horizontal owner.

The two-sample Kolmogorov–Smirnov test at a level of 1e-4 on each of the attributes: a false
alarm is expected in fewer than one of a thousand runs. Power: the paper's equal shares,
which give an attribute of a 3/1 split twice its share, or 1.5 times less, must be told apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.federation.protocol.composition import make_plan
from sherd.federation.protocol.joint_plan import (
    JointPlan,
    Kind,
    Linkage,
    Offer,
    Sharing,
    Terms,
    write_schema,
)
from sherd.federation.protocol.joint_release import pooled_plan, pooled_schema
from sherd.release.protect import Settings, protect
from sherd.tables.schema import Schema

pytestmark = pytest.mark.statistical

LEVEL = 1e-4
RUNS = 10
ROWS = 300
PARTS = {"north": ("a", "b", "c"), "south": ("d",)}
WHOLE = pa.table(
    {
        name: np.sort(np.random.default_rng(seed).integers(40, 60, ROWS)).astype(np.float64)
        for seed, name in enumerate("abcd")
    }
)


def schema(names: tuple[str, ...]) -> Schema:
    """Numbers whose noise is small beside their domain, so that clamping hardly shows."""
    domain = {"type": "number", "domain": ["-1000000", "1000000"], "grid": "0.001"}
    return Schema.from_data({"attributes": dict.fromkeys(names, domain)})


def joint_plan(kind: Kind, parts: dict[str, tuple[str, ...]], **changes: Any) -> JointPlan:
    """The plan an aggregator makes of these owners' offers."""
    terms = Terms(
        round="r1",
        aggregator="registry",
        kind=kind,
        owners=tuple(parts),
        method="dp-um",
        parameters={"k": 3},
        epsilon="60",
        linkage=Linkage.OPRF if kind is Kind.VERTICAL else Linkage.NONE,
        deadline=1,
        **changes,
    )
    offers = {
        owner: Offer(schema=write_schema(schema(names)), rows=ROWS, key=True)
        for owner, names in parts.items()
    }
    return make_plan(terms, offers, dict.fromkeys(parts, "00" * 32), "00" * 32)


def samples(table: pa.Table, shape: Schema, plan: Any) -> dict[str, Any]:
    """The noise of every cluster of every attribute; columns are sorted, so clusters are known."""
    found: dict[str, list[Any]] = {name: [] for name in shape.protected}
    for _ in range(RUNS):
        masked = protect(table, shape, plan, settings=Settings(keep_order=True, threads=1))
        for name, values in found.items():
            centroids = table.column(name).to_numpy().reshape(-1, 3).mean(axis=1)
            values.append(masked.tables["data"].column(name).to_numpy()[::3] - centroids)
    return {name: np.concatenate(values) for name, values in found.items()}


def p_values(plan: JointPlan) -> dict[str, float]:
    """How likely the joint and the pooled masks are of one distribution, by attribute."""
    from scipy.stats import ks_2samp

    pooled = samples(WHOLE, pooled_schema(plan), pooled_plan(plan))
    found = {}
    for owner in plan.owners:
        part = plan.schema(owner)
        own = samples(WHOLE.select(list(part.attributes)), part, plan.local(owner))
        for name, values in own.items():
            found[name] = float(ks_2samp(values, pooled[name]).pvalue)
    return found


def test_vertical_equals_centralised() -> None:
    """With shares by attributes, every attribute is masked as in the pooled table."""
    found = p_values(joint_plan(Kind.VERTICAL, PARTS))
    assert set(found) == set("abcd")
    assert min(found.values()) > LEVEL


def test_equal_shares_are_told_apart() -> None:
    """The test has power: the paper's equal shares mask a lone attribute with less noise."""
    found = p_values(joint_plan(Kind.VERTICAL, PARTS, sharing=Sharing.EQUAL))
    assert found["d"] < LEVEL


def test_horizontal_with_one_owner_equals_centralised() -> None:
    """One owner's plan is the pooled plan, word for word, and masks alike."""
    plan = joint_plan(Kind.HORIZONTAL, {"north": tuple("abcd")})
    assert plan.local("north") == pooled_plan(plan)
    assert plan.schema("north").hash == pooled_schema(plan).hash
    assert min(p_values(plan).values()) > LEVEL
