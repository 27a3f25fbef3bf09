"""A release that breaks its promise is caught, from the released files alone."""

from __future__ import annotations

import ast
import importlib
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.release.method import find
from sherd.verifying import verify_contents as verify

if TYPE_CHECKING:
    from sherd.tables.schema import Schema


def outcome_of(checks: Any, start: str) -> bool | None:
    """How the check whose name starts so came out."""
    return next(check.passed for check in checks if check.name.startswith(start))


def changed(table: pa.Table, name: str, values: Any) -> pa.Table:
    """The table with another column in the place of one."""
    return table.set_column(table.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    "module",
    [
        "sherd.verifying.sliced_tables",
        "sherd.verifying.bucketised_tables",
        "sherd.verifying.stored_table",
        "sherd.verifying.tuple_probability",
    ],
)
def test_the_verifier_shares_no_code_with_the_methods(module: str) -> None:
    """It imports nothing of sherd.methods: a mistake there is not repeated here."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    names = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    names += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    assert names
    assert not [name for name in names if name.startswith("sherd.methods")]
    for method, room in (("slice", "sliced"), ("mondrian", "sliced"), ("anatomy", "bucketised")):
        assert str(find(method).traits.verifier).startswith(f"sherd.verifying.{room}_tables:")


def test_a_bucket_of_one_value_is_caught(make: Any, people: Any, people_schema: Schema) -> None:
    """Every sensitive cell the same: p = 1 for everybody."""
    made = make(people(), people_schema, method="slice", l=3, columns=3)
    bad = changed(made.data, "ill", ["flu"] * made.data.num_rows)
    assert outcome_of(verify({"data": bad}, made.manifest), "ill: 3-diversity") is False


def test_a_bucket_that_fails_may_be_averaged_out(
    make: Any, people: Any, people_schema: Schema
) -> None:
    """Where every tuple matches a second bucket, the tuples are asked one by one and pass."""
    made = make(people(40), people_schema, method="slice", l=2, columns=2)
    fields = {
        "bucket": [1] * 30 + [2] * 10, "age": [30] * 40, "sex": ["F"] * 40, "town": ["Ulm"] * 40,
        "ill": ["flu", "cold", "cut"] * 10 + ["burn"] * 10,
    }  # fmt: skip
    checks = verify({"data": pa.table(fields)}, made.manifest)
    assert outcome_of(checks, "ill: 2-diversity") is True
    fields["age"] = [30] * 30 + [31] * 10
    checks = verify({"data": pa.table(fields)}, made.manifest)
    assert outcome_of(checks, "ill: 2-diversity") is False


def test_tuples_nobody_may_have_stay_open_for_the_records_scope(
    make: Any, people: Any, people_schema: Schema
) -> None:
    """The plan bounds the records' own tuples; whose is whose a release does not show."""
    groups = [["age"], ["sex", "town"], ["ill"]]
    made = make(people(40), people_schema, method="slice", l=2, groups=groups, scope="records")
    fields = {
        "bucket": [1, 1, 2, 2], "age": [30, 31, 32, 33], "sex": ["F", "M", "F", "M"],
        "town": ["Ulm"] * 4, "ill": ["flu", "flu", "cold", "cut"],
    }  # fmt: skip
    checks = verify({"data": pa.table(fields)}, made.manifest)
    assert outcome_of(checks, "ill: 2-diversity") is None


def test_more_tuples_than_can_be_asked_are_not_called_fine(
    make: Any, people: Any, people_schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the budget ends without a violation the answer is open, not passed."""
    monkeypatch.setattr("sherd.verifying.sliced_tables.BUDGET", 0)
    made = make(people(40), people_schema, method="slice", l=2, columns=2)
    bad = changed(made.data, "ill", ["flu"] * 40)
    assert outcome_of(verify({"data": bad}, made.manifest), "ill: 2-diversity") is None


def test_a_rare_value_is_caught(make: Any, people: Any, people_schema: Schema) -> None:
    """One age that occurs once breaks the least frequency of its column."""
    made = make(people(), people_schema, method="slice", l=3, columns=2, min_frequency=10)
    ages = made.data["age"].to_pylist()
    bad = changed(made.data, "age", ["[1, 2]", *ages[1:]])
    assert outcome_of(verify({"data": bad}, made.manifest), "column") is not None
    checks = verify({"data": bad}, made.manifest)
    assert [check for check in checks if "least frequency" in check.name and not check.passed]


def test_columns_that_do_not_fit_are_caught(make: Any, people: Any, people_schema: Schema) -> None:
    """Missing columns, missing tables, more columns than asked for, a split sensitive column."""
    made = make(people(), people_schema, method="slice", l=3, columns=2)
    assert outcome_of(verify({}, made.manifest), "data") is False
    fewer = made.data.drop_columns(["age"])
    assert outcome_of(verify({"data": fewer}, made.manifest), "columns") is False
    made.manifest["facts"]["columns"] = [["age"], ["sex", "town"], ["ill"]]
    assert outcome_of(verify({"data": made.data}, made.manifest), "number of columns") is False
    made.manifest["plan"]["sensitive"] = ["sex", "ill"]
    assert outcome_of(verify({"data": made.data}, made.manifest), "sensitive column") is False


def test_small_or_uniform_classes_are_caught(make: Any, people: Any, people_schema: Schema) -> None:
    """A class of one record breaks k, a class of one value breaks l."""
    made = make(people(), people_schema, method="mondrian", k=5, l=2)
    lone = changed(made.data, "age", ["[1, 2]", *made.data["age"].to_pylist()[1:]])
    assert outcome_of(verify({"data": lone}, made.manifest), "5-anonymity") is False
    same = changed(made.data, "ill", ["flu"] * made.data.num_rows)
    assert outcome_of(verify({"data": same}, made.manifest), "ill: 2-diversity") is False
    assert outcome_of(verify({}, made.manifest), "data") is False
    fewer = made.data.drop_columns(["sex"])
    assert outcome_of(verify({"data": fewer}, made.manifest), "columns") is False


def test_buckets_that_disagree_are_caught(make: Any, people: Any, people_schema: Schema) -> None:
    """Counts that are not the buckets' sizes, one value too often, a table too few."""
    made = make(people(), people_schema, method="anatomy", l=3)
    tables = dict(made.outcome.tables)
    counts = np.array(tables["sensitive"]["count"].to_pylist())
    counts[0] += 1
    more = {**tables, "sensitive": changed(tables["sensitive"], "count", counts)}
    assert outcome_of(verify(more, made.manifest), "buckets") is False
    n = tables["sensitive"].num_rows
    same = {**tables, "sensitive": changed(tables["sensitive"], "ill", ["flu"] * n)}
    assert outcome_of(verify(same, made.manifest), "ill: 3-diversity") is False
    only = {"sensitive": tables["sensitive"]}
    assert outcome_of(verify(only, made.manifest), "tables") is False
    both = {**tables, "quasi-identifiers": tables["quasi-identifiers"].append_column(
        "ill", pa.array(["flu"] * 200)
    )}  # fmt: skip
    assert outcome_of(verify(both, made.manifest), "quasi-identifier columns") is False


def test_what_no_file_can_show_is_said(make: Any, people: Any, people_schema: Schema) -> None:
    """The permutation and the assumptions stay open, by name."""
    made = make(people(), people_schema, method="slice", l=2)
    checks = verify(made.outcome.tables, made.manifest)
    assert {check.name for check in checks if check.passed is None} == {
        "permutation",
        "assumptions",
    }
