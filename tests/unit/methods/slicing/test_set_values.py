"""Sensitive cells that are sets: no element is believed of a person with more than 1/l."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import InfeasibleError, PlanError
from sherd.release.plan import Plan
from sherd.verifying import verify_contents as verify

if TYPE_CHECKING:
    from sherd.tables.schema import Schema

ILLS = [f"i{n}" for n in range(30)]


@pytest.fixture(scope="module")
def patients() -> pa.Table:
    """Patients with none to four diagnoses; elder ones have more of the first ones."""
    rng = np.random.default_rng(4)
    age = rng.integers(20, 90, 600)
    weight = 1 / np.arange(8, 38)
    chances = weight / weight.sum()
    how_many = np.where(rng.random(600) < 0.1, 0, rng.integers(1, 3, 600) + (age > 60))
    lists = ["; ".join(rng.choice(ILLS, n, replace=False, p=chances)) for n in how_many]
    return pa.table({"age": age, "town": rng.choice(list("abc"), 600), "ills": lists})


@pytest.fixture(scope="module")
def patients_schema(schema_of: Any) -> Schema:
    """The list of diagnoses is sensitive."""
    return schema_of(
        {
            "age": {"type": "integer"},
            "town": {"type": "category"},
            "ills": {"type": "text", "role": "sensitive"},
        }
    )


def shares(made: Any) -> list[float]:
    """For every bucket the largest share of records that hold one diagnosis, or none at all."""
    rows = made.outcome.tables.get("data", made.outcome.tables.get("sensitive")).to_pylist()
    sizes: Counter[int] = Counter()
    holding: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        times = row.get("count", 1)
        sizes[row["bucket"]] += times
        for one in {part.strip() for part in (row["ills"] or "").split(";")}:
            holding[row["bucket"]][one] += times
    return [max(holding[b].values()) / n for b, n in sizes.items()]


@pytest.mark.parametrize("method", ["slice", "anatomy"])
@pytest.mark.parametrize("l", [2, 4])
def test_no_element_fills_more_than_its_share(
    make: Any,
    patients: pa.Table,
    patients_schema: Schema,
    method: str,
    l: int,  # noqa: E741
) -> None:
    """Counted from the release; buckets are small; the whole set counts for nothing."""
    made = make(patients, patients_schema, method=method, l=l, sets={"ills": ";"})
    found = shares(made)
    assert max(found) <= 1 / l
    assert len(found) > 600 / (3 * l)
    checks = verify(made.outcome.tables, made.manifest)
    assert not [c for c in checks if c.passed is False]
    assert any("of elements" in c.name and c.passed for c in checks)
    claimed = copy.deepcopy(made.manifest)
    claimed["plan"]["l"] = 50
    assert [c.name for c in verify(made.outcome.tables, claimed) if c.passed is False] == [
        "ills: 50-diversity of elements"
    ]


@pytest.mark.parametrize("method", ["slice", "anatomy"])
def test_as_labels_the_same_lists_give_elements_away(
    make: Any, patients: pa.Table, patients_schema: Schema, method: str
) -> None:
    """Different lists can share an element: without ``sets`` the bound does not hold for it."""
    assert max(shares(make(patients, patients_schema, method=method, l=4))) > 1 / 4


def test_what_sets_do_not_go_with_is_refused(
    make: Any, patients: pa.Table, patients_schema: Schema
) -> None:
    """Suppression, conditions, attributes that are not sensitive, and separators of nothing."""
    for more, said in (
        ({"suppress": True}, "either 'sets' or 'suppress'"),
        ({"conditions": {"share": 0.3}}, "not defined for cells that are sets"),
        ({"sets": {"age": ";"}}, "cannot be read as sets"),
        ({"sets": {"ills": ""}}, "what separates"),
        ({"regroup": False}, "made by regrouping"),
        ({"scope": "records"}, "scope 'any'"),
    ):
        parameters: dict[str, Any] = {"l": 2, "sets": {"ills": ";"}, **more}
        with pytest.raises(PlanError, match=said):
            Plan(method="slice", **parameters).guarantee(patients_schema)
    with pytest.raises(InfeasibleError, match="every element of 'ills'"):
        make(patients, patients_schema, method="anatomy", l=300, sets={"ills": ";"})
