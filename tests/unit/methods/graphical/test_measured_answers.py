"""Answers from measured counts: what SQL says where cells decide, bounds where they do not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.cli import run
from sherd.errors import UsageError, VerificationError
from sherd.methods.graphical.measuring import Noise

if TYPE_CHECKING:
    from pathlib import Path

duckdb = pytest.importorskip("duckdb")

RNG = np.random.default_rng(7)
N = 800
AGE = RNG.integers(20, 50, N)
TABLE = pa.table(
    {
        "Age": AGE,
        "town": pa.array([None if i % 9 == 0 else "abc"[a % 3] for i, a in enumerate(AGE)]),
        "member": AGE + RNG.integers(-9, 10, N) > 35,
        "wage": RNG.gamma(2, 100, N).round(0).clip(0, 2000),
        "since": pa.array((AGE * 31 + 10_000).astype(np.int32)).cast(pa.date32()),
    }
)
ATTRIBUTES: dict[str, Any] = {
    "Age": {"type": "integer", "domain": ["20", "49"]},
    "town": {"type": "category", "values": ["a", "b", "c"], "missing": "keep"},
    "member": {"type": "boolean"},
    "wage": {"type": "number", "domain": ["0", "2000"], "grid": "1"},
    "since": {"type": "date", "domain": ["1990-01-01", "2020-01-01"]},
}
SCHEMA = sherd.Schema.from_data({"attributes": ATTRIBUTES, "missing": "refuse"})
PLAN = sherd.Plan(
    method="dp-graph",
    epsilon=5000.0,
    choice="workload",
    workload=[["Age", "town", "member"], ["town", "wage"]],
)


@pytest.fixture(scope="module")
def release() -> sherd.Release:
    """A release without noise and with fine bins: what cells decide is answered as by SQL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "draw", lambda _self, _randomness, n: np.zeros(n, np.int64))
        patch.setattr("sherd.methods.graphical.coarsening.MOST_BINS", 10_000)
        return sherd.protect(TABLE, SCHEMA, PLAN)


def true(sql: str) -> list[dict[str, Any]]:
    """DuckDB's answer over the table."""
    with duckdb.connect() as connection:
        connection.register("release", TABLE)
        rows: list[dict[str, Any]] = connection.sql(sql).to_arrow_table().to_pylist()
    return rows


WHERE = (
    "",
    "WHERE member",
    "WHERE NOT member AND age >= 27.5",
    "WHERE 40 > age",
    "WHERE town = 'a' OR member = false",
    "WHERE NOT (town = 'a' OR age BETWEEN 25 AND 31)",
    "WHERE town IS NULL",
    "WHERE town IS NOT NULL AND age <> 30",
    "WHERE town NOT IN ('a', 'b') AND (age < 30 OR age > 44)",
    "WHERE NOT (NOT town <> 'c')",
    "WHERE age = 99 AND age IN (20, 21, 21)",
)


@pytest.mark.parametrize("where", WHERE)
def test_what_cells_decide_is_answered_as_by_sql(release: sherd.Release, where: str) -> None:
    """COUNT, SUM and AVG under conditions with missing cells, negations and both orders."""
    sql = "SELECT COUNT(*) AS n, COUNT(town) AS t, SUM(age) AS s, AVG(age) AS m FROM release "
    sql += where
    (expected,), (found,) = true(sql), sherd.query(release, sql).table.to_pylist()
    for name in "nts":
        value = float(expected[name] or 0)
        assert found[name] == pytest.approx(value, abs=1e-6)
        assert found[f"{name}_low"] - 1e-6 <= value <= found[f"{name}_high"] + 1e-6
    if expected["m"] is not None:
        assert found["m"] == pytest.approx(expected["m"])
        assert found["m_low"] - 1e-9 <= expected["m"] <= found["m_high"] + 1e-9


def test_groups_are_those_of_the_schema(release: sherd.Release) -> None:
    """Every label, the missing one too; ordered and cut as asked."""
    sql = "SELECT town AS place, COUNT(*) AS n FROM release GROUP BY town ORDER BY n DESC LIMIT 3"
    found = sherd.query(release, sql).table
    assert [(r["place"], round(r["n"])) for r in found.to_pylist()] == [
        (r["place"], r["n"]) for r in true(sql)
    ]
    everything = "SELECT town, member, COUNT(*) AS n FROM release GROUP BY town, member"
    assert sherd.query(release, everything).table.num_rows == 4 * 2
    by_age = sherd.query(release, "SELECT age, COUNT(*) AS n FROM release GROUP BY age").table
    assert by_age.column("Age").to_pylist() == list(range(20, 50))


def test_cells_wider_than_the_question_widen_the_interval(release: sherd.Release) -> None:
    """Wages are counted in intervals: 333 lies within one, and the truth is between its sides."""
    sql = "SELECT COUNT(*) AS n, SUM(wage) AS s, AVG(wage) AS m FROM release WHERE wage < 333"
    (expected,), (found,) = true(sql), sherd.query(release, sql).table.to_pylist()
    for name in "nsm":
        assert found[f"{name}_low"] < expected[name] < found[f"{name}_high"]
        assert found[name] == pytest.approx(expected[name], rel=0.05)
    wide = found["n_high"] - found["n_low"]
    assert (
        1
        <= wide
        <= 3 + true("SELECT COUNT(*) AS n FROM release WHERE wage BETWEEN 312 AND 352")[0]["n"]
    )
    days = "SELECT COUNT(*) AS n FROM release WHERE since < DATE '2000-06-15'"
    (expected,), (found,) = true(days), sherd.query(release, days).table.to_pylist()
    assert found["n_low"] <= expected["n"] <= found["n_high"]


def test_all_records_are_public(release: sherd.Release) -> None:
    """Their number carries no noise, and the answer says so."""
    answer = sherd.query(release, "SELECT COUNT(*) FROM release")
    assert answer.exact
    assert answer.table.to_pylist()[0] == {
        "count": N, "count_error": 0.0, "count_low": N, "count_high": N,
    }  # fmt: skip
    noisy = sherd.query(release, "SELECT COUNT(*) FROM release WHERE member")
    assert not noisy.exact
    assert ("Age", "town", "member") in noisy.measured
    assert "95 of 100" in noisy.words()


REFUSED = {
    "SELECT age FROM release": "GROUP BY",
    "SELECT age, COUNT(*) FROM release": "single records",
    "SELECT COUNT(*) FROM release GROUP BY town": "selected once",
    "SELECT COUNT(*) FROM other": "FROM release",
    "SELECT COUNT(*) FROM release, release AS b": "not answered",
    "SELECT COUNT(*) FROM release JOIN release AS b ON TRUE": "not answered",
    "SELECT COUNT(*) FROM (SELECT 1)": "FROM release",
    "SELECT COUNT(DISTINCT town) FROM release": "not answered",
    "SELECT MAX(age) FROM release": "not answered",
    "SELECT SUM(age + 1) FROM release": "not answered",
    "SELECT SUM(town) FROM release": "cannot be summed",
    "SELECT COUNT(*) FROM release HAVING COUNT(*) > 3": "not answered",
    "SELECT COUNT(*) FROM release WHERE age < wage": "not answered",
    "SELECT COUNT(*) FROM release WHERE age + 1 < 3": "not answered",
    "SELECT COUNT(*) FROM release WHERE age IN (SELECT 3)": "not answered",
    "SELECT COUNT(*) FROM release WHERE town LIKE 'a%'": "not answered",
    "SELECT COUNT(*) FROM release WHERE town < 'b'": "not compared by size",
    "SELECT COUNT(*) FROM release WHERE town = 'A'": "no such label",
    "SELECT COUNT(*) FROM release WHERE age = 'old'": "cannot be its value",
    "SELECT COUNT(*) FROM release WHERE age": "not a condition",
    "SELECT COUNT(*) FROM release WHERE agee = 3": "no attribute 'agee'",
    "SELECT COUNT(*) FROM release WHERE member AND wage > 3": "no measured marginal",
    "SELECT wage, COUNT(*) FROM release GROUP BY wage": "counted in intervals",
    "SELECT COUNT(*) AS n, SUM(age) AS N FROM release": "the same name",
    "SELECT COUNT(*) FROM release ORDER BY age": "cannot be ordered",
    "SELECT COUNT(*) FROM release LIMIT 1 + 1": "LIMIT",
    "SELECT town, COUNT(*) FROM release GROUP BY ROLLUP (town)": "not answered",
    "DELETE FROM release": "not a single SELECT",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_everything_else_is_refused(release: sherd.Release, sql: str) -> None:
    """Not guessed at: the message says what can be asked."""
    with pytest.raises(UsageError, match=REFUSED[sql]):
        sherd.query(release, sql)


def test_other_tables_and_too_many_groups_are_refused(release: sherd.Release) -> None:
    """Noisy counts are joined with nothing."""
    with pytest.raises(UsageError, match="joined"):
        sherd.query(release, "SELECT COUNT(*) FROM release", own={"mine": TABLE})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sherd.methods.graphical.measured_answers.MOST_GROUPS", 3)
        with pytest.raises(UsageError, match="too many groups"):
            sherd.query(release, "SELECT town, COUNT(*) FROM release GROUP BY town")


def test_the_command_prints_intervals_and_refuses_changed_files(
    release: sherd.Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A saved release, by the command line; from Python as a dataframe."""
    folder = release.save(tmp_path / "out")
    sql = "SELECT town, COUNT(*) AS n FROM release GROUP BY town"
    assert run(["query", str(folder), sql]) == 0
    shown = capsys.readouterr().out
    assert "±" in shown
    assert "…" in shown
    assert run(["query", str(folder), sql, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows == release.query(sql).to_pylist()
    model = folder / "model.json"
    model.write_text(model.read_text().replace('"rows": 800', '"rows": 801'))
    with pytest.raises(VerificationError, match=r"model\.json"):
        sherd.query(folder, sql)
