"""``diffgen`` through the same door as every method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.errors import PlanError, SchemaError
from sherd.methods.specialising.diffgen import partition_of
from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.release.protect import Settings
from sherd.tables.released_form import released_form

N = 400
RNG = np.random.default_rng(5)
AGE = RNG.integers(17, 91, N)
TABLE = pa.table(
    {
        "age": AGE,
        "job": RNG.choice(["a", "b", "c"], N),
        "income": np.where(AGE > 50, "high", "low"),
        "name": [f"p{i}" for i in range(N)],
        "note": RNG.integers(0, 9, N),
    }
)
ATTRIBUTES: dict[str, Any] = {
    "age": {"type": "integer", "domain": ["17", "90"]},
    "job": {"type": "category", "values": ["a", "b", "c"]},
    "income": {"type": "category", "role": "sensitive", "values": ["low", "high"]},
    "name": {"role": "identifier"},
    "note": {"type": "integer", "role": "insensitive"},
}


def schema(**more: Any) -> sherd.Schema:
    """The table's schema, missing cells refused unless said otherwise."""
    return sherd.Schema.from_data({"missing": "refuse", "attributes": ATTRIBUTES, **more})


def plan(**more: Any) -> sherd.Plan:
    """A plan with a class."""
    given = {"epsilon": 1.0, "class_attribute": "income", "h": 3, **more}
    return sherd.Plan(method="diffgen", **given)


def protect(table: pa.Table = TABLE, given: sherd.Schema | None = None, **more: Any) -> Any:
    """A reproducible release."""
    return sherd.protect(table, given or schema(), plan(**more), settings=Settings(seed=1))


def test_release_holds_counts_and_records() -> None:
    """Weighted rows in ``data``, expanded ones in ``records``; identifiers and notes in neither."""
    release = protect()
    data, records = release.tables["data"], release.tables["records"]
    assert data.column_names == ["age", "job", "income", "count"]
    assert records.column_names == ["age", "job", "income"]
    assert records.num_rows == N
    assert data.num_rows == 2 * release.manifest["facts"]["leaves"]
    assert release.manifest["facts"]["left_out"] == ["note"]
    assert release.order is None


def test_guarantee_is_differential_privacy_of_the_stated_epsilon() -> None:
    """Pure, of a record, without anything that leaks but for a run that is refused."""
    promised = plan(epsilon=0.5).guarantee(schema())
    assert promised.notion.as_data() == {
        "notion": "differential-privacy", "epsilon": 0.5, "delta": 0.0,
    }  # fmt: skip
    leaking = [assumption.value for assumption in promised.assumes if assumption.leaks]
    assert leaking == ["refusals-seen"]


def test_persons_with_several_rows_cost_several_times() -> None:
    """Group privacy, as the schema's unit says."""
    given = schema(unit="name", rows_per_unit=3)
    promised = plan(epsilon=0.5).guarantee(given)
    assert promised.as_data()["epsilon"] == 1.5
    assert promised.unit.value == "person"


@pytest.mark.parametrize(
    ("more", "assumption"),
    [({"missing": "drop"}, "records-dropped"), ({"outside": "drop"}, "records-dropped")],
)
def test_dropped_records_are_named(more: dict[str, Any], assumption: str) -> None:
    """What the schema leaves out because of its value is not covered, and said so."""
    assert assumption in [a.value for a in plan().guarantee(schema(**more)).assumes]


def test_values_from_the_data_are_named() -> None:
    """A list of labels taken from the data leaks, and the guarantee says so."""
    given = sherd.Schema.from_data(
        {"attributes": {**ATTRIBUTES, "job": {**ATTRIBUTES["job"], "values_from_data": True}}}
    )
    assert "order-from-data" in [a.value for a in plan().guarantee(given).assumes]


def test_kept_missing_cells_are_values_that_epsilon_covers() -> None:
    """They can be told apart like others, and no assumption is needed for it."""
    holed = TABLE.set_column(1, "job", pa.array([None if i % 2 else "a" for i in range(N)]))
    given = schema(missing="keep")
    release = protect(holed, given, epsilon=200.0, utility="spread")
    assert "(missing)" in release.tables["records"].column("job").to_pylist()
    assert "missingness-public" not in release.manifest["guarantee"]["assumes"]


def test_without_a_class_records_are_spread() -> None:
    """No class column; the utility is spread unless another is asked for, which is refused."""
    release = protect(class_attribute=None)
    assert release.tables["data"].column_names == ["age", "job", "income", "count"]
    with pytest.raises(PlanError, match="needs a class"):
        protect(class_attribute=None, utility="max")


def test_boolean_classes_and_attributes_work() -> None:
    """True and false are labels."""
    table = pa.table({"x": RNG.integers(0, 2, 50).astype(bool), "y": RNG.integers(0, 2, 50) > 0})
    given = sherd.Schema.from_data(
        {"missing": "keep", "attributes": {"x": {"type": "boolean"}, "y": {"type": "boolean"}}}
    )
    release = protect(table, given, class_attribute="y", epsilon=50.0, h=1)
    assert set(release.tables["data"].column("y").to_pylist()) == {"false", "true", "(missing)"}


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("age", "is of type integer"),
        ("name", "is an identifier"),
    ],
)
def test_unfit_classes_are_refused(target: str, problem: str) -> None:
    """A class must be labels that are released."""
    with pytest.raises(PlanError, match=problem):
        plan(class_attribute=target).check(schema())


def test_unknown_class_is_refused() -> None:
    """A class the schema does not have."""
    with pytest.raises(SchemaError, match="has no attribute 'wages'"):
        plan(class_attribute="wages").check(schema())


def test_nothing_to_generalise_is_refused() -> None:
    """A schema of nothing but the class."""
    given = sherd.Schema.from_data({"attributes": {"income": ATTRIBUTES["income"]}})
    with pytest.raises(SchemaError, match="nothing to generalise"):
        plan().check(given)


def test_undeclared_domain_is_refused() -> None:
    """Domains are never taken from the data."""
    given = sherd.Schema.from_data({"attributes": {**ATTRIBUTES, "age": {"type": "integer"}}})
    with pytest.raises(SchemaError, match="has no domain"):
        plan().check(given)


@pytest.mark.parametrize("utility", ["max", "gain", "info-gain"])
def test_with_much_epsilon_the_class_is_found(utility: str) -> None:
    """Age is cut near 50, where income changes, and counts are nearly exact."""
    release = protect(epsilon=2000.0 if utility == "info-gain" else 200.0, utility=utility, h=1)
    step = release.manifest["facts"]["specialisations"][0]
    assert step["attribute"] == "age"
    data = release.tables["data"].to_pylist()
    assert sum(abs(row["count"]) for row in data) == pytest.approx(N, abs=5)


def test_rare_epsilon_still_releases() -> None:
    """Noise far above the counts: still whole numbers and as many records as went in."""
    release = protect(epsilon=0.001)
    assert release.tables["records"].num_rows == N


def test_the_split_points_do_not_depend_on_the_data() -> None:
    """Edges lie on the public grid: a table of one value has the same labels to choose from."""
    constant = TABLE.set_column(0, "age", pa.array([40] * N))
    labels = set()
    for seed in range(30):
        release = sherd.protect(
            constant, schema(), plan(epsilon=0.01), settings=Settings(seed=seed)
        )
        labels |= set(release.tables["data"].column("age").to_pylist())
    assert len(labels) > 10


def test_partition_is_a_value_of_its_own() -> None:
    """The same run gives the partition to print; its counts are those released."""
    run = Run(randomness=Randomness.seeded(1))
    prepared = TABLE.select(["age", "job", "income", "note"])
    partition = partition_of(prepared, schema(), plan(), run)
    assert released_form(partition.weighted()).equals(protect().tables["data"])


def test_it_can_be_saved_and_loaded(tmp_path: Any) -> None:
    """Both tables are in the bundle."""
    folder = protect().save(tmp_path / "out")
    assert set(sherd.Release.load(folder).tables) == {"data", "records"}
