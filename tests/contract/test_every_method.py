"""What holds for every method there is, one that another package ships included."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd.auditing.case.open_case import drawable_of
from sherd.errors import PlanError
from sherd.randomness import Randomness
from sherd.release.method import DIRECTORY, Method, find
from sherd.release.traits import loaded
from sherd.verifying import verify

if TYPE_CHECKING:
    from pathlib import Path

OUTSIDE = "coarse"
METHODS = (*DIRECTORY, OUTSIDE)
ROWS = 120
AGES = [20 + (7 * i) % 60 for i in range(ROWS)]
TABLE = pa.table(
    {
        "age": AGES,
        "height": [150 + (11 * i) % 50 for i in range(ROWS)],
        "children": [i % 6 for i in range(ROWS)],
    }
)
SCHEMA = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {
            "age": {"type": "integer", "role": "quasi-identifier", "domain": [0, 100]},
            "height": {"type": "integer", "role": "quasi-identifier", "domain": [100, 220]},
            "children": {"type": "integer", "role": "sensitive", "domain": [0, 10]},
        },
    }
)
CONSTRAINTS = {"constraints": [["age", "children"], ["height", "children"]]}
PLANS: dict[str, dict[str, Any]] = {
    "dp": {"epsilon": 1.0},
    "idp": {"epsilon": 1.0},
    "dp-um": {"epsilon": 1.0, "k": 5},
    "idp-ls": {"epsilon": 1.0, "k": 5, "guarantee": "centroids"},
    "idp-cbls": {"epsilon": 1.0, "k": 5, "guarantee": "paper"},
    "slice": {"l": 2, "columns": 2, "bins": {"children": 10}},
    "mondrian": {"k": 5},
    "anatomy": {"l": 2, "bins": {"children": 10}},
    "fragment": {"looseness": 4, "constraints": CONSTRAINTS},
    "diffgen": {"epsilon": 1.0, "utility": "spread", "h": 3},
    "dp-graph": {"epsilon": 1.0, "delta": 1e-6},
    OUTSIDE: {"step": 10},
}
"""The least a plan of each method must say. A method that is not here fails the suite."""

ALONE = [name for name in METHODS if name != "arbdistdp"]
"""Methods that one owner can run; the other takes several parties and says so."""

pytestmark = pytest.mark.usefixtures("outside_methods")


def protected(name: str) -> sherd.Release:
    """A reproducible release by the method."""
    plan = sherd.Plan(method=name, **PLANS[name])
    return sherd.protect(TABLE, SCHEMA, plan, settings=sherd.Settings(seed=5, threads=1))


@pytest.mark.parametrize("name", ALONE)
def test_what_a_schema_lacks_is_told_at_once_with_what_helps(name: str) -> None:
    """Every attribute without a domain is named, and no option that the method does not have."""
    bare = {
        one.name: {"type": "integer", "role": one.role.value} for one in SCHEMA.attributes.values()
    }
    try:
        sherd.Plan(method=name, **PLANS[name]).check(sherd.Schema.from_data({"attributes": bare}))
    except sherd.SherdError as error:
        told = [str(error), *getattr(error, "__notes__", ())]
    else:
        return  # it needs no domain
    lacking = [text for text in told if "has no domain" in text]
    needs = 1 if name in ("slice", "anatomy") else len(bare)  # bins of the sensitive one alone
    assert len(lacking) == needs, told
    options = {p.flag for p in find(name).parameters}
    named = set(re.findall(r"--[a-z-]+", " ".join(told)))
    assert named <= options, "no option is advised that the method does not have"


@pytest.mark.parametrize("name", METHODS)
def test_it_says_what_it_is(name: str) -> None:
    """Name, title, summary and parameters with help."""
    method = find(name)
    assert isinstance(method, Method)
    assert method.name == name
    assert method.title
    assert method.summary.endswith(".")
    assert all(parameter.help for parameter in method.parameters)


@pytest.mark.parametrize("name", METHODS)
def test_what_it_declares_is_there(name: str) -> None:
    """Every function a declaration names can be loaded, and its parameters are the method's."""
    method = find(name)
    traits = method.traits
    assert traits.family
    assert traits.verifier is not None, "a release nobody can check is not worth publishing"
    for path in (traits.verifier, traits.facts, traits.drawing, traits.noise):
        assert path is None or callable(loaded(path))
    known = {parameter.name for parameter in method.parameters}
    assert {*traits.unless, *traits.following, *(traits.alternative or ())} <= known
    if name in DIRECTORY:
        assert traits.family in type(method).__module__.split(".")
        assert traits.verifier.startswith("sherd.verifying.")


@pytest.mark.parametrize("name", ALONE)
def test_its_release_is_what_it_declares(name: str) -> None:
    """Tables, documents and rows; where rows are records, each stands for one input row.

    Rows that are drawn from a model are as many as the records and stand for none of them.
    """
    traits, release = find(name).traits, protected(name)
    if traits.tables is not None:
        assert set(release.tables) == set(traits.tables)
    assert set(release.documents) == set(traits.documents)
    assert not (traits.rows_are_records and traits.rows_are_drawn)
    if traits.of_records(release.manifest["plan"]):
        assert sorted(release.order) == list(range(ROWS))
    if traits.rows_are_drawn:
        assert release.order is None
    if traits.of_records(release.manifest["plan"]) or traits.rows_are_drawn:
        assert release.tables["data"].num_rows == ROWS
    assert release.manifest["guarantee"]["notion"] == "no-guarantee", "it is seeded"


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_its_release_verifies(name: str, form: str, tmp_path: Path) -> None:
    """No check fails, contents and facts are checked, and it reads back whole."""
    release = protected(name)
    folder = release.save(tmp_path / "out", format=form)
    checks = {check.name: check.passed for check in verify(folder).checks}
    assert False not in checks.values(), [n for n, passed in checks.items() if passed is False]
    assert checks["facts"] is True
    back = sherd.Release.load(folder)
    assert {n: t.num_rows for n, t in back.tables.items()} == {
        n: t.num_rows for n, t in release.tables.items()
    }


@pytest.mark.parametrize("name", ALONE)
def test_its_release_verifies_before_it_is_saved(name: str) -> None:
    """What ``protect`` gave passes as its files do; a document that is taken away is missed."""
    release = protected(name)
    checks = {check.name: check.passed for check in verify(release).checks}
    assert False not in checks.values(), [n for n, passed in checks.items() if passed is False]
    assert checks["facts"] is True
    if release.documents:
        assert not verify(replace(release, documents={})).passed


@pytest.mark.parametrize("name", ALONE)
def test_a_seed_repeats_it(name: str) -> None:
    """All randomness comes from the one source it is given."""
    first, second = protected(name), protected(name)
    assert {n: t.to_pylist() for n, t in first.tables.items()} == {
        n: t.to_pylist() for n, t in second.tables.items()
    }


@pytest.mark.parametrize("name", ALONE)
def test_records_can_be_drawn_from_it(name: str) -> None:
    """The audit reads every release back as records, as the method declares."""
    release = protected(name)
    traits = find(name).traits
    assert traits.drawing or traits.of_records(release.manifest["plan"])
    drawn = next(iter(drawable_of(release.tables, release.manifest).draw(Randomness.seeded(1), 1)))
    assert set(drawn.column_names) <= set(TABLE.column_names)
    assert drawn.num_rows > 0


@pytest.mark.parametrize("name", METHODS)
def test_a_parameter_it_does_not_have_is_refused(name: str) -> None:
    """And what it must be given is named where it lacks."""
    with pytest.raises(PlanError, match="has no parameter 'magic'"):
        sherd.Plan(method=name, magic=1)
    for parameter in find(name).parameters:
        if parameter.required:
            with pytest.raises(PlanError, match="needs the parameter"):
                sherd.Plan(method=name)


def test_the_method_of_several_parties_refuses_to_run_alone() -> None:
    """It says what to run instead."""
    plan = sherd.Plan(method="arbdistdp", epsilon=1.0)
    with pytest.raises(PlanError, match="takes several parties"):
        sherd.protect(TABLE, SCHEMA, plan)
