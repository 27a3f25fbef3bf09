from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import (
    FormatError,
    InfeasibleError,
    PlanError,
    SchemaError,
    TableError,
    UsageError,
)
from sherd.methods.fragmenting.next_release_plan import follow
from sherd.methods.fragmenting.private_record import Kept, marks_of
from sherd.release.plan import Plan
from sherd.release.protect import Settings, protect
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.release.bundle import Release

NAMES = ("a", "b", "c", "d")
SCHEMA = Schema.from_data(
    {
        "attributes": {
            "id": {"type": "category", "role": "identifier"},
            **{name: {"type": "integer"} for name in NAMES},
        }
    }
)
PLAN = Plan(
    method="fragment", looseness=4, constraints={"constraints": [["a", "c"], ["b", "d"]]}, block=40
)


def table_of(numbers: range) -> pa.Table:
    """A row for every number, the same one whenever it is asked for."""
    rows = [np.random.default_rng(i).integers(0, 80, 4) for i in numbers]
    values = {name: [int(row[at]) for row in rows] for at, name in enumerate(NAMES)}
    return pa.table({"id": [f"p{i}" for i in numbers], **values})


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Kept]:
    """A first release on disk, and its record."""
    folder = tmp_path_factory.mktemp("first") / "one"
    release = protect(table_of(range(200)), SCHEMA, PLAN, settings=Settings(key="id"))
    release.save(folder)
    assert isinstance(release.record, Kept)
    assert release.record.release == "", "a release in memory has no manifest yet"
    return folder, release.record.of(folder)


def following(plan: Plan, record: Any, numbers: range = range(200), key: str = "id") -> Release:
    """The next release, in memory."""
    return protect(table_of(numbers), SCHEMA, plan, settings=Settings(key=key, past=record))


def test_a_release_follows_in_python(first: tuple[Path, Kept]) -> None:
    """The plan comes from the old release; nothing changed, so that everything is kept."""
    folder, record = first
    plan = follow(folder, record, SCHEMA, {"looseness": 4, "window": 5})
    assert plan["window"] == 5
    assert plan["after"]["release"] == record.release
    words = plan.guarantee(SCHEMA).words()
    assert record.release in words
    assert "knows who was deleted" not in words
    release = following(plan, record)
    shown = {finding.name: finding.value for finding in release.findings}
    assert (shown["deleted"], shown["changed"], shown["appended"]) == (0, 0, 0)
    groups = record.groups[:, record.released]
    assert isinstance(release.record, Kept)
    assert (release.record.groups[:, record.released] == groups).all()


def test_whole_groups_rest_on_one_more_assumption(first: tuple[Path, Kept]) -> None:
    """The promise says so before any data is read."""
    folder, record = first
    plan = follow(folder, record, SCHEMA, {"withdraw": "groups"})
    assert "knows who was deleted" in plan.guarantee(SCHEMA).words()


def test_a_plan_cannot_follow_what_does_not_fit(first: tuple[Path, Kept], tmp_path: Path) -> None:
    """Another kind of release, a kept order, a record of no bundle, another schema."""
    folder, record = first
    with pytest.raises(UsageError, match="not that of the old release"):
        follow(folder, replace(record, release=""), SCHEMA)
    other = Schema.from_data({"attributes": {name: {"type": "number"} for name in NAMES}})
    with pytest.raises(SchemaError, match="not that of the old release"):
        follow(folder, record, other)
    manifest = json.loads((folder / "manifest.json").read_text())
    for change, text in (
        ({"plan": {"method": "dp"}}, "not made of fragments"),
        ({"stamps": ["order of rows kept: not for publication"]}, "not for publication"),
    ):
        (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(UsageError, match=text):
            follow(tmp_path, record.of(tmp_path), SCHEMA)


def test_parameters_of_a_next_release_belong_together() -> None:
    """None of them without the others, and no name of a release that was made up."""
    data = PLAN.as_data()
    with pytest.raises(PlanError, match="follows another"):
        Plan.from_data({**data, "withdraw": "groups"}).guarantee(SCHEMA)
    with pytest.raises(PlanError, match="'after' parameter"):
        Plan.from_data({**data, "after": {"release": 1}}).guarantee(SCHEMA)


def test_a_run_needs_plan_record_and_key(first: tuple[Path, Kept]) -> None:
    """Each of them missing, or of another release, is refused."""
    folder, record = first
    plan = follow(folder, record, SCHEMA)
    for settings in (Settings(key="id"), Settings(past=record)):
        with pytest.raises(PlanError, match=r"needs three things|needs the key"):
            protect(table_of(range(200)), SCHEMA, plan, settings=settings)
    with pytest.raises(PlanError, match="three things"):
        following(PLAN, record)
    with pytest.raises(UsageError, match="which the plan follows"):
        following(plan, replace(record, release="0"))
    with pytest.raises(SchemaError, match="not that of the old release"):
        following(plan, replace(record, schema="0"))
    with pytest.raises(PlanError, match="record is kept by"):
        following(plan, replace(record, key="name"))
    lacking = replace(record, groups=record.groups[:1], used=record.used[:1], marks=None)
    with pytest.raises(FormatError, match="number of fragments"):
        following(plan, lacking)


def test_nothing_left_is_refused(first: tuple[Path, Kept]) -> None:
    """A table in which everybody is new to the release, but too few to be hidden."""
    folder, record = first
    plan = follow(folder, record, SCHEMA, {"most_withdrawn": 1})
    with pytest.raises(InfeasibleError, match="nothing would be left"):
        following(plan, record, range(1000, 1002))


def test_keys_must_be_there_and_other_methods_keep_no_record() -> None:
    """An empty key is refused; so is a record of rows that have no groups."""
    table = table_of(range(3))
    with pytest.raises(TableError, match="tuples have no key"):
        protect(
            table.set_column(0, "id", pa.array(["x", None, "y"])), SCHEMA, PLAN,
            settings=Settings(key="id"),
        )  # fmt: skip
    schema = Schema.from_data(
        {
            "attributes": {
                "id": {"type": "category", "role": "identifier"},
                "a": {"type": "number", "domain": [0, 80]},
            }
        }
    )
    with pytest.raises(PlanError, match="keeps no record"):
        protect(
            table.select(["id", "a"]), schema, Plan(method="dp", epsilon=1),
            settings=Settings(key="id"),
        )  # fmt: skip


def test_marks_do_not_depend_on_how_values_are_stored() -> None:
    """The same values from another file format are not taken for changed ones."""
    plain = pa.table({"n": [1, 2], "t": ["x", None]})
    other = pa.table({"n": pa.array([1.0, 2.0]), "t": pa.array(["x", None]).dictionary_encode()})
    assert (marks_of(plain, [["n", "t"]]) == marks_of(other, [["n", "t"]])).all()
    assert (marks_of(plain, [["n", "t"]])[0, 0] != marks_of(plain, [["n", "t"]])[0, 1]).all()
