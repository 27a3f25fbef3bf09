"""Files of a release are a function of schema, plan and released cells, whatever was read.

For every method, source and format: (a) neighbouring tables (one cell missing, one fraction
among whole numbers, one label that nobody else has) give files of one structure, each of which
is, byte for byte, what writing its cells in that structure gives; (b) the order of the input's
rows and the kind of source change nothing in that, and with the same random numbers the same
rows give the same bytes from every source.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sherd
from sherd.release.protect import Settings
from sherd.tables.read import read
from sherd.tables.write import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 72
FORMATS = ("parquet", "feather", "arrows", "csv", "csv.gz", "csv.zst")
SOURCES = ("pyarrow", "pandas", "polars", "csv", "parquet", "sqlite", "duckdb", "postgresql")
TOWNS = ["Ulm", "Kiel", "Passau", "Bremen", "Wien"]
ILLS = ["flu", "cold", "burn", "cut", "gout", "rare"]

ATTRIBUTES: dict[str, Any] = {
    "ill": {"type": "category", "role": "sensitive", "values": ILLS},
    "age": {"type": "integer", "domain": [0, 99]},
    "pay": {"type": "number", "domain": [0, 100], "grid": "0.1"},
    "town": {"type": "category", "values": TOWNS},
    "born": {"type": "date", "domain": ["1900-01-01", "2030-01-01"]},
    "member": {"type": "boolean"},
}
RECODED = {"ill": "cold", "age": 50, "pay": 5, "town": "Ulm", "born": "1990-01-01",
           "member": "false"}  # fmt: skip

PLANS: dict[str, dict[str, Any]] = {
    "dp": {"method": "dp", "epsilon": 1.0},
    "idp": {"method": "idp", "epsilon": 1.0},
    "dp-um": {"method": "dp-um", "epsilon": 1.0, "k": 5},
    "idp-ls": {"method": "idp-ls", "epsilon": 1.0, "k": 5, "guarantee": "paper"},
    "idp-cbls": {"method": "idp-cbls", "epsilon": 1.0, "k": 5, "guarantee": "centroids"},
    "strict": {"method": "dp-um", "epsilon": 1.0, "k": 5, "guarantee": "strict"},
    "slice": {"method": "slice", "l": 2, "columns": 2, "min_frequency": 3, "suppress": True},
    "slice as is": {"method": "slice", "l": 2, "columns": 2, "suppress": True},
    "mondrian": {"method": "mondrian", "k": 3, "l": 2, "suppress": True},
    "anatomy": {"method": "anatomy", "l": 2, "suppress": True},
    "fragment": {
        "method": "fragment",
        "constraints": {"constraints": [["age", "ill"], ["town", "ill"]]},
        "fragments": [["age", "pay", "town", "born", "member"], ["ill"]],
        "looseness": 2,
        "suppress": 0.9,
    },
    "diffgen": {"method": "diffgen", "epsilon": 5.0, "h": 3, "class_attribute": "ill"},
    "dp-graph": {"method": "dp-graph", "epsilon": 1.0},
}


def _schema(plan: str) -> sherd.Schema:
    if plan != "strict":
        return sherd.Schema.from_data({"attributes": ATTRIBUTES})
    recoded = {name: {**one, "recode": RECODED[name]} for name, one in ATTRIBUTES.items()}
    return sherd.Schema.from_data({"missing": "recode", "attributes": recoded})


def _base() -> dict[str, list[Any]]:
    rng = np.random.default_rng(11)
    day = dt.date(1950, 1, 1)
    return {
        "ill": [ILLS[i] for i in rng.integers(0, 5, ROWS)],
        "age": rng.integers(0, 100, ROWS).tolist(),
        "pay": [round(float(x), 1) for x in rng.uniform(0, 100, ROWS)],
        "town": [TOWNS[i] for i in rng.integers(0, 4, ROWS)],
        "born": [day + dt.timedelta(int(d)) for d in rng.integers(0, 20_000, ROWS)],
        "member": rng.integers(0, 2, ROWS).astype(bool).tolist(),
    }


def _with(row: int, **cells: Any) -> dict[str, list[Any]]:
    columns = _base()
    for name, value in cells.items():
        columns[name][row] = value
    return columns


def _shuffled() -> dict[str, list[Any]]:
    order = np.random.default_rng(2).permutation(ROWS)
    return {name: [cells[i] for i in order] for name, cells in _base().items()}


NEIGHBOURS: dict[str, Callable[[], dict[str, list[Any]]]] = {
    "as it is": _base,
    "a missing number": lambda: _with(40, age=None, pay=None),
    "a missing label, day and truth": lambda: _with(3, town=None, born=None, member=None),
    "a fraction": lambda: _with(0, age=37.5),
    "whole numbers only": lambda: {**_base(), "pay": [float(i) for i in range(ROWS)]},
    "a label of one": lambda: _with(ROWS - 1, ill="rare", town="Wien"),
    "other rows first": _shuffled,
}


def _arrow(columns: dict[str, list[Any]]) -> pa.Table:
    """The rows in the types that pyarrow finds for them, as a careless reader would."""
    return pa.table(columns)


class Desk:
    """Where tables are put into sources and taken out again."""

    def __init__(self, folder: Path, address: str | None) -> None:
        self.folder = folder
        self.address = address

    def taken(self, source: str, columns: dict[str, list[Any]], schema: sherd.Schema) -> Any:
        """The rows as a source gives them."""
        table = _arrow(columns)
        if source == "pyarrow":
            return table
        if source == "pandas":
            return pytest.importorskip("pandas").DataFrame(columns)
        if source == "polars":
            return pytest.importorskip("polars").DataFrame(columns, strict=False)
        if source in ("csv", "parquet"):
            path = self.folder / f"in.{source}"
            if source == "csv" and pa.types.is_floating(table.schema.field("age").type):
                # Text that is no whole number does not come from a column of whole numbers.
                place = table.column_names.index("age")
                rounded = [None if a is None else round(a) for a in columns["age"]]
                table = table.set_column(place, "age", pa.array(rounded, pa.int64()))
            write(table, path)
            return read(path, schema=schema)
        return read(self._stored(source, columns), schema=schema)

    def _stored(self, source: str, columns: dict[str, list[Any]]) -> str:
        if source == "sqlite":
            path = self.folder / "in.db"
            path.unlink(missing_ok=True)
            rows = [
                tuple(v.isoformat() if isinstance(v, dt.date) else v for v in row)
                for row in zip(*columns.values(), strict=True)
            ]
            with sqlite3.connect(path) as connection:
                connection.execute(f"CREATE TABLE people ({', '.join(columns)})")
                marks = ", ".join("?" * len(columns))
                connection.executemany(f"INSERT INTO people VALUES ({marks})", rows)  # noqa: S608
            connection.close()
            return f"sqlite:///{path}?table=people"
        if source == "duckdb":
            duckdb = pytest.importorskip("duckdb")
            path = self.folder / "in.duckdb"
            path.unlink(missing_ok=True)
            with duckdb.connect(str(path)) as connection:
                connection.register("rows", _arrow(columns))
                connection.execute("CREATE TABLE people AS SELECT * FROM rows")
            return f"duckdb:///{path}?table=people"
        assert self.address is not None
        dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
        with dbapi.connect(self.address) as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS cells_only")
            cursor.adbc_ingest("cells_only", _arrow(columns))
            connection.commit()
        return f"{self.address}?table=cells_only"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Desk:
    """A folder, and a PostgreSQL server of our own."""
    return Desk(tmp_path_factory.mktemp("desk"), request.getfixturevalue("postgresql"))


def _released(desk: Desk, source: str, plan: str, neighbour: str, seed: int = 1) -> sherd.Release:
    schema = _schema(plan)
    table = desk.taken(source, NEIGHBOURS[neighbour](), schema)
    settings = Settings(seed=seed, threads=1)
    chosen = sherd.Plan(**PLANS[plan])
    return sherd.protect(table, schema, chosen, settings=settings, ledger=None)


def _structure(path: Path) -> Any:
    """All that a file says besides its cells, but for what is computed from them."""
    if path.name.endswith(".parquet"):
        with pq.ParquetFile(path) as file:
            facts = file.metadata
            columns = [
                (chunk.path_in_schema, chunk.physical_type, chunk.compression)
                for group in range(facts.num_row_groups)
                for chunk in map(facts.row_group(group).column, range(facts.num_columns))
            ]
            kinds = [(field.name, str(field.type), field.nullable) for field in file.schema_arrow]
            return kinds, columns, facts.metadata, facts.created_by, facts.format_version
    if path.name.endswith((".feather", ".arrows")):
        with path.open("rb") as file:
            if path.suffix == ".feather":
                opened = pa.ipc.open_file(file)
            else:
                opened = pa.ipc.open_stream(file)
            schema = opened.schema
        return [(f.name, str(f.type), f.nullable, f.metadata) for f in schema], schema.metadata
    table = read(path)
    return table.column_names


def _rewritten(table: pa.Table, folder: Path, name: str) -> bytes:
    """What writing nothing but names, types by the schema and cells gives."""
    columns = {}
    for column in table.column_names:
        kind = table.schema.field(column).type
        columns[column] = pa.array(table.column(column).to_pylist(), kind)
    path = folder / f"again-{name}"
    write(pa.table(columns), path)
    return path.read_bytes()


def _types(plan: str, release: sherd.Release) -> list[Any]:
    schema = _schema(plan)
    return [
        (stem, field.name, str(field.type), field.name in schema.attributes)
        for stem, table in release.tables.items()
        for field in table.schema
    ]


def _check_neighbours(
    desk: Desk, folder: Path, source: str, plan: str, neighbours: dict[str, tuple[str, ...]]
) -> None:
    """Compare the files of neighbouring tables, each in the formats given for it."""
    expected: list[Any] | None = None
    structures: dict[tuple[str, str], Any] = {}
    for neighbour, formats in neighbours.items():
        release = _released(desk, source, plan, neighbour)
        types = _types(plan, release)
        expected = expected or types
        assert types == expected, neighbour
        for form in formats:
            for stem, table in release.tables.items():
                path = folder / f"{stem}.{form}"
                write(table, path)  # as a bundle does
                structure = _structure(path)
                assert structures.setdefault((stem, form), structure) == structure, neighbour
                assert path.read_bytes() == _rewritten(table, folder, path.name), neighbour


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("plan", PLANS)
def test_neighbouring_tables_give_files_that_differ_in_cells_only(
    plan: str, source: str, desk: Desk, tmp_path: Path
) -> None:
    """Of one structure, and each file the bytes that its own cells make.

    Two neighbours here, others for every method and source; all of them under ``make test-all``.
    """
    names = list(NEIGHBOURS)[1:]
    turn = list(PLANS).index(plan) + SOURCES.index(source)
    chosen = {names[turn % len(names)], names[(turn + 2) % len(names)]}
    few: tuple[str, ...] = FORMATS[:2]
    neighbours = dict.fromkeys(["as it is", *sorted(chosen)], few) | {"as it is": FORMATS}
    _check_neighbours(desk, tmp_path, source, plan, neighbours)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("plan", PLANS)
def test_all_neighbouring_tables_give_files_that_differ_in_cells_only(
    plan: str, source: str, desk: Desk, tmp_path: Path
) -> None:
    """Every neighbour in every format."""
    _check_neighbours(desk, tmp_path, source, plan, dict.fromkeys(NEIGHBOURS, FORMATS))


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("neighbour", ["a missing number"])
def test_the_same_rows_give_the_same_bytes_from_every_source(
    plan: str, neighbour: str, desk: Desk, tmp_path: Path
) -> None:
    """The source's own types, dictionaries and chunks are not seen."""
    seen: dict[tuple[str, str], bytes] = {}
    for source in SOURCES:
        release = _released(desk, source, plan, neighbour)
        for form in ("parquet", "feather", "csv"):
            for stem, table in release.tables.items():
                write(table, tmp_path / f"{stem}.{form}")
                raw = (tmp_path / f"{stem}.{form}").read_bytes()
                assert seen.setdefault((stem, form), raw) == raw, (source, stem, form)


@pytest.mark.parametrize("plan", ["dp", "strict", "diffgen", "dp-graph"])
def test_the_order_of_rows_does_not_decide_on_cells(plan: str, desk: Desk) -> None:
    """Where noise is drawn by place or rank, a permuted table gives an equally likely release.

    A fixed stream and a method that looks at rows by their values only give the very same
    cells; for ``dp``, which draws noise row by row, the number of cells of each kind is the same.
    """
    first = _released(desk, "pyarrow", plan, "as it is")
    second = _released(desk, "pyarrow", plan, "other rows first")
    for stem, table in first.tables.items():
        other = second.tables[stem]
        assert table.schema == other.schema
        assert table.shape == other.shape
        if plan != "dp":
            assert table.equals(other), stem
