"""A refusal is an output: what it says follows from plan, schema and the attribute at fault.

However many records are at fault, and whichever, the words are the same; so neighbouring tables
that are both refused cannot be told apart by what the owner is told. Each case is refused for
few records and for many.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd.errors import SherdError
from sherd.release.method import DIRECTORY
from sherd.release.protect import Settings
from sherd.tables.read import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 60
ILLS = ["flu", "cold", "burn", "cut"]
AMOUNTS = (1, 2, 13, 31)
Cells = dict[str, list[Any]]
RANKING: dict[str, dict[str, Any]] = {
    "dp": {"epsilon": 1.0},
    "idp": {"epsilon": 1.0},
    "dp-um": {"epsilon": 1.0, "k": 5},
    "idp-ls": {"epsilon": 1.0, "k": 5, "guarantee": "paper"},
    "idp-cbls": {"epsilon": 1.0, "k": 5, "guarantee": "centroids"},
}
BUCKETS: dict[str, dict[str, Any]] = {
    "slice": {"l": 2},
    "anatomy": {"l": 2},
    "mondrian": {"k": 3, "l": 2},
}
LOOSE: dict[str, Any] = {
    "constraints": {"constraints": [["age", "ill"]]},
    "fragments": [["age", "town"], ["ill"]],
    "looseness": 4,
    "suppress": 0.0,
}
ALL: dict[str, dict[str, Any]] = {
    **RANKING,
    **BUCKETS,
    "fragment": LOOSE,
    "diffgen": {"epsilon": 1.0, "h": 2, "class_attribute": "ill"},
    "dp-graph": {"epsilon": 1.0},
}


def _schema(**policies: str) -> sherd.Schema:
    labels = {"type": "category", "role": "sensitive", "values": ILLS}
    attributes = {
        "who": {"role": "identifier"},
        "age": {"type": "integer", "domain": [0, 99]},
        "town": {"type": "category", "values": ["Ulm", "Kiel"]},
        "ill": labels,
    }
    return sherd.Schema.from_data({**policies, "attributes": attributes})


def _cells(rows: int = ROWS) -> Cells:
    return {
        "who": [f"p{i}" for i in range(rows)],
        "age": [i % 60 for i in range(rows)],
        "town": [("Ulm", "Kiel")[i % 2] for i in range(rows)],
        "ill": [ILLS[i // 2 % 4] for i in range(rows)],
    }


def _spoiled(name: str, value: Any) -> Callable[[int], Cells]:
    """Tables in which so many records, the last ones, have another value of an attribute."""

    def make(amount: int) -> Cells:
        cells = _cells()
        cells[name] = [*cells[name][: ROWS - amount], *[value] * amount]
        return cells

    return make


Case = tuple[str, dict[str, Any], sherd.Schema, "Callable[[int], Cells]"]


def _cases() -> dict[str, Case]:
    refuse = _schema(missing="refuse", outside="refuse")
    cases: dict[str, Case] = {}
    for method, more in ALL.items():
        cases[f"{method}: missing"] = method, more, refuse, _spoiled("age", None)
        cases[f"{method}: outside"] = method, more, refuse, _spoiled("age", 400)
        cases[f"{method}: unlisted"] = method, more, _schema(), _spoiled("ill", "leprosy")
        cases[f"{method}: unreadable"] = method, more, _schema(), _words_among_numbers
    for method in ("dp-um", "idp-ls", "idp-cbls"):
        more = {**RANKING[method], "k": 40}
        cases[f"{method}: few values"] = (
            method, more, _schema(missing="keep"), lambda a: _spoiled("age", None)(24 + a)
        )  # fmt: skip
        cases[f"{method}: few rows"] = method, more, _schema(), lambda a: _cells(40 - a)
    for method, more in BUCKETS.items():
        make = lambda a: _spoiled("ill", "flu")(28 + a // 2)  # noqa: E731 - 42 to 57 of 60
        cases[f"{method}: frequent"] = method, more, _schema(), make
        little = {**more, "suppress": True, "most_suppressed": 0.01}
        cases[f"{method}: suppressed"] = method, little, _schema(), make
    fewer = {**LOOSE, "fragments": None}
    for name, one in (("as given", LOOSE), ("found", fewer)):
        cases[f"fragment: frequent, {name}"] = (
            "fragment", one, _schema(), lambda a: _spoiled("ill", "flu")(28 + a)
        )  # fmt: skip
    cases["mondrian: few rows"] = "mondrian", {"k": 50}, _schema(), lambda a: _cells(45 - a)
    columns = {**BUCKETS["slice"], "min_frequency": 50}
    cases["slice: few rows"] = "slice", columns, _schema(), lambda a: _cells(45 - a)
    return cases


def _words_among_numbers(amount: int) -> Cells:
    cells = _cells()
    cells["age"] = [str(a) for a in cells["age"][amount:]] + ["old"] * amount
    return cells


CASES = _cases()


def _said(case: Case, amount: int) -> tuple[type, str]:
    method, more, schema, make = case
    plan = sherd.Plan(method=method, **more)
    settings = Settings(seed=1, threads=1)
    with pytest.raises(SherdError) as refused:
        sherd.protect(pa.table(make(amount)), schema, plan, settings=settings, ledger=None)
    return refused.type, str(refused.value)


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_says_the_same_however_many_records_cause_it(name: str) -> None:
    """Every number in it is one of the plan or of the schema."""
    method, more, schema, _ = CASES[name]
    said = {_said(CASES[name], amount) for amount in AMOUNTS}
    assert len(said) == 1, said
    text = said.pop()[1]
    known = (
        str({**sherd.Plan(method=method, **more).as_data(), **schema.as_data()}) + " 1 100 64"
    )  # a part of one, per cent, bits
    numbers = set(re.findall(r"\d+", text))
    assert numbers <= set(re.findall(r"\d+", known)), text
    assert "leprosy" not in text
    assert "flu" not in text


def test_every_method_is_among_them() -> None:
    """But for that of several parties, whose own tables are checked by ``party_rows``."""
    assert {method for method, *_ in CASES.values()} == set(DIRECTORY) - {"arbdistdp"}


@pytest.mark.parametrize("key", ["empty", "shared"])
def test_keys_that_do_not_fit_are_not_counted(key: str) -> None:
    """Nor is it told how many people have two rows."""
    said = set()
    for amount in AMOUNTS[1:]:
        cells = _cells()
        cells["who"] = [*cells["who"][amount:], *["" if key == "empty" else "p59"] * amount]
        with pytest.raises(SherdError) as refused:
            sherd.protect(
                pa.table(cells),
                _schema(),
                sherd.Plan(method="fragment", **{**LOOSE, "looseness": 2}),
                settings=Settings(seed=1, key="who"),
                ledger=None,
            )
        said.add(str(refused.value))
    assert len(said) == 1
    assert not re.findall(r"\d", said.pop())


ODD = (None, float("nan"), float("inf"), "", "old", "?", 37.5, -(10**30), True, "1,5", "Ulm", "é")
STRICT = sherd.Plan(method="dp-um", epsilon=1.0, k=5, guarantee="strict")


def _held(source: str, cells: Cells, folder: Path, schema: sherd.Schema) -> Any:
    """The rows as a source gives them to a strict plan."""
    if source == "pandas":
        return pytest.importorskip("pandas").DataFrame(cells, dtype=object)
    path = folder / ("in.csv" if source == "csv" else "in.db")
    if source == "csv":
        rows = zip(*cells.values(), strict=True)
        texts = [["" if v is None else f'"{v}"' for v in row] for row in rows]
        path.write_text("\n".join(map(",".join, [list(cells), *texts])) + "\n")
        return read(path, schema=schema, lenient=True)
    path.unlink(missing_ok=True)
    fits = {name: [str(v) if v == ODD[7] else v for v in column] for name, column in cells.items()}
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (who, age, town, ill)")
        rows = zip(*fits.values(), strict=True)
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return read(f"sqlite:///{path}?table=people", schema=schema, lenient=True)


@pytest.mark.parametrize("source", ["pandas", "csv", "sqlite"])
@pytest.mark.parametrize("name", ["age", "town", "ill"])
def test_no_value_of_a_record_makes_a_strict_plan_refuse(
    name: str, source: str, tmp_path: Path
) -> None:
    """Whatever stands in one cell, first or last; the release has its form all the same."""
    schema = _schema(missing="refuse", outside="refuse")
    forms = set()
    for place in (0, ROWS - 1):
        for odd in ODD:
            cells = _cells()
            cells[name][place] = odd
            table = _held(source, cells, tmp_path, schema)
            made = sherd.protect(table, schema, STRICT, settings=Settings(seed=1), ledger=None)
            forms.add((str(made.tables["data"].schema), made.tables["data"].num_rows))
    assert len(forms) == 1
    assert "refusal as an outcome" in made.manifest["guarantee"]["covers"]
