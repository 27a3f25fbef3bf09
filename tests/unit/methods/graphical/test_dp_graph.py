"""The method as a whole: types, missing cells, rules, refusals, and who is given the table."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.errors import PlanError, SchemaError, SherdError
from sherd.guarantees import Assumption
from sherd.methods.graphical import dp_graph
from sherd.release.protect import Settings

N = 400
RNG = np.random.default_rng(11)
PEOPLE = pa.table(
    {
        "age": RNG.integers(0, 90, N),
        "sex": RNG.choice(["f", "m"], N),
        "wage": RNG.gamma(2, 1000, N).round(2),
        "since": pa.array((RNG.integers(0, 9000, N) + 7000).astype(np.int32)).cast(pa.date32()),
        "member": RNG.integers(0, 2, N).astype(bool),
    }
)
ATTRIBUTES: dict[str, Any] = {
    "age": {"type": "integer", "domain": ["0", "99"]},
    "sex": {"type": "category", "values": ["f", "m"]},
    "wage": {"type": "number", "domain": ["0", "20000"], "grid": "0.01"},
    "since": {"type": "date", "domain": ["1980-01-01", "2020-12-31"]},
    "member": {"type": "boolean"},
}


def schema(**more: Any) -> sherd.Schema:
    """The schema of the people."""
    return sherd.Schema.from_data({"attributes": ATTRIBUTES, "missing": "refuse", **more})


def plan(**more: Any) -> sherd.Plan:
    """A plan with a little noise."""
    return sherd.Plan(method="dp-graph", **{"epsilon": 5.0, "delta": 1e-6, **more})


def released(table: Any = PEOPLE, given: sherd.Schema | None = None, **more: Any) -> sherd.Release:
    """A reproducible release."""
    settings = Settings(seed=2, threads=1)
    return sherd.protect(table, given or schema(), plan(**more), settings=settings)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"delta": None},
        {"choice": "all"},
        {"class_attribute": "sex"},
        {"class_attribute": "member", "choice": "all", "delta": None},
        {"choice": "workload", "workload": [["age", "sex"], ["sex", "wage", "member"]]},
    ],
    ids=str,
)
def test_every_way_makes_a_table_of_the_same_form(more: dict[str, Any]) -> None:
    """As many rows, the same columns and types, values of the domain only."""
    table = released(**more).table
    assert table.schema == PEOPLE.schema
    assert table.num_rows == N
    assert set(table.column("sex").to_pylist()) <= {"f", "m"}
    assert 0 <= min(table.column("age").to_pylist()) <= max(table.column("age").to_pylist()) <= 99
    wages = np.array(table.column("wage").to_pylist())
    assert 0 <= wages.min() <= wages.max() <= 20_000
    np.testing.assert_allclose(wages * 100, np.rint(wages * 100), atol=1e-6)


def test_association_survives_a_large_epsilon() -> None:
    """What goes together in the table goes together in the release."""
    x = RNG.integers(0, 4, 5000)
    table = pa.table(
        {"x": x, "y": (x + RNG.integers(0, 2, 5000)) % 4, "z": RNG.integers(0, 4, 5000)}
    )
    four = {"type": "integer", "domain": ["0", "3"]}
    given = sherd.Schema.from_data({"attributes": dict.fromkeys("xyz", four), "missing": "refuse"})
    found = released(table, given, epsilon=50.0).table
    real, drawn = (
        np.histogram2d(t.column("x").to_numpy(), t.column("y").to_numpy(), 4)[0] / 5000
        for t in (table, found)
    )
    assert np.abs(real - drawn).sum() / 2 < 0.02
    assert np.abs(np.outer(real.sum(1), real.sum(0)) - real).sum() / 2 > 0.2


def test_missing_cells_are_values_like_others() -> None:
    """Kept, they are released in about their number, epsilon covers them, and types stay."""
    ages = pa.array([None if i % 4 == 0 else int(v) for i, v in enumerate(RNG.integers(0, 90, N))])
    table = PEOPLE.set_column(0, "age", ages)
    release = released(table, schema(missing="keep"), epsilon=50.0)
    assert 80 <= release.table.column("age").null_count <= 120
    assert release.table.schema == table.schema
    assert "missingness-public" not in release.manifest["guarantee"]["assumes"]


def test_a_column_without_values_keeps_its_declared_type() -> None:
    """Arrow's null type would say that nobody has a value."""
    table = PEOPLE.set_column(0, "age", pa.nulls(N))
    release = released(table, schema(missing="keep"))
    assert release.table.schema.field("age").type == pa.int64()


@pytest.mark.parametrize("choice", ["all", "tree"])
@pytest.mark.parametrize(
    ("epsilon", "times", "others"), [(0.2, 1, False), (0.2, 10, True), (1.0, 1, True)]
)
def test_no_record_breaks_a_public_rule(
    epsilon: float, times: int, others: bool, choice: str
) -> None:
    """Excluded combinations never occur, whatever the noise; others do, about as often as before.

    But at ε = 0.2 a count of 400 records has noise with a deviation of 130: it may say of anything
    that it does not occur.
    """
    rules = [{"age": [0, 14], "member": [True]}, {"sex": ["m"], "wage": ["15000", "20000"]}]
    people = pa.concat_tables([PEOPLE] * times)
    table = released(people, epsilon=epsilon, rules=rules, choice=choice).table.to_pylist()
    assert not [r for r in table if r["age"] <= 14 and r["member"]]
    assert not [r for r in table if r["sex"] == "m" and r["wage"] >= 15_000]
    if others:
        young = sum(r["age"] <= 14 for r in table) / len(table)
        members = sum(r["member"] for r in table) / len(table)
        # Before: 78 of 400 are young, half of them members (excluded by the rule); 221 members.
        assert 0.03 < young < 0.25
        assert 0.4 < members < 0.65


def test_the_smallest_tables_work() -> None:
    """One row and one column; one row and two."""
    one = sherd.Schema.from_data({"attributes": {"sex": ATTRIBUTES["sex"]}, "missing": "refuse"})
    assert released(pa.table({"sex": ["f"]}), one).table.num_rows == 1
    assert released(PEOPLE.slice(0, 1)).table.num_rows == 1
    two = {name: ATTRIBUTES[name] for name in ("sex", "member")}
    given = sherd.Schema.from_data({"attributes": two, "missing": "refuse"})
    assert released(PEOPLE.select(list(two)), given, class_attribute="sex").table.num_rows == N


def test_what_is_not_protected_is_left_out() -> None:
    """Released rows are nobody's, so insensitive columns cannot stand beside them."""
    attributes = {**ATTRIBUTES, "note": {"type": "text", "role": "insensitive"}}
    given = sherd.Schema.from_data({"attributes": attributes, "missing": "refuse"})
    release = released(PEOPLE.append_column("note", pa.array(["x"] * N)), given)
    assert release.table.column_names == PEOPLE.column_names
    assert release.manifest["facts"]["left_out"] == ["note"]
    assert release.order is None


def test_the_guarantee_covers_everything_and_needs_no_data() -> None:
    """Pure without delta, (ε, δ) with it; a person with several rows gets the sum."""
    pure, both = plan(delta=None).guarantee(schema()), plan().guarantee(schema())
    assert pure.as_data()["delta"] == 0
    assert (both.as_data()["epsilon"], both.as_data()["delta"]) == (5.0, 1e-6)
    assert [a for a in both.assumes if a.leaks] == [Assumption.REFUSALS_SEEN]
    attributes = {**ATTRIBUTES, "id": {"role": "identifier"}}
    several = sherd.Schema.from_data(
        {"attributes": attributes, "missing": "refuse", "unit": "id", "rows_per_unit": 3}
    )
    assert plan().guarantee(several).as_data()["epsilon"] == 15.0
    single, each = (dp_graph.total_of(plan(), s) for s in (schema(), several))
    # Nine times the cost of a row is what the person's (15, δ) allows.
    assert each > single / 9
    from sherd.guarantees.concentrated import delta_of

    assert float(delta_of(each * 9, plan().exact("epsilon") * 3)) <= 1e-6


BAD: list[tuple[dict[str, Any], type[SherdError], str]] = [
    ({"delta": 0}, PlanError, "'delta'"),
    ({"delta": 1.5}, PlanError, "'delta'"),
    ({"choice": "best"}, PlanError, "'choice'"),
    ({"choice": "workload"}, PlanError, "do not fit together"),
    ({"workload": [["age", "sex"]]}, PlanError, "do not fit together"),
    ({"choice": "workload", "workload": ["age"]}, PlanError, "lists of 2 to 4"),
    ({"choice": "workload", "workload": [["age"]]}, PlanError, "lists of 2 to 4"),
    ({"choice": "workload", "workload": [["age", "nobody"]]}, PlanError, "not released"),
    ({"choice": "workload", "workload": [["age", "sex"], ["sex", "age"]]}, PlanError, "twice"),
    ({"class_attribute": "nobody"}, PlanError, "not released"),
    ({"class_attribute": "age"}, PlanError, "of type integer"),
    ({"rules": ["age"]}, PlanError, "rule cannot be understood"),
    ({"rules": [{"nobody": [1, 2]}]}, PlanError, "not released"),
    ({"rules": [{"age": 3}]}, PlanError, "values of 'age'"),
    ({"rules": [{"age": [3]}]}, PlanError, "values of 'age'"),
    ({"rules": [{"age": ["x", "y"]}]}, PlanError, "values of 'age'"),
    ({"rules": [{"age": [200, 300]}]}, PlanError, "values of 'age'"),
    ({"rules": [{"sex": ["neither"]}]}, PlanError, "values of 'sex'"),
]


@pytest.mark.parametrize(("change", "error", "text"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_plans_are_refused(change: dict[str, Any], error: type[SherdError], text: str) -> None:
    """Every bad parameter gets a message that says what it must be."""
    with pytest.raises(error, match=text):
        plan(**change).check(schema())


def test_bad_schemas_are_refused() -> None:
    """Nothing to protect, no domain, free text."""
    for attributes, text in (
        ({"y": {"type": "number", "role": "insensitive"}}, "nothing to protect"),
        ({"x": {"type": "number"}}, "no domain"),
        ({"x": {"type": "text"}}, "cannot be masked"),
    ):
        with pytest.raises(SchemaError, match=text):
            plan().check(sherd.Schema.from_data({"attributes": attributes}))
    everything = {"sex": ["f", "m"]}
    with pytest.raises(PlanError, match="exclude every record"):
        plan(rules=[everything]).check(schema())


def test_the_document_is_plain_and_complete(tmp_path: Path) -> None:
    """Saved as JSON and read back: every measurement with its noise."""
    release = released(class_attribute="sex")
    release.save(tmp_path / "out")
    again = sherd.Release.load(tmp_path / "out")
    model = again.documents["model"]
    assert model == json.loads(json.dumps(release.documents["model"]))
    assert len(model["fine"]) == len(ATTRIBUTES)
    assert [one["attributes"] for one in model["marginals"]] == again.manifest["facts"]["measured"]
    assert all("sex" in one["attributes"] for one in model["marginals"])


HANDED_THE_DATA = {"measuring", "private_choice", "dp_graph", "fragment_numbers"}
"""The modules that may hold counts without noise or codes of records."""

DOORS = {"CodedTable", "CountSource", "NoisyCounts", "NoisyChoice"}


def modules() -> list[str]:
    """Every module of the method's folder."""
    folder = Path(dp_graph.__file__).parent
    return sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", [m for m in modules() if m not in HANDED_THE_DATA])
def test_nothing_after_the_noise_is_given_the_table(name: str) -> None:
    """No other module imports a way to exact counts or tables, or takes one as an argument."""
    module = importlib.import_module(f"sherd.methods.graphical.{name}")
    tree = ast.parse(inspect.getsource(module))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    # Records drawn from a model are counted like any others: they are not the data.
    assert not imported & DOORS or (name == "learning" and imported & DOORS == {"CodedTable"})
    arguments = [
        ast.unparse(argument.annotation)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if argument.annotation is not None
    ]
    banned = ("pa.Table", "CodedTable", "CountSource", "NoisyCounts", "NoisyChoice")
    assert not [text for text in arguments if any(word in text for word in banned)]
    if name != "public_grid":
        assert "pa.ChunkedArray" not in " ".join(arguments)


def test_only_the_learning_asks_for_numbers() -> None:
    """``Measurer`` and ``Chooser`` are taken by learning alone, and what it makes is passed on.

    ``secure_measuring`` is a measurer itself: what it opens is noisy. ``joint_cells`` hands it on.
    """
    for name in modules():
        if name in HANDED_THE_DATA | {"learning", "secure_measuring", "joint_cells"}:
            continue
        module = importlib.import_module(f"sherd.methods.graphical.{name}")
        source = inspect.getsource(module)
        assert "Measurer" not in source.replace("``Measurer``", "")
        assert "Chooser" not in source


def test_the_release_is_a_function_of_what_was_learned() -> None:
    """``released`` takes the learned model, the schema, types and random numbers: no table."""
    names = list(inspect.signature(dp_graph.released).parameters)
    assert names == ["learned", "schema", "kinds", "rng"]


@pytest.mark.parametrize("more", [{}, {"class_attribute": "sex"}, {"delta": None}], ids=str)
def test_no_missing_cells_are_drawn_where_there_are_none(more: dict[str, Any]) -> None:
    """Noise on the count of missing cells is not taken for missing cells, in any type.

    The noise of five counts stays below four deviations but for one release in a hundred (Laplace);
    seeds are fixed.
    """
    given = schema(missing="keep")
    for seed in range(4):
        release = sherd.protect(
            PEOPLE, given, plan(epsilon=1.0, **more), settings=Settings(seed=seed, threads=1)
        )
        assert [column.null_count for column in release.table.columns] == [0] * 5


def test_missing_cells_that_a_rule_is_not_about_are_not_drawn_either() -> None:
    """A rule cuts the attribute; its missing cells still need to stand out."""
    rules = [{"age": [0, 14], "member": [True]}]
    table = released(PEOPLE, schema(missing="keep"), epsilon=1.0, rules=rules).table
    assert table.column("age").null_count == table.column("member").null_count == 0
