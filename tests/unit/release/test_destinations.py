"""Every fragment to a server or folder of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sherd.cli import run
from sherd.errors import ConnectionFailedError, OutputExistsError, UsageError
from sherd.release.destinations import check_destinations, destinations, send

if TYPE_CHECKING:
    from pathlib import Path

TABLES = {"fragment-1": pa.table({"a": [1, 2]}), "fragment-2": pa.table({"b": ["x", None]})}


def listed(address: str) -> dict[str, list[Any]]:
    """Every table of a server, row by row, with the column names first."""
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = [name for (name,) in cursor.fetchall()]
        found = {}
        for name in names:
            cursor.execute(f'SELECT * FROM "{name}"')  # noqa: S608 - a name of our own
            table = cursor.fetch_arrow_table()
            found[name] = [table.column_names, *(list(row.values()) for row in table.to_pylist())]
    return found


def test_each_fragment_goes_to_its_own_server_and_nothing_else(
    postgresql: str, second_postgresql: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two PostgreSQL servers and a folder, from the command line; no password is told."""
    (tmp_path / "s.yaml").write_text(
        json.dumps({"attributes": {n: {"type": "category"} for n in "abc"}})
    )
    (tmp_path / "c.yaml").write_text(
        json.dumps({"constraints": [["a", "b"], ["b", "c"], ["a", "c"]]})
    )
    rows = [f"a{i % 25},b{i % 20},c{i % 16}" for i in range(400)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c", *rows]))
    asked = [
        "fragment", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.yaml"),
        "--constraints", str(tmp_path / "c.yaml"), "--looseness", "4",
        "--to", f"fragment-1={postgresql}", "--to", f"fragment-2={second_postgresql}",
        "--to", f"fragment-3={tmp_path / 'third'}", "-o",
    ]  # fmt: skip
    before = set(listed(postgresql))
    assert run([*asked, str(tmp_path / "out")]) == 0
    first, second = listed(postgresql), listed(second_postgresql)
    assert set(first) - before == {"fragment_1"}
    assert set(second) == {"fragment_2"}
    assert [p.name for p in (tmp_path / "third").iterdir()] == ["fragment-3.parquet"]
    for number, shown in ((1, first["fragment_1"]), (2, second["fragment_2"])):
        own = pq.read_table(tmp_path / "out" / f"fragment-{number}.parquet")
        assert shown[0] == own.column_names
        assert sorted(shown[1:]) == sorted(list(row.values()) for row in own.to_pylist())
    told = capsys.readouterr()
    for address in (postgresql, second_postgresql):
        assert address.split(":")[2].partition("@")[0] not in told.out + told.err
    assert run([*asked, str(tmp_path / "again"), "--again"]) != 0  # it is there already
    assert not (tmp_path / "again").exists()
    assert run([*asked, str(tmp_path / "again"), "--again", "--force"]) == 0
    assert listed(second_postgresql)["fragment_2"] != second["fragment_2"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["fragment-1"], "cannot be read"),
        (["=x"], "cannot be read"),
        (["fragment-1=a", "fragment-1=b"], "two destinations"),
        (["fragment-1=mysql://ann:secret@host/db"], "of this kind"),
    ],
)
def test_destinations_that_cannot_be_read(given: list[str], said: str) -> None:
    """Refused, and no secret is repeated."""
    with pytest.raises(UsageError, match=said) as caught:
        destinations(given)
    assert "secret" not in str(caught.value)


def test_what_is_there_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    """A folder with such a table; a table that the release lacks; a server that is not there."""
    places = destinations([f"fragment-1={tmp_path / 'one'}", f"fragment-2={tmp_path / 'two'}"])
    assert "one" not in repr(places[0])
    check_destinations(places, force=False)
    send(TABLES, places, force=False)
    assert pq.read_table(tmp_path / "two" / "fragment-2.parquet").to_pydict() == {"b": ["x", None]}
    with pytest.raises(OutputExistsError, match="--force"):
        check_destinations(places, force=False)
    check_destinations(places, force=True)
    with pytest.raises(UsageError, match="does not have"):
        send(TABLES, destinations([f"fragment-3={tmp_path}"]), force=False)
    pytest.importorskip("adbc_driver_postgresql.dbapi")
    gone = destinations(["fragment-1=postgresql://ann:secret@127.0.0.1:1/db"])
    with pytest.raises(ConnectionFailedError, match="cannot be reached") as caught:
        check_destinations(gone, force=False)
    assert "secret" not in str(caught.value)
