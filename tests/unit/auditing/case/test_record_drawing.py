"""Every kind of release gives records and answers counting queries."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.auditing.case.record_drawing import CountQuery, MaskedRelease, Range, Values, drawable
from sherd.errors import UsageError
from sherd.randomness import Randomness
from sherd.verifying.label_meaning import Labelled, Meaning, meaning

if TYPE_CHECKING:
    from sherd.tables.schema import Schema

YOUNG_FLU = CountQuery(
    where={"age": Range(low=20, high=34), "ill": Values(of=frozenset({"flu", "cold"}))}
)

PLANS = [
    {"method": "slice", "l": 3, "columns": 2},
    {"method": "slice", "l": 3, "columns": 3, "regroup": True},
    {"method": "slice", "l": 2, "columns": 2, "min_frequency": 20},
    {"method": "slice", "l": 2, "groups": [["age", "sex"], ["sex", "town", "ill"]]},
    {"method": "mondrian", "k": 5},
    {"method": "mondrian", "k": 5, "boxes": "cells"},
    {"method": "anatomy", "l": 3},
]


@pytest.mark.parametrize("plan", PLANS)
def test_draws_are_tables_of_records_in_the_attributes_types(
    make: Any, people: Any, people_schema: Schema, plan: dict[str, Any]
) -> None:
    """As many rows, the same attributes, ages whole numbers in their domain, real towns."""
    made = make(people(400), people_schema, **plan)
    release = drawable(made.outcome.tables, made.manifest)
    one, two = release.draw(Randomness.seeded(3), 2)
    for table in (one, two):
        assert set(table.column_names) == {"age", "sex", "town", "ill"}
        assert table.num_rows == 400
        ages = table["age"].to_pylist()
        assert all(isinstance(age, int) and 20 <= age <= 69 for age in ages)
        assert set(table["town"].to_pylist()) <= {"Ulm", "Kiel", "Passau", "Bremen"}
    assert one.to_pylist() != two.to_pylist()


@pytest.mark.parametrize("plan", PLANS)
def test_the_expected_count_is_the_average_over_draws(
    make: Any, people: Any, people_schema: Schema, plan: dict[str, Any]
) -> None:
    """Counting in many drawn tables approaches ``count``, within five standard errors."""
    made = make(people(400), people_schema, **plan)
    release = drawable(made.outcome.tables, made.manifest)
    drawn = [
        MaskedRelease(table=table).count(YOUNG_FLU)
        for table in release.draw(Randomness.seeded(3), 60)
    ]
    error = max(float(np.std(drawn)), 0.5) / np.sqrt(len(drawn))
    assert abs(release.count(YOUNG_FLU) - float(np.mean(drawn))) < 5 * error


def test_a_masked_table_is_drawn_as_it_is(people: Any) -> None:
    """Its rows are records already; counts are exact."""
    table = people(50)
    manifest = {"plan": {"method": "dp"}, "schema": {"attributes": {}}}
    release = drawable({"data": table}, manifest)
    assert list(release.draw(Randomness.seeded(1), 2)) == [table, table]
    rows = table.to_pylist()
    expected = sum(r["age"] <= 34 and r["ill"] in ("flu", "cold") for r in rows)
    assert release.count(YOUNG_FLU) == expected


def test_unknown_attributes_and_releases_without_records(
    make: Any, people: Any, people_schema: Schema
) -> None:
    """A query about nothing released, and tables that hold no records, are errors."""
    query = CountQuery(where={"height": Range(low=1)})
    for plan in ({"method": "slice", "l": 2}, {"method": "anatomy", "l": 2}):
        made = make(people(50), people_schema, **plan)
        with pytest.raises(UsageError, match="does not have"):
            drawable(made.outcome.tables, made.manifest).count(query)
    manifest = {"plan": {"method": "idp"}, "schema": {"attributes": {}}}
    with pytest.raises(UsageError, match="cannot be turned into records"):
        drawable({"centroids": people(5)}, manifest)


@pytest.mark.parametrize(
    ("kind", "label", "said", "condition", "chance"),
    [
        ("integer", "[10, 19]", {"low": "10", "high": "19"}, Range(low=15), 0.5),
        ("integer", "[10, 19]", {"low": "10", "high": "19"}, Values(of=frozenset({11, 40})), 0.1),
        ("integer", "[10, 19]", {"low": "10", "high": "19"}, Range(low=20), 0.0),
        ("number", "[0, 4)", {"low": "0", "high": "4"}, Range(high=1), 0.25),
        ("number", "2", {"low": "2", "high": "2"}, Range(low=1, high=3), 1.0),
        ("number", "2", {"low": "2", "high": "2"}, Values(of=frozenset({2.0})), 1.0),
        ("number", "[0, 4)", {"low": "0", "high": "4"}, Values(of=frozenset({2.0})), 0.0),
        ("date", "x", {"low": "2020-01-01", "high": "2020-01-10"},
         Range(high=dt.date(2020, 1, 5)), 0.5),
        ("category", "S", {"values": ["Ulm", "Passau"]}, Values(of=frozenset({"Ulm"})), 0.5),
        ("category", "S or missing", {"values": ["Ulm"], "missing": True},
         Values(of=frozenset({"Ulm"})), 0.5),
        ("boolean", "true", None, Values(of=frozenset({True})), 1.0),
    ],
)  # fmt: skip
def test_a_condition_holds_for_a_share_of_a_label(
    kind: str, label: str, said: Any, condition: Any, chance: float
) -> None:
    """Values count as equally likely inside a label."""
    book = {} if said is None else {label: said}
    assert meaning(label, book, kind).chance(condition, kind) == pytest.approx(chance)


def test_a_missing_cell_satisfies_no_range() -> None:
    """Missing is missing, also in a generalised column."""
    assert meaning(None, {}, "integer") == Meaning(values=(None,))
    assert not Range(low=1).holds(None)


@pytest.mark.parametrize(
    ("kind", "book", "labels", "holds"),
    [
        ("number", {"[0, 1)": {"low": "0", "high": "1"}}, ["[0, 1)", "5", None],
         lambda a, b, c: 0 <= a <= 1 and b == 5.0 and c is None),
        ("date", {"x": {"low": "2020-01-01", "high": "2020-01-03"}}, ["x", "2021-05-05", None],
         lambda a, b, c: a.year == 2020 and b == dt.date(2021, 5, 5) and c is None),
        ("datetime", {"x": {"low": "2020-01-01T00:00:00", "high": "2020-01-03T00:00:00"}},
         ["x", "2021-05-05T01:00:00", None],
         lambda a, b, c: a.year == 2020 and b.hour == 1 and c is None),
        ("boolean", {"*": {"values": ["true", "false"]}}, ["*", "true", None],
         lambda a, b, c: a in (True, False) and b is True and c is None),
    ],
)  # fmt: skip
def test_samples_have_the_attributes_own_type(
    kind: str, book: Any, labels: list[Any], holds: Any
) -> None:
    """Ranges and sets are sampled, plain labels parsed, missing cells stay missing."""
    column = pa.chunked_array([pa.array(labels, pa.string())])
    found = Labelled.of(column, book, kind).sample(Randomness.seeded(4)).to_pylist()
    assert holds(*found)


@pytest.mark.parametrize(
    ("kind", "cells"), [("boolean", [True, False]), ("integer", [18, 20]), ("number", [0.5, 2.0])]
)
def test_labels_that_a_reader_took_for_values_are_understood(kind: str, cells: list[Any]) -> None:
    """A CSV of plain labels comes back typed; the labels mean the same."""
    column = pa.chunked_array([pa.array(cells)])
    assert Labelled.of(column, {}, kind).sample(Randomness.seeded(1)).to_pylist() == cells
