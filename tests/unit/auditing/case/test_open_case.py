from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.case.open_case import learns, owners_of
from sherd.auditing.run import audit
from sherd.report import markdown, page

QUICK = Limits(attacked=100, modelled=200, compared=200, queries=10, triples=1, runs=100)
BANK = {"id": {"role": "identifier"}, "pay": {"type": "integer", "domain": ["0", "999"]}}
CLINIC = {"id": {"role": "identifier"}, "age": {"type": "integer", "domain": ["0", "99"]}}
JOINT: dict[str, Any] = {
    "kind": "vertical",
    "plan": {
        "terms": {"aggregator": "registry"},
        "shares": [
            {"owner": "bank", "schema_hash": "a"},
            {"owner": "clinic", "schema_hash": "b"},
        ],
        "schemas": {"a": json.dumps({"attributes": BANK}), "b": {"attributes": CLINIC}},
    },
    "learns_beyond_the_release": {"an owner": ["<b>who</b> is everywhere"], "nobody": []},
}


def test_owners_and_their_columns_are_in_the_manifest() -> None:
    """A vertical joint release says whose columns are whose; the aggregator has none."""
    found = owners_of({"joint": JOINT})
    assert found == {"bank": ["pay"], "clinic": ["age"], "registry": []}


@pytest.mark.parametrize(
    "joint",
    [None, "x", {"kind": "horizontal"}, {"kind": "vertical"}, {"kind": "vertical", "plan": {
        "schemas": {"a": "not json"}, "shares": [{"owner": "x", "schema_hash": "a"}]}}],
)  # fmt: skip
def test_strange_manifests_name_no_owners(joint: object) -> None:
    """What is not as expected names nobody and breaks nothing."""
    assert owners_of({"joint": joint}) is None
    assert learns({"joint": joint}) == ()


def test_insiders_are_measured_and_told() -> None:
    """The audit of a joint release measures each owner and shows what taking part gives away."""
    rng = np.random.default_rng(0)
    table = pa.table({"pay": rng.integers(0, 999, 150), "age": rng.integers(0, 99, 150)})
    schema = sherd.Schema.from_data({"attributes": {"pay": BANK["pay"], "age": CLINIC["age"]}})
    made = sherd.protect(table, schema, sherd.Plan(method="dp-um", epsilon=1.0, k=3))
    made = replace(made, manifest={**made.manifest, "joint": JOINT})
    found = audit(table, made, limits=QUICK, alternatives=False)
    assert set(found["insider"].parts) == {"bank", "clinic", "registry"}
    assert found.participants == (("an owner", ("<b>who</b> is everywhere",)),)
    text = page.audit(found)
    assert "Beyond the release, an owner can learn" in text
    assert "<b>who</b>" not in text
    assert "## Beyond the release, an owner can learn" in markdown.audit(found)
