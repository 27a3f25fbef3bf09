"""Counted where it is: the counts, the refusals and the release of the table in memory."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sherd
from sherd.engines.database_counts import DatabaseCounts, database_source
from sherd.errors import PlanError, TableError, UsageError
from sherd.methods.graphical.dp_graph import METHOD as DP_GRAPH
from sherd.methods.graphical.dp_graph import code, design_of
from sherd.methods.graphical.measuring import Marginal
from sherd.methods.specialising.diffgen import METHOD as DIFFGEN
from sherd.release.table_source import CountedTable
from sherd.tables.prepare import prepare
from sherd.tables.schema import Missing, Outside, Schema
from sherd.tables.sql import Address

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

duckdb = pytest.importorskip("duckdb")

EVIL = "o'b\"r\\ien'); DROP TABLE people; --"
SCHEMA = Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": [0, 120], "recode": "7"},
            "pay": {"type": "number", "domain": [-5, 900], "grid": "0.01", "recode": "0"},
            "cost": {"type": "number", "domain": [0, 50], "grid": "0.01", "recode": "1"},
            "born": {
                "type": "date", "domain": ["1900-01-01", "2020-12-31"], "recode": "2000-01-01"
            },
            "seen": {
                "type": "datetime",
                "domain": ["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"],
                "recode": "2020-05-05T00:00:00Z",
            },
            "town": {
                "type": "category", "values": ["a", "b", EVIL, "other"], "other": "other",
                "recode": "a",
            },
            "rank": {"type": "ordinal", "values": ["1", "2", "3"], "other": "3", "recode": "2"},
            "glad": {"type": "boolean", "recode": "true"},
            "who": {"type": "text", "role": "identifier"},
        },
        "missing": "keep",
        "outside": "clamp",
        "missing_values": ["-9", "?"],
    }
)  # fmt: skip


def table_of(rows: int, seed: int) -> pa.Table:
    """People with ties, half steps, cells outside and cells missing, in every type."""
    rng = np.random.default_rng(seed)
    gone = rng.random((8, rows)) < 0.15
    pay = rng.choice([-9.0, -5.0, -5.005, 0.005, 1.005, 899.995, 1e300, np.nan, np.inf], rows)
    pay = np.where(rng.random(rows) < 0.5, np.round(rng.normal(300, 200, rows), 3), pay)
    cost = [Decimal(int(cents)).scaleb(-3) for cents in rng.integers(-2000, 60_000, rows)]
    days = rng.integers(-30_000, 20_000, rows).astype("datetime64[D]")
    start = np.datetime64("2019-12-01", "us").astype(np.int64)
    seen = (start + rng.integers(0, 500 * 86_400 * 10**6, rows)).astype("datetime64[us]")
    labels = np.array(["a", "b", EVIL, "other", "?", "elsewhere", ""])
    return pa.table(
        {
            "age": pa.array(rng.integers(-12, 130, rows), pa.int32(), mask=gone[0]),
            "pay": pa.array(pay, mask=gone[1], from_pandas=False),
            "cost": pa.array(
                [None if g else c for c, g in zip(cost, gone[2], strict=True)], pa.decimal128(9, 3)
            ),
            "born": pa.array(days, mask=gone[3]),
            "seen": pa.array(seen, mask=gone[4]),
            "town": pa.array(labels[rng.integers(0, len(labels), rows)], mask=gone[5]),
            "rank": pa.array(rng.integers(0, 5, rows), mask=gone[6]),
            "glad": pa.array(rng.random(rows) < 0.3, mask=gone[7]),
            "who": pa.array([f"person {i}" for i in range(rows)]),
        }
    )


def in_duckdb(table: pa.Table, folder: Path) -> str:
    """The table in a file of DuckDB's."""
    path = folder / f"people-{len(list(folder.iterdir()))}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return f"duckdb:///{path}?table=people"


def in_postgresql(server: str, table: pa.Table) -> str:
    """The table in PostgreSQL, decimals as its own numbers of any length."""
    from adbc_driver_postgresql import dbapi

    texts = table.set_column(
        table.column_names.index("cost"), "cost", table["cost"].cast(pa.string())
    )
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS people")
        cursor.adbc_ingest("people", texts)
        cursor.execute("ALTER TABLE people ALTER cost TYPE numeric USING cost::numeric")
        connection.commit()
    return f"{server}?table=people"


@pytest.fixture(params=["duckdb", "postgresql"])
def keep(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Callable[[pa.Table], str]:
    """A database: takes a table, gives its address."""
    if request.param == "duckdb":
        folder = tmp_path_factory.mktemp("database")
        return lambda table: in_duckdb(table, folder)
    server: str = request.getfixturevalue("postgresql")
    return lambda table: in_postgresql(server, table)


def histograms_agree(counts: DatabaseCounts, coded: Any, sizes: list[int]) -> None:
    """Every one-way on all codes, and pairs on bins of several codes."""
    assert counts.rows == coded.rows
    for a, size in enumerate(sizes):
        fine = Marginal(attributes=(a,), bins=(tuple(range(size)),))
        assert (counts.histogram(fine) == coded.histogram(fine)).all(), a
    halves = [tuple(code * 3 // size for code in range(size)) for size in sizes]
    for a, b in itertools.pairwise(range(len(sizes))):
        pair = Marginal(attributes=(a, b), bins=(halves[a], tuple(range(sizes[b]))))
        assert (counts.histogram(pair) == coded.histogram(pair)).all(), (a, b)


POLICIES = [
    (missing, outside)
    for missing in (Missing.KEEP, Missing.DROP, Missing.RECODE)
    for outside in (Outside.CLAMP, Outside.DROP)
]


@given(seed=st.integers(0, 2**32 - 1), policies=st.sampled_from(POLICIES))
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_counts_are_those_of_memory(
    keep: Callable[[pa.Table], str], seed: int, policies: tuple[Missing, Outside]
) -> None:
    """Half steps, infinities, marks, quotes and cells outside: every count is the same."""
    missing, outside = policies
    schema = replace(SCHEMA, missing=missing, outside=outside)
    table = table_of(300, seed)
    address = keep(table)
    plan = sherd.Plan(method="dp-graph", epsilon=1)
    design = design_of(plan, schema)
    prepared = prepare(sherd.read(address, schema=schema), schema)
    with database_source(Address.parse(address)) as source:
        counts = DatabaseCounts(source, schema, DP_GRAPH.counted(plan, schema))
        coded = code(prepared.table, schema, design)
        histograms_agree(counts, coded, [grid.size for grid in design.grids])
        told = sorted(map(str, prepared.treated))
        assert sorted(map(str, counts.treated)) == told


NUMBERS = ("NULL", "0", "1", "1.5", "0.25", "0.75", "12", "-9")
ODD_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "duckdb": {
        "DOUBLE": (*NUMBERS, "'NaN'", "'inf'", "'-inf'", "0.1 + 0.2", "1e300", "-0.0"),
        "FLOAT": (*NUMBERS, "'NaN'", "0.1", "12.05"),
        "UBIGINT": ("NULL", "0", "1", "12", "18446744073709551615", "9007199254740993"),
        "HUGEINT": ("NULL", "0", "1", "12", "-9", "9" * 30),
        "DECIMAL(4,1)": ("NULL", "0", "1", "1.5", "12.1", "-9", "999.9"),
        "DECIMAL(38,10)": (*NUMBERS, "0.2500000001", "9999999999999999999999999999.5"),
        "DECIMAL(38,0)": ("NULL", "1", "12", "9" * 38, "-" + "9" * 38),
        "DECIMAL(38,38)": ("NULL", "0", "0.5", "0.25", "0." + "25".ljust(37, "0") + "1"),
        "DECIMAL(20,19)": ("NULL", "0", "1", "1.5", "1.4999999999999999999", "9.75"),
        "BOOLEAN": ("NULL", "TRUE", "FALSE"),
        "VARCHAR": ("NULL", "''", "'1'", "'1.5'", "'12'", "'-9'", "'NaN'", "'?'"),
        "VARCHAR DEFAULT ''": ("NULL", "'true'", "'false'", "'?'", "''"),
        "DATE": ("NULL", "DATE '2020-01-05'", "DATE '1000-01-01'", "'infinity'"),
        "TIMESTAMP": ("NULL", "TIMESTAMP '2020-01-05 00:00:00'", "TIMESTAMP '2020-01-05 01:02:03'"),
        "TIMESTAMPTZ": ("NULL", "TIMESTAMPTZ '2020-01-04 23:30:00-02'", "'infinity'"),
        "TIMESTAMP_NS": ("NULL", "TIMESTAMP '2020-01-05 00:00:00'"),
        "INTEGER[]": ("NULL", "[1, 2]"),
        "TIME": ("NULL", "TIME '12:00:00'"),
    },
    "postgresql": {
        "double precision": (*NUMBERS, "'NaN'", "'Infinity'", "'-Infinity'", "0.1 + 0.2", "1e300"),
        "real": (*NUMBERS, "'NaN'", "0.1", "12.05"),
        "numeric": (*NUMBERS, "'NaN'", "9" * 30, "0." + "25".ljust(37, "0") + "1"),
        "numeric(20,19)": ("NULL", "0", "1", "1.5", "1.4999999999999999999", "9.75"),
        "smallint": ("NULL", "0", "1", "12", "-9"),
        "boolean": ("NULL", "TRUE", "FALSE"),
        "text": ("NULL", "''", "'1'", "'1.5'", "'12'", "'-9'", "'NaN'", "'?'"),
        "date": ("NULL", "DATE '2020-01-05'", "DATE '1000-01-01'", "'infinity'"),
        "timestamp": ("NULL", "TIMESTAMP '2020-01-05 00:00:00'", "TIMESTAMP '2020-01-05 01:02:03'"),
        "timestamptz": ("NULL", "TIMESTAMPTZ '2020-01-04 23:30:00-02'"),
        "integer[]": ("NULL", "ARRAY[1, 2]"),
    },
}
"""Columns of every type, with the values that types are read differently for."""

ODD_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "integer": {"type": "integer", "domain": [-3, 12], "recode": "1"},
    "number": {"type": "number", "domain": [-3, 12], "grid": "0.5", "recode": "1"},
    "date": {"type": "date", "domain": ["2019-12-30", "2020-02-01"], "recode": "2020-01-01"},
    "datetime": {
        "type": "datetime",
        "domain": ["2019-12-30T00:00:00Z", "2020-02-01T00:00:00Z"],
        "recode": "2020-01-01T00:00:00Z",
    },
    "category": {
        "type": "category", "values": ["1", "1.5", "true", "rest"], "other": "rest", "recode": "1"
    },
    "boolean": {"type": "boolean", "recode": "true"},
}  # fmt: skip


def _told(work: Callable[[str, Schema], Any], address: str, schema: Schema) -> Any:
    """What came of it: counts, or that it was refused."""
    try:
        return work(address, schema)
    except (TableError, UsageError):
        return "refused"


@pytest.mark.parametrize("policy", ["keep", "drop", "recode"])
@pytest.mark.parametrize("database", ["duckdb", "postgresql"])
def test_every_type_is_counted_as_in_memory_or_refused(
    database: str, policy: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Booleans over NaN, decimals of 38 digits, infinite days: the same counts, or none at all."""
    counted = 0
    for number, (kind, values) in enumerate(ODD_COLUMNS[database].items()):
        rows = ", ".join(f"({v})" for at, v in enumerate(values) for _ in range(at + 1))
        made = f"CREATE TABLE odd (c {kind})", f"INSERT INTO odd VALUES {rows}"  # noqa: S608
        if database == "duckdb":
            path = tmp_path / f"{number}.duckdb"
            with duckdb.connect(str(path)) as connection:
                for statement in made:
                    connection.execute(statement)
            address = f"duckdb:///{path}?table=odd"
        else:
            from adbc_driver_postgresql import dbapi

            server: str = request.getfixturevalue("postgresql")
            with dbapi.connect(server) as connection, connection.cursor() as cursor:
                for statement in ("DROP TABLE IF EXISTS odd", *made):
                    cursor.execute(statement)
                connection.commit()
            address = f"{server}?table=odd"
        for name, attribute in ODD_ATTRIBUTES.items():
            schema = Schema.from_data(
                {
                    "attributes": {"c": attribute},
                    "missing": policy,
                    "outside": "drop" if policy == "drop" else "clamp",
                    "missing_values": ["-9", "?"],
                }
            )
            in_place = _told(_histogram_in_place, address, schema)
            if in_place != "refused":
                assert in_place == _told(_histogram_read, address, schema), (kind, name)
                counted += 1
    assert counted > 20


def _everything(schema: Schema) -> tuple[Any, Any, Marginal]:
    plan = sherd.Plan(method="dp-graph", epsilon=1)
    design = design_of(plan, schema)
    return plan, design, Marginal(attributes=(0,), bins=(tuple(range(design.grids[0].size)),))


def _histogram_in_place(address: str, schema: Schema) -> Any:
    plan, _design, marginal = _everything(schema)
    with database_source(Address.parse(address)) as source:
        counts = DatabaseCounts(source, schema, DP_GRAPH.counted(plan, schema))
        return counts.histogram(marginal).tolist(), sorted(map(str, counts.treated))


def _histogram_read(address: str, schema: Schema) -> Any:
    _plan, design, marginal = _everything(schema)
    prepared = prepare(sherd.read(address, schema=schema), schema)
    coded = code(prepared.table, schema, design)
    return coded.histogram(marginal).tolist(), sorted(map(str, prepared.treated))


ALIKE = [
    "a",
    "A",
    "a ",
    "  a",
    "é",
    "e\u0301",
    "Å",
    "\u212b",
    "A\u030a",
    "ß",
    "ss",
    "a\u200b",
    "a\nb",
    EVIL,
    "?",
]
"""Texts that some collation calls equal, or that padding and trimming make so."""


def collated(server: str, word: str) -> str:
    """A PostgreSQL table whose column compares texts in this way."""
    from adbc_driver_postgresql import dbapi

    made = {
        "caseless": "provider = icu, locale = 'und-u-ks-level2', deterministic = false",
        "accentless": "provider = icu, locale = 'und-u-ks-level1-kc-true', deterministic = false",
    }
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS alike")
        for name, how in made.items():
            cursor.execute(f"DROP COLLATION IF EXISTS {name}")
            cursor.execute(f"CREATE COLLATION {name} ({how})")
        kind = "char(40)" if word == "padded" else f"text COLLATE {word}"
        cursor.execute(f"CREATE TABLE alike (town {kind})")
        cursor.adbc_ingest("given", pa.table({"town": ALIKE}), mode="replace")
        cursor.execute("INSERT INTO alike SELECT town FROM given")
        connection.commit()
    return f"{server}?table=alike"


@pytest.mark.parametrize(
    "word", ["NOCASE", "NFC", "NOACCENT", "enumerated", "caseless", "accentless", "padded"]
)
def test_texts_are_told_apart_whatever_their_collation(
    word: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Upper case, accents, normal forms and spaces count as they do in memory."""
    if word in ("NOCASE", "NFC", "NOACCENT", "enumerated"):
        path = tmp_path / "alike.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.register("given", pa.table({"town": ALIKE}))
            kind = f"VARCHAR COLLATE {word}"
            if word == "enumerated":
                connection.execute("CREATE TYPE listed AS ENUM (SELECT town FROM given)")
                kind = "listed"
            connection.execute(f"CREATE TABLE alike (town {kind})")
            connection.execute("INSERT INTO alike SELECT town FROM given")
        address = f"duckdb:///{path}?table=alike"
    else:
        address = collated(request.getfixturevalue("postgresql"), word)
    for listed in (
        ["a", "é", "Å", "rest"],
        ["A", "a ", "e\u0301", "ss", EVIL, "rest"],
        ["a".ljust(40), "rest"],
    ):
        town = {"type": "category", "values": listed, "other": "rest"}
        schema = Schema.from_data({"attributes": {"town": town}, "missing_values": ["?"]})
        plan = sherd.Plan(method="dp-graph", epsilon=1)
        design = design_of(plan, schema)
        prepared = prepare(sherd.read(address, schema=schema), schema)
        with database_source(Address.parse(address)) as source:
            counts = DatabaseCounts(source, schema, DP_GRAPH.counted(plan, schema))
            coded = code(prepared.table, schema, design)
            histograms_agree(counts, coded, [grid.size for grid in design.grids])


@pytest.mark.parametrize("method", ["dp-graph", "diffgen"])
@pytest.mark.parametrize("target", [None, "rank"])
def test_releases_are_those_of_memory(
    keep: Callable[[pa.Table], str], tmp_path: Path, method: str, target: str | None
) -> None:
    """With one seed the bytes of the release are the same: choices, noise and records."""
    table = table_of(400, 5)
    address = keep(table)
    plan = sherd.Plan(method=method, epsilon=3.0, class_attribute=target)
    made = sherd.Settings(seed=11)
    files, manifests = [], []
    for name, read in (
        ("memory", lambda: sherd.read(address, schema=SCHEMA)),
        ("database", lambda: CountedTable.in_database(address)),
    ):
        folder = tmp_path / name
        sherd.protect_to(folder, read, SCHEMA, plan, ledger=None, settings=made)
        names = {path.name for path in folder.iterdir()} - {"datapackage.json"}
        files.append({one: (folder / one).read_bytes() for one in names - {"manifest.json"}})
        manifest = json.loads((folder / "manifest.json").read_text())
        for of_its_own in (manifest, manifest["files"]):  # both tell the time
            of_its_own.pop("created", None)
            of_its_own.pop("datapackage.json", None)
        manifests.append(manifest)
    assert files[0] == files[1]
    assert manifests[0] == manifests[1]


def test_python_takes_an_address(tmp_path: Path) -> None:
    """`sherd.protect` of an address reads nothing but counts."""
    address = in_duckdb(table_of(200, 1), tmp_path)
    plan = sherd.Plan(method="dp-graph", epsilon=1.0)
    release = sherd.protect(address, SCHEMA, plan, ledger=None)
    assert release.rows == 200
    assert any(one.name == "share clamped" for one in release.findings)
    with pytest.raises(PlanError, match="does not run on the engine 'database'"):
        sherd.protect(address, SCHEMA, sherd.Plan(method="dp", epsilon=1.0), ledger=None)
    with pytest.raises(UsageError, match="cannot count records"):
        sherd.protect("sqlite:///x.db?table=people", SCHEMA, plan, ledger=None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"missing": Missing.REFUSE}, "has missing cells"),
        ({"outside": Outside.REFUSE}, "outside its domain"),
    ],
)
def test_refusals_are_those_of_memory(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    """What preparing a table refuses is refused by counting, in the same words."""
    schema = replace(SCHEMA, **change)
    address = in_duckdb(table_of(200, 1), tmp_path)
    plan = sherd.Plan(method="diffgen", epsilon=1.0)
    words = []
    for given_table in (sherd.read(address, schema=schema), address):
        with pytest.raises(TableError, match=told) as refused:
            sherd.protect(given_table, schema, plan, ledger=None)
        words.append(str(refused.value))
    assert words[0] == words[1]


def test_too_many_rows_of_a_unit_are_refused(tmp_path: Path) -> None:
    """Units are counted in the database."""
    schema = replace(SCHEMA, unit="who", rows_per_unit=1)
    table = table_of(50, 1)
    plan = sherd.Plan(method="dp-graph", epsilon=1.0)
    fine = sherd.protect(in_duckdb(table, tmp_path), schema, plan, ledger=None)
    assert fine.rows == 50
    twice = pa.concat_tables([table, table.slice(3, 1)])
    with pytest.raises(TableError, match="more rows than the schema allows"):
        sherd.protect(in_duckdb(twice, tmp_path), schema, plan, ledger=None)


def test_nothing_but_counts_and_labels_leave_the_database(tmp_path: Path) -> None:
    """Every answer is a list of distinct labels, or has no more rows than the histogram cells."""
    table = table_of(3000, 2)
    address = in_duckdb(table, tmp_path)
    plan = sherd.Plan(method="diffgen", epsilon=1.0, class_attribute="rank")
    answered: list[tuple[str, pa.Table]] = []
    with database_source(Address.parse(address)) as source:

        def ask(query: str) -> pa.Table:
            answered.append((query, source.ask(query)))
            return answered[-1][1]

        watched = replace(source, ask=ask)
        counts = DatabaseCounts(watched, SCHEMA, DIFFGEN.counted(plan, SCHEMA))
        run = sherd.Settings(seed=1).run(None)
        DIFFGEN.run_on_counts(counts, SCHEMA, plan, run)
    listed = [told for query, told in answered if "DISTINCT" in query]
    assert {len(told) for told in listed} <= {3, 6, 8}, "town, rank and glad alone are listed"
    for query, told in answered:
        if "DISTINCT" not in query:
            assert told.num_rows < 3000
            assert (
                all(
                    pa.types.is_integer(kind) or pa.types.is_decimal(kind)
                    for kind in told.schema.types
                )
                or told.num_rows == 0
            )


def test_texts_without_end_are_refused(tmp_path: Path) -> None:
    """A column of free text is not listed: what to do is said, without a cell."""
    names = [f"secret {i}" for i in range(10_050)]
    schema = Schema.from_data({"attributes": {"town": {"type": "category", "values": ["a"]}}})
    address = in_duckdb(pa.table({"town": names}), tmp_path)
    with pytest.raises(TableError, match="too many values") as refused:
        sherd.protect(address, schema, sherd.Plan(method="diffgen", epsilon=1.0), ledger=None)
    assert "secret" not in str(refused.value)


def test_auto_reads_what_cannot_be_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers written as texts, over 10,000 of them: read into memory, told, and paid for once."""
    from sherd.budget import Ledger
    from sherd.cli import run

    address = in_duckdb(pa.table({"n": [str(i) for i in range(10_050)]}), tmp_path)
    schema = tmp_path / "schema.yaml"
    schema.write_text("attributes: {n: {type: integer, domain: [0, 20000]}}", encoding="utf-8")
    place, ledger = tmp_path / "out", tmp_path / "ledger.db"
    args = ["protect", address, "-m", "diffgen", "--schema", str(schema), "-e", "1"]
    args += ["--ledger", str(ledger), "--population", "p", "-o", str(place)]
    capsys.readouterr()
    assert run([*args, "--engine", "database"]) == 2
    assert "too many values" in capsys.readouterr().err
    assert run(args) == 0
    assert "running on the engine memory instead" in capsys.readouterr().err
    assert sherd.verify(place).passed
    kinds = [entry.kind for entry in Ledger(ledger).entries("p")]
    assert kinds.count("charge") == 1, kinds


def test_a_table_that_changes_is_refused(tmp_path: Path) -> None:
    """A query that draws random numbers counts another table every time."""
    path = in_duckdb(table_of(300, 1), tmp_path).partition("?")[0]
    query = "SELECT * FROM people WHERE random() < 0.5"
    plan = sherd.Plan(method="dp-graph", epsilon=1.0)
    with database_source(Address.parse(path, query=query)) as source:
        counts = DatabaseCounts(source, SCHEMA, DP_GRAPH.counted(plan, SCHEMA))
        wanted = [tuple(code % size for code in range(122)) for size in range(2, 40)]
        with pytest.raises(TableError, match="changed while it was counted"):
            list(map(counts.histogram, (Marginal(attributes=(0,), bins=(w,)) for w in wanted)))


@pytest.mark.parametrize("method", [DP_GRAPH, DIFFGEN])
def test_methods_declare_what_they_count(method: Any) -> None:
    """Every attribute that is protected is counted, in the schema's order."""
    plan = sherd.Plan(method=method.name, epsilon=1)
    assert [one.name for one in method.counted(plan, SCHEMA)] == list(SCHEMA.protected)


def test_the_command_counts_where_the_table_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`auto` leaves a database's table where it is and says so; other methods read it."""
    from sherd.cli import run

    address = in_duckdb(table_of(200, 1), tmp_path)
    schema = tmp_path / "schema.yaml"
    schema.write_text(json.dumps(SCHEMA.as_data()), encoding="utf-8")

    def said(method: str, *more: str) -> tuple[int, str]:
        place = str(tmp_path / f"out{len(list(tmp_path.iterdir()))}")
        common = ["--schema", str(schema), "-e", "1", "--ledger", "none", "-o", place]
        code = run(["protect", address, "-m", method, *common, *more])
        return code, capsys.readouterr().err

    code, told = said("diffgen")
    chosen = "database: the method needs nothing but counts, and DuckDB can count"
    assert (code, told.splitlines()[0]) == (0, f"note: running on the engine {chosen}")
    code, told = said("diffgen", "--engine", "memory")
    assert (code, told.splitlines()[0]) == (0, "note: running on the engine memory: as asked for")
    code, told = said("dp", "--memory", "1GB")
    assert told.startswith("note: running on the engine memory: the table's size is not known")
    code, told = said("dp", "--engine", "database")
    assert code == 2
    assert "does not run on the engine 'database'" in told
