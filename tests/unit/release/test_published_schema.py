"""What a manifest tells of the schema: nothing that only the data could have said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd.tables.infer import schema as draft
from sherd.verifying import verify

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = [f"Person {i:02d}" for i in range(40)]
TOWNS = [f"Town {i % 5}" for i in range(40)]
ATTRIBUTES: dict[str, Any] = {
    "name": {"type": "category", "role": "identifier", "values": PEOPLE, "values_from_data": True},
    "town": {"type": "category", "values": sorted(set(TOWNS)), "values_from_data": True},
    "age": {"type": "integer", "domain": [0, 99]},
    "ill": {"type": "category", "role": "sensitive", "values": ["flu", "cold", "burn"]},
    "note": {
        "type": "category",
        "role": "insensitive",
        "values": ["Town of Ann"],
        "values_from_data": True,
    },
}


def _table() -> pa.Table:
    return pa.table(
        {
            "name": PEOPLE,
            "town": TOWNS,
            "age": list(range(20, 60)),
            "ill": ["flu", "cold", "burn", "flu"] * 10,
            "note": ["x"] * 40,
        }
    )


def _schema(**more: Any) -> sherd.Schema:
    return sherd.Schema.from_data({"attributes": ATTRIBUTES, **more})


PLANS: list[dict[str, Any]] = [
    {"method": "dp", "epsilon": 1.0},
    {"method": "slice", "l": 2, "columns": 2},
    {"method": "mondrian", "k": 4},
    {"method": "anatomy", "l": 2},
    {
        "method": "fragment",
        "constraints": {"constraints": [["town", "ill"]]},
        "looseness": 2,
        "suppress": 0.9,
    },
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan["method"])
@pytest.mark.parametrize("unit", [None, "name"])
def test_no_name_is_in_a_bundle(plan: dict[str, Any], unit: str | None, tmp_path: Path) -> None:
    """A draft lists the names; once they are identifiers, no file of the release has one."""
    schema = _schema() if unit is None else _schema(unit=unit)
    release = sherd.protect(_table(), schema, sherd.Plan(**plan), ledger=None)
    release.save(tmp_path / "out", format="csv")
    raw = b"".join(file.read_bytes() for file in (tmp_path / "out").iterdir())
    assert b"Person" not in raw
    assert b"Town of Ann" not in raw
    told = release.manifest["schema"]["attributes"]
    assert told["name"] == {"type": "text", "role": "identifier"}
    # Labels taken from the data are told only by guarantees that name them as not covered.
    named = "order-from-data" in release.manifest["guarantee"]["assumes"]
    assert ("values" in told["town"]) == named
    assert verify(tmp_path / "out").passed


def test_the_published_hash_says_nothing_of_secret_values() -> None:
    """Two schemas that differ in names only are one in the manifest, and two in the ledger."""
    other = {**ATTRIBUTES, "name": {**ATTRIBUTES["name"], "values": ["Person 01"]}}
    one, two = _schema(), sherd.Schema.from_data({"attributes": other})
    assert one.hash != two.hash
    assert one.published().hash == two.published().hash
    plan = sherd.Plan(method="dp", epsilon=1.0)
    made = sherd.protect(_table(), one, plan, ledger=None)
    assert made.manifest["schema_hash"] == one.published(names_values=True).hash


def test_what_a_draft_says_of_the_data_is_not_told(tmp_path: Path) -> None:
    """A schema as ``sherd schema`` drafts it, made strict by its owner, gives nothing away."""
    path = tmp_path / "people.yaml"
    path.write_text(draft(_table(), name="people").yaml(), encoding="utf-8")
    drafted = sherd.Schema.load(path).as_data()
    drafted["attributes"]["name"]["role"] = "identifier"
    for name in ("town", "note"):
        drafted["attributes"][name]["role"] = "identifier"
    drafted["attributes"]["age"]["domain"] = ["0", "99"]
    drafted["attributes"]["age"]["recode"] = "50"
    drafted["attributes"]["ill"] = {
        "type": "category", "values": ["flu", "cold", "burn"], "recode": "cold"
    }  # fmt: skip
    drafted |= {"missing": "recode", "unit": "name"}
    schema = sherd.Schema.from_data(drafted)
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=5, guarantee="strict")
    manifest = sherd.protect(_table(), schema, plan, ledger=None).manifest
    assert "everything" in manifest["guarantee"]["covers"]
    text = json.dumps(manifest)
    assert "Person" not in text
    assert "Town" not in text


def test_the_account_s_name_says_nothing_of_secret_values(tmp_path: Path) -> None:
    """An account that is named after the schema is told without what the schema keeps secret."""
    other = {**ATTRIBUTES, "name": {**ATTRIBUTES["name"], "values": PEOPLE[:-1]}}
    schemas = _schema(), sherd.Schema.from_data({"attributes": other})
    plan = sherd.Plan(method="dp", epsilon=1.0)
    ledger = sherd.Ledger(tmp_path / "ledger.db")
    told = {
        sherd.protect(_table(), schema, plan, ledger=ledger).manifest["budget"]["population"]
        for schema in schemas
    }
    assert told == {f"unnamed-{schemas[0].published(names_values=True).hash[:12]}"}
    assert {one.population for one in ledger.accounts()} == {
        f"unnamed-{schema.hash[:12]}" for schema in schemas
    }


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan["method"])
def test_a_taxonomy_over_labels_from_the_data_is_told_where_it_is_named(
    plan: dict[str, Any], tmp_path: Path
) -> None:
    """Its leaves are those labels: told only by a guarantee that names them as not covered."""
    paths = [[town, "any"] for town in [*sorted(set(TOWNS)), "Town of Bob"]]
    town = {**ATTRIBUTES["town"], "taxonomy": paths}
    schema = sherd.Schema.from_data({"attributes": {**ATTRIBUTES, "town": town}})
    release = sherd.protect(_table(), schema, sherd.Plan(**plan), ledger=None)
    release.save(tmp_path / "out", format="csv")
    raw = b"".join(file.read_bytes() for file in (tmp_path / "out").iterdir())
    named = "order-from-data" in release.manifest["guarantee"]["assumes"]
    assert named == (plan["method"] in ("dp", "mondrian"))
    assert (b"Town of Bob" in raw) == named
    assert verify(tmp_path / "out").passed
