"""The fewest fragments are chosen so that they can be made loose."""

from __future__ import annotations

import importlib
import itertools
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sherd
from sherd.errors import InfeasibleError
from sherd.methods.fragmenting.constraints import Constraints
from sherd.methods.fragmenting.feasibility import excesses
from sherd.methods.fragmenting.fragmentation import breaks
from sherd.release.protect import Settings
from sherd.verifying.fragmented_tables import verify

ROWS = 600
TABLE = pa.table(
    {
        "sex": [i % 2 for i in range(ROWS)],
        "town": [i * 7 % 60 for i in range(ROWS)],
        "job": [i * 11 % 50 for i in range(ROWS)],
        "ill": [i * 13 % 200 for i in range(ROWS)],
    }
)
SCHEMA = sherd.Schema.from_data({"attributes": {name: {"type": "integer"} for name in
                                                TABLE.column_names}})  # fmt: skip


def fragmented(rules: list[list[str]], **more: Any) -> sherd.Release:
    """A release with looseness 6."""
    plan = sherd.Plan(method="fragment", constraints={"constraints": rules}, looseness=6, **more)
    return sherd.protect(TABLE, SCHEMA, plan, settings=Settings(seed=1))


def test_an_attribute_with_few_values_is_not_left_alone() -> None:
    """Two values cannot be hidden among six: ``sex`` stays with an attribute that has more."""
    rules = [["sex", "town", "job"], ["sex", "ill", "job"]]
    release = fragmented(rules)
    facts = release.manifest["facts"]
    assert facts["suppressed"] == 0
    assert all(c.passed is not False for c in verify(release.tables, release.manifest))
    held = next(f for f in facts["fragments"] if "sex" in f)
    assert {"town", "job"} & set(held)
    # ours is one of those that a search through all of them allows, and not all are
    given = Constraints.from_data({"constraints": rules})
    allowed, refused = set(), 0
    for places in itertools.product((0, 1), repeat=4):
        sides = [tuple(n for n, p in zip(TABLE.column_names, places, strict=True) if p == side)
                 for side in (0, 1)]  # fmt: skip
        if all(sides) and breaks(given, sides) is None:
            if excesses(TABLE, given, sides, (3, 2)):
                refused += 1
            else:
                allowed.add(frozenset(map(frozenset, sides)))
    assert refused > 0
    assert frozenset(map(frozenset, facts["fragments"])) in allowed


def test_the_choice_is_said_to_follow_from_the_data() -> None:
    """Frequencies decide which fragmentation fits; a given one follows from the plan alone."""
    left = fragmented([["sex", "town", "job"]]).manifest["guarantee"]["not_covered"]
    assert any("how frequent values are" in words for words in left)
    given = [["sex", "town", "ill"], ["job"]]
    told = fragmented([["sex", "town", "job"]], fragments=given).manifest["guarantee"]
    assert not any("how frequent values are" in words for words in told["not_covered"])


def test_where_none_can_be_loose_the_constraint_is_named() -> None:
    """``sex`` and ``ill`` must be apart, whatever else: no fragmentation helps."""
    with pytest.raises(InfeasibleError, match=r"\{ill, sex\}.*every fragmentation") as caught:
        fragmented([["sex", "ill"], ["town", "job"]])
    assert "values of sex are too frequent" in str(caught.value)


@pytest.mark.slow
def test_the_constraints_of_the_ipums_like_table(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a given fragmentation, at most a few tuples of 89,428 are left out."""
    monkeypatch.setenv("SHERD_DATA", str(data_dir))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "benchmarks" / "004-fragments"))
    ipums = importlib.import_module("ipums")

    given = ipums.case("two")
    rules = {"constraints": [list(c) for c in given.constraints.constraints]}
    plan = sherd.Plan(method="fragment", constraints=rules, looseness=12)
    release = sherd.protect(given.table, given.schema, plan, settings=Settings(seed=1))
    assert release.manifest["facts"]["suppressed"] < 0.001 * given.table.num_rows
    given = ipums.case("three")
    plan = sherd.Plan(
        method="fragment", constraints=given.constraints.as_data(), looseness=12, suppress=0.5,
        fragments=[list(f) for f in given.fragments], sizes=[1, 12, 12],
    )  # fmt: skip
    started = time.process_time()
    with pytest.raises(InfeasibleError, match="more even group sizes"):
        sherd.protect(given.table, given.schema, plan, settings=Settings(seed=1))
    assert time.process_time() - started < 60
    sys.modules.pop("ipums", None)


def test_what_is_told_as_clamped_is_not_released() -> None:
    """Cells outside their domain are released as its nearest end, others as the label for them."""
    table = pa.table(
        {
            "age": [i % 97 for i in range(200)],
            "paid": [i * 1.25 for i in range(200)],
            "born": pa.array([7 * i for i in range(200)], pa.date32()),
            "ill": ["abcdef"[i % 6] for i in range(200)],
        }
    )
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "age": {"type": "integer", "domain": ["10", "70"]},
                "paid": {"type": "number", "domain": ["0", "99.5"]},
                "born": {"type": "date", "domain": ["1970-01-08", "1971-01-01"]},
                "ill": {"type": "category", "values": list("abcdx"), "other": "x"},
            }
        }
    )
    plan = sherd.Plan(method="fragment", constraints={"constraints": [["age", "ill"]]}, looseness=2)
    release = sherd.protect(table, schema, plan, settings=Settings(seed=1))
    told = {f.attribute for f in release.findings if f.name in ("share clamped", "share recoded")}
    cells = {
        name: part[name].drop_null().to_pylist()
        for part in release.tables.values()
        for name in part.column_names
    }
    assert told == set(table.column_names)
    assert (min(cells["age"]), max(cells["age"])) == (10, 70)
    assert (min(cells["paid"]), max(cells["paid"])) == (0, 99.5)
    assert [str(f(cells["born"])) for f in (min, max)] == ["1970-01-08", "1971-01-01"]
    assert set(cells["ill"]) == set("abcdx")
