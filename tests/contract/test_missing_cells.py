"""Null, not-a-number, infinities, empty texts and the schema's words are one thing: missing.

In every method, under ``missing: keep``, whichever of them a table has and whatever it is read
from: what comes out is the same, and no value is made up.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sherd
from sherd.release.protect import Settings
from sherd.tables.read import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 60
SCHEMA = sherd.Schema.from_data(
    {
        "missing_values": ["?", "-9"],
        "attributes": {
            "age": {"type": "integer", "domain": [20, 69]},
            "pay": {"type": "number", "domain": [5, 100]},
            "ill": {
                "type": "category",
                "role": "sensitive",
                "values": ["flu", "cold", "burn", "cut"],
            },
        },
    }
)
PLANS: dict[str, dict[str, Any]] = {
    "dp": {"method": "dp", "epsilon": 1.0},
    "idp": {"method": "idp", "epsilon": 1.0},
    "dp-um": {"method": "dp-um", "epsilon": 1.0, "k": 3},
    "idp-ls": {"method": "idp-ls", "epsilon": 1.0, "k": 3, "guarantee": "paper"},
    "idp-cbls": {"method": "idp-cbls", "epsilon": 1.0, "k": 3, "guarantee": "centroids"},
    "dp-graph": {"method": "dp-graph", "epsilon": 1.0},
    "slice": {"method": "slice", "l": 2, "columns": 2, "suppress": True},
    "mondrian": {"method": "mondrian", "k": 3},
    "anatomy": {"method": "anatomy", "l": 2, "suppress": True},
    "fragment": {
        "method": "fragment",
        "constraints": {"constraints": [["age", "ill"]]},
        "fragments": [["age", "pay"], ["ill"]],
        "looseness": 2,
        "suppress": 0.9,
    },
    "diffgen": {"method": "diffgen", "epsilon": 50.0, "h": 2, "class_attribute": "ill"},
}
MISSING_NUMBERS = [None, float("nan"), float("inf"), -9.0]
MISSING_LABELS = [None, "?", ""]


def _cells(number: Any, label: Any) -> dict[str, list[Any]]:
    ills = ["flu", "cold", "burn", "cut"]
    return {
        "age": [number if i % 6 == 0 else float(20 + i % 50) for i in range(ROWS)],
        "pay": [number if i % 5 == 0 else 5.0 + i for i in range(ROWS)],
        "ill": [label if i % 4 == 1 and i < 40 else ills[i % 4] for i in range(ROWS)],
    }


def _released(table: Any, plan: str) -> dict[str, pa.Table]:
    chosen = sherd.Plan(**PLANS[plan])
    settings = Settings(seed=2, threads=1)
    return dict(sherd.protect(table, SCHEMA, chosen, ledger=None, settings=settings).tables)


@pytest.mark.parametrize("plan", PLANS)
def test_all_ways_to_be_missing_give_one_release(plan: str, tmp_path: Path) -> None:
    """From memory and from CSV, with the same random numbers, to the cell."""
    expected = _released(pa.table(_cells(None, None)), plan)
    for number in MISSING_NUMBERS:
        for label in MISSING_LABELS:
            made = _released(pa.table(_cells(number, label)), plan)
            assert {name: one.to_pydict() for name, one in made.items()} == {
                name: one.to_pydict() for name, one in expected.items()
            }, (number, label)
    rows = zip(*_cells("-9", "?").values(), strict=True)
    lines = ["age,pay,ill"]
    for age, pay, ill in rows:
        lines.append(f"{age if isinstance(age, str) else int(age)},{pay},{ill}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    made = _released(read(path, schema=SCHEMA), plan)
    assert all(made[name].equals(one) for name, one in expected.items())


TYPED = sherd.Schema.from_data(
    {
        "missing_values": ["?", "-9", "n/a"],
        "attributes": {
            **SCHEMA.as_data()["attributes"],
            "born": {"type": "date", "domain": ["1950-01-01", "2020-01-01"]},
            "seen": {"type": "datetime", "domain": ["2000-01-01", "2020-01-01"]},
            "glad": {"type": "boolean"},
        },
    }
)


def _typed(number: Any, day: Any, time: Any, truth: Any, label: Any) -> dict[str, list[Any]]:
    first, noon = dt.date(1960, 1, 1), dt.datetime.fromisoformat("2001-01-01T12:00")
    return {
        **_cells(number, label),
        "born": [day if i % 7 == 0 else first + dt.timedelta(days=99 * i) for i in range(ROWS)],
        "seen": [time if i % 8 == 0 else noon + dt.timedelta(days=9 * i) for i in range(ROWS)],
        "glad": [truth if i % 9 == 0 else i % 2 == 0 for i in range(ROWS)],
    }


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value.isoformat())


def _sources(folder: Path) -> Iterator[tuple[str, Any]]:
    """The same rows from every kind of source, with every way to say "no value"."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    nan, none = float("nan"), _typed(None, None, None, None, None)
    yield "pandas", pandas.DataFrame(none)
    yield "pandas' own", pandas.DataFrame(_typed(nan, pandas.NaT, pandas.NaT, None, nan))
    words = _typed("n/a", "?", "", "n/a", "-9")
    yield "pandas objects", pandas.DataFrame(words, dtype=object)
    nullable = {"age": "Int64", "glad": "boolean", "ill": "category"}
    yield "pandas nullable", pandas.DataFrame(none).astype(nullable)
    yield "polars", polars.DataFrame(_typed(nan, None, None, None, "?"), strict=False)
    floats = pa.table(_typed(float("-inf"), None, None, None, "?"))
    pq.write_table(floats, folder / "in.parquet")
    yield "parquet", read(folder / "in.parquet", schema=TYPED)
    with duckdb.connect(str(folder / "in.duckdb")) as connection:
        connection.register("rows", floats)
        connection.execute("CREATE TABLE people AS SELECT * FROM rows")
    yield "duckdb", read(f"duckdb:///{folder}/in.duckdb?table=people", schema=TYPED)
    spellings = [
        ("", "", "", "", ""),
        ("NaN", "NaT", "NaT", "null", "?"),
        ("-9", "n/a", "?", "-9", "n/a"),
        ("inf", "", "null", "NULL", ""),
    ]
    for number, spelling in enumerate(spellings):
        cells = _typed(*spelling)
        rows = [tuple(map(_as_text, row)) for row in zip(*cells.values(), strict=True)]
        path = folder / f"in{number}.csv"
        path.write_text("\n".join(map(",".join, [tuple(cells), *rows])) + "\n")
        yield f"csv {spelling}", read(path, schema=TYPED)
        with sqlite3.connect(folder / f"in{number}.db") as held:
            held.execute(f"CREATE TABLE people ({', '.join(cells)})")
            held.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
        held.close()
        address = f"sqlite:///{folder}/in{number}.db?table=people"
        yield f"sqlite {spelling}", read(address, schema=TYPED)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Read once for all methods."""
    return dict(_sources(tmp_path_factory.mktemp("sources")))


@pytest.mark.parametrize("plan", PLANS)
def test_missing_is_one_thing_from_every_source(plan: str, sources: dict[str, Any]) -> None:
    """Numbers, days, times, truths and labels; to the cell, with the same random numbers."""
    chosen, settings = sherd.Plan(**PLANS[plan]), Settings(seed=2, threads=1)

    def cells(table: Any) -> Any:
        made = sherd.protect(table, TYPED, chosen, ledger=None, settings=settings)
        return {name: one.to_pydict() for name, one in made.tables.items()}

    expected = cells(pa.table(_typed(None, None, None, None, None)))
    for name, table in sources.items():
        assert cells(table) == expected, name


@pytest.mark.parametrize("plan", ["slice", "mondrian", "anatomy", "fragment"])
def test_no_value_is_made_up(plan: str) -> None:
    """As many cells are missing as were, and the lowest bound is nobody's value."""
    tables = _released(pa.table(_cells(float("nan"), None)), plan)
    pay = next(
        column
        for table in tables.values()
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name == "pay"
    )
    texts = ["" if cell is None else str(cell) for cell in pay.to_pylist()]
    assert not {"0", "0.0"} & set(texts)
    gone = sum(text == "" or "missing" in text or text == "*" for text in texts)
    assert gone > 0
    if plan in ("anatomy", "fragment"):
        assert "5.0" not in texts  # the lower bound, which no row has: row 0 is missing


def test_missing_classes_stay_a_class_of_their_own() -> None:
    """``diffgen`` counts them as missing, and not as one of the labels."""
    table = _released(pa.table(_cells(None, None)), "diffgen")["data"]
    counts: dict[str, int] = {}
    for ill, count in zip(table["ill"].to_pylist(), table["count"].to_pylist(), strict=True):
        counts[ill] = counts.get(ill, 0) + count
    assert set(counts) == {"flu", "cold", "burn", "cut", "(missing)"}
    # 10 missing and 5 colds; noise of ε = 50 over a handful of leaves moves neither by 4.
    assert abs(counts["(missing)"] - 10) < 4
    assert abs(counts["cold"] - 5) < 4
