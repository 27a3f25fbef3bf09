"""Releases made by real owners and an aggregator are distributed as a pooled release is.

Everything is real but the network: agents with ledgers and journals, linkage, the service and
its storage, the shuffled join. Noise is far wider than the data, so that a column's distinct
released values are a sample of the clusters' noise. The two-sample Kolmogorov–Smirnov test at
a level of 1e-4 on each of the attributes: a false alarm is expected in fewer than one of a
thousand runs. Power: with the paper's equal shares a lone attribute has half the noise.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from consortium import Consortium

from sherd.federation.protocol.joint_plan import Kind, Sharing
from sherd.release.bundle import Release
from sherd.release.plan import Plan
from sherd.release.protect import protect
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.statistical

LEVEL = 1e-4
ROWS, K, EPSILON = 600, 3, 60
ROUNDS, POOLED = 3, 8
NAMES = tuple("abcd")
WHOLE = {
    name: np.random.default_rng(seed).integers(40, 60, ROWS).astype(np.float64)
    for seed, name in enumerate(NAMES)
}


def described(names: tuple[str, ...], *, key: bool) -> dict[str, Any]:
    """Numbers whose noise is small beside their domain, and people's identifiers."""
    number = {"type": "number", "domain": ["-10000000", "10000000"], "grid": "0.001"}
    people = {"id": {"type": "text", "role": "identifier"}} if key else {}
    return {"attributes": {**dict.fromkeys(names, number), **people}}


def distinct(tables: list[pa.Table]) -> dict[str, Any]:
    """Every attribute's released values, one for each cluster of each release."""
    return {
        name: np.concatenate([np.unique(table.column(name).to_numpy()) for table in tables])
        for name in NAMES
    }


def pooled() -> dict[str, Any]:
    """What one owner that had everything would release."""
    schema = Schema.from_data(described(NAMES, key=False))
    plan = Plan(method="dp-um", k=K, epsilon=float(EPSILON))
    return distinct([protect(pa.table(WHOLE), schema, plan).tables["data"] for _ in range(POOLED)])


def released(folder: Path, parts: dict[str, tuple[str, ...]], **changes: Any) -> dict[str, Any]:
    """What owners that hold these attributes release over the wire, round after round."""
    consortium = Consortium(folder)
    try:
        for seed, (owner, names) in enumerate(parts.items()):
            order = np.random.default_rng(100 + seed).permutation(ROWS)
            columns: dict[str, Any] = {name: WHOLE[name][order] for name in names}
            columns["id"] = [f"person {place}" for place in order]
            schema = json.dumps(described(names, key=True))
            consortium.add_owner(
                owner, pa.table(columns), schema, key_column="id", largest="100", lifetime="1000"
            )
        for number in range(ROUNDS):
            terms = consortium.terms(
                f"r{number}", parameters={"k": K}, epsilon=str(EPSILON), **changes
            )
            consortium.aggregator.open_round(terms)
        consortium.settle()
        folders = [consortium.aggregator.folder(f"r{number}") for number in range(ROUNDS)]
        tables = [Release.load(each).tables["data"] for each in folders]
    finally:
        consortium.close()
    assert all(table.num_rows == ROWS for table in tables)
    return distinct(tables)


def p_values(found: dict[str, Any]) -> dict[str, float]:
    """How likely the values are of the pooled release's distribution, by attribute."""
    from scipy.stats import ks_2samp

    expected = pooled()
    return {name: float(ks_2samp(found[name], expected[name]).pvalue) for name in NAMES}


def test_vertical_rounds_equal_the_pooled_release(tmp_path: Path) -> None:
    """Two owners' columns, linked, masked apart and joined, are masked as if pooled."""
    parts = {"north": ("a", "b", "c"), "south": ("d",)}
    found = p_values(released(tmp_path, parts, kind=Kind.VERTICAL))
    assert min(found.values()) > LEVEL


def test_unequal_noise_is_told_apart(tmp_path: Path) -> None:
    """The test has power: equal shares give the lone attribute half the noise, which shows."""
    parts = {"north": ("a", "b", "c"), "south": ("d",)}
    found = p_values(released(tmp_path, parts, kind=Kind.VERTICAL, sharing=Sharing.EQUAL))
    assert found["d"] < LEVEL


def test_a_horizontal_round_of_one_owner_equals_the_pooled_release(tmp_path: Path) -> None:
    """One owner's horizontal rounds release what it would release by itself."""
    found = p_values(released(tmp_path, {"north": NAMES}, kind=Kind.HORIZONTAL))
    assert min(found.values()) > LEVEL
