# ruff: noqa: E741 - l is the field's own name for it
"""What holding new records back tells: the limit that pages and promises state, measured.

The attacker holds all releases and knows who joined the table when. It guesses that those who
waited share the value that most of their lists have.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.errors import InfeasibleError
from sherd.guarantees.guarantee import WAITING
from sherd.methods.slicing import invariant_buckets
from sherd.methods.slicing.invariant_buckets import bucketed_again
from sherd.methods.slicing.signature_record import SignatureRecord, follow
from sherd.release.bundle import MANIFEST, digest
from sherd.verifying import verify

if TYPE_CHECKING:
    from pathlib import Path

VALUES = 8
EVEN = np.full(VALUES, 1 / VALUES)
SKEWED = np.array([0.5] + [0.5 / 7] * 7)


def waiting(rng: np.random.Generator, l: int) -> tuple[list[str], list[bool]]:
    """Values of those who wait in the second of three releases, and who of them is guessed."""
    record = SignatureRecord(
        signatures=(),
        members={},
        l=l,
        sensitive="ill",
        method="anatomy",
        key="who",
        release="",
        schema="",
        seeded=False,
    )
    values: list[str] = []
    released: list[set[str]] = []
    for joining, chances in ((60, EVEN), (20, SKEWED), (40, EVEN)):
        values += [f"+{value}" for value in rng.choice(VALUES, p=chances, size=joining)]
        keys = [str(row) for row in range(len(values))]
        record = bucketed_again(record, keys, values, rng.permutation(len(keys))).record
        released.append(set(record.members))
    waits = [key for key in map(str, range(80)) if key not in released[1]]
    came = [key for key in waits if key in released[2]]
    lists = {key: record.signatures[record.members[key][0]] for key in came}
    common = Counter(value for listed in lists.values() for value in listed)
    guessed = [max(sorted(lists[key]), key=common.__getitem__) == values[int(key)] for key in came]
    return [values[int(key)] for key in waits], guessed


@pytest.mark.parametrize("l", [2, 3])
def test_waiting_tells_more_than_one_in_l_to_whoever_knows_who_joined_when(l: int) -> None:
    """Those who wait have fewer than l values, and nearly all are guessed once they are shown."""
    rng = np.random.default_rng(1)
    runs = [waiting(rng, l) for _ in range(50)]
    assert all(len(set(values)) < l for values, _ in runs)
    guessed = [right for _, each in runs for right in each]
    assert len(guessed) > 50
    assert np.mean(guessed) > 0.9


def test_the_promise_of_a_following_release_names_what_waiting_tells(tmp_path: Path) -> None:
    """Without that line a release verifies as an earlier promise; with one less it fails."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "who": {"type": "integer", "role": "identifier"},
                "age": {"type": "integer"},
                "ill": {"type": "category", "role": "sensitive"},
            }
        }
    )
    table = pa.table({"who": range(30), "age": range(30), "ill": [f"i{i % 5}" for i in range(30)]})
    first = sherd.protect(
        table, schema, sherd.Plan(method="anatomy", l=3), settings=sherd.Settings(key="who")
    )
    assert WAITING not in first.manifest["guarantee"]["not_covered"]
    first.save(tmp_path / "first")
    assert isinstance(first.record, SignatureRecord)
    record = first.record.belonging_to(digest(tmp_path / "first" / MANIFEST))
    plan = follow(tmp_path / "first", record, schema)
    second = sherd.protect(
        table.slice(3), schema, plan, settings=sherd.Settings(key="who", past=record)
    )
    assert WAITING in second.manifest["guarantee"]["not_covered"]
    second.save(tmp_path / "second")
    assert _promise(tmp_path / "second") is True
    place = tmp_path / "second" / "manifest.json"
    manifest = json.loads(place.read_text())
    guarantee = manifest["guarantee"]
    guarantee["not_covered"].remove(WAITING)
    place.write_text(json.dumps(manifest))
    assert _promise(tmp_path / "second") is None
    del guarantee["not_covered"][0]
    place.write_text(json.dumps(manifest))
    assert _promise(tmp_path / "second") is False


def _promise(folder: Path) -> bool | None:
    (check,) = [check for check in verify(folder).checks if check.name == "promise"]
    return check.passed


PEOPLE = sherd.Schema.from_data(
    {
        "attributes": {
            "who": {"role": "identifier"},
            "age": {"type": "integer"},
            "ill": {"type": "category", "role": "sensitive"},
        }
    }
)


def people_with(ill: list[str]) -> pa.Table:
    """A table of people with these illnesses."""
    ages = [*range(len(ill))]
    return pa.table({"who": [*map(str, ages)], "age": ages, "ill": ill})


@pytest.mark.parametrize("method", ["anatomy", "slice", "mondrian"])
def test_a_first_release_leaves_nobody_out_unless_its_promise_says_so(method: str) -> None:
    """Keeping a record is no leave to hold records back that share too frequent a value."""
    table, settings = people_with(["flu"] * 11 + ["cold"] * 9), sherd.Settings(key="who")
    chosen: dict[str, Any] = {"method": method, "l": 2, "most_suppressed": 0.2}
    if method == "mondrian":
        chosen["k"] = 2
    with pytest.raises(InfeasibleError, match="suppress"):
        sherd.protect(table, PEOPLE, sherd.Plan(**chosen), ledger=None, settings=settings)
    asked = sherd.Plan(suppress=True, **chosen)
    release = sherd.protect(table, PEOPLE, asked, ledger=None, settings=settings)
    told = {finding.name: finding.value for finding in release.findings}
    assert told["held back"] == 2
    assert "records-suppressed" in release.manifest["guarantee"]["assumes"]


@pytest.mark.parametrize(("more", "helps"), [({}, "add 'suppress'"), ({"suppress": True}, "raise")])
def test_a_first_release_that_finds_too_few_places_is_refused(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], helps: str
) -> None:
    """Also where l by itself is feasible: the promise would not say who was left out."""
    real = invariant_buckets.bucketed_again
    monkeypatch.setattr(
        invariant_buckets,
        "bucketed_again",
        lambda *given, **how: replace(real(*given, **how), held_back=3),
    )
    with pytest.raises(InfeasibleError, match=helps):
        sherd.protect(
            people_with(["flu", "cold"] * 10),
            PEOPLE,
            sherd.Plan(method="anatomy", l=2, **more),
            ledger=None,
            settings=sherd.Settings(key="who"),
        )
