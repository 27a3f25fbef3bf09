"""Decimal commas and days as dd.mm.yyyy are read, cell by cell, and nothing is guessed wrong."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd.errors import TableError, UsageError
from sherd.release.protect import Settings
from sherd.tables.infer import schema as drafted
from sherd.tables.prepare import prepare
from sherd.tables.read import read

if TYPE_CHECKING:
    from pathlib import Path

ATTRIBUTES: dict[str, Any] = {
    "pay": {"type": "number", "domain": [0, 10000], "grid": "0.001"},
    "born": {"type": "date", "domain": ["1900-01-01", "2030-01-01"]},
    "seen": {"type": "datetime", "domain": ["2000-01-01T00:00:00", "2030-01-01T00:00:00"]},
}
SCHEMA = sherd.Schema.from_data({"attributes": ATTRIBUTES})
LOCAL = (
    "pay;born;seen\n1,5;3.11.1970;04.11.2020 13:30\n1.234,25;24.12.1999;1.1.2021 00:00\n1,250;;\n"
)
PLAIN = (
    "pay,born,seen\n1.5,1970-11-03,2020-11-04 13:30:00\n"
    "1234.25,1999-12-24,2021-01-01 00:00:00\n1.250,,\n"
)


def _read(folder: Path, text: str, **more: Any) -> pa.Table:
    path = folder / "people.csv"
    path.write_text(text)
    return read(path, schema=SCHEMA, **more)


@pytest.mark.parametrize("lenient", [False, True])
def test_a_file_with_semicolons_is_read_as_the_plain_one(lenient: bool, tmp_path: Path) -> None:
    """Its commas are decimal, also in 1,250."""
    local = prepare(_read(tmp_path, LOCAL, lenient=lenient), SCHEMA).table
    plain = prepare(_read(tmp_path, PLAIN), SCHEMA).table
    assert local.equals(plain)
    assert local["pay"].to_pylist() == [1.5, 1234.25, 1.25]
    assert local["born"].to_pylist()[0] == dt.date(1970, 11, 3)


def test_texts_of_a_dataframe_are_read_too() -> None:
    """Whatever the table came from."""
    table = pa.table({"pay": ["1,5", "12,75"], "born": ["3.11.1970", None], "seen": [None, None]})
    assert prepare(table, SCHEMA).table["pay"].to_pylist() == [1.5, 12.75]


@pytest.mark.parametrize("cell", ['"1,234"', '"12,345"', '"1,5,5"', '"31.2,5"'])
def test_what_may_mean_two_things_is_refused(cell: str, tmp_path: Path) -> None:
    """A thousand and more, or one and a bit: 1,234 in a file with commas says neither."""
    with pytest.raises(UsageError) as refused:
        prepare(_read(tmp_path, f'pay,born,seen\n{cell},,\n"2,5",,\n'), SCHEMA)
    assert cell.strip('"') not in str(refused.value)


def test_the_thirty_first_of_february_is_refused() -> None:
    """A day must be one."""
    table = pa.table({"pay": [1.0], "born": ["31.02.2020"], "seen": pa.array([None], pa.string())})
    with pytest.raises(TableError, match="born"):
        prepare(table, SCHEMA)


def test_no_record_decides_how_another_is_read() -> None:
    """Under a strict plan 1,234 is no value, whatever stands beside it."""
    cells = [*["1,234"] * 5, *["2,5"] * 5]
    for last in ("7", "1,25", "1.234,5", "no"):
        table = pa.table({"pay": [*cells, last]})
        schema = sherd.Schema.from_data({"attributes": {"pay": ATTRIBUTES["pay"]}})
        made = prepare(table, schema, strict=True).table["pay"].to_pylist()
        assert made[:10] == [5000.0] * 5 + [2.5] * 5


def test_a_draft_finds_the_types(tmp_path: Path) -> None:
    """And says what commas and dots were taken for."""
    path = tmp_path / "people.csv"
    path.write_text(LOCAL + "2,5;01.02.1980;\n" * 9)
    draft = drafted(read(path), name="people.csv").yaml()
    assert draft.count("type: number") == 1
    assert draft.count("type: date\n") == 1
    assert draft.count("type: datetime") == 1
    assert "commas are taken for decimal points" in draft
    assert "read as day.month.year" in draft
    plan = sherd.Plan(method="dp", epsilon=1.0)
    made = sherd.protect(
        read(path, schema=SCHEMA), SCHEMA, plan, ledger=None, settings=Settings(seed=1)
    )
    assert made.tables["data"].num_rows == 12


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["12/31/1999", "01/02/2000"], "month first in some cells"),
        (["31/12/1999", "1/2/2000"], "day first in some cells;"),
        (["31/12/1999", "12/31/1999"], "day first in some cells and month first in others"),
        (["01/02/2000", "03/04/2001"], "whether day or month comes first cannot be told"),
        (["12,345", "1,234,567", "8"], "commas between thousands"),
    ],
)
def test_what_is_not_read_is_named_in_the_draft(
    tmp_path: Path, cells: list[str], said: str
) -> None:
    """Days with slashes and thousands stay text, never a guess; the draft says what to write."""
    place = tmp_path / "table.csv"
    place.write_text("x,y\n" + "".join(f'"{cell}",1\n' for cell in cells * 20), encoding="utf-8")
    draft = drafted(read(place), name="table.csv").yaml()
    assert said in draft
    assert "type: text\n    role: identifier" in draft
