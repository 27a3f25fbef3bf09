from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sherd.errors import UsageError
from sherd.methods.fragmenting.query import Answer, answer

from .patients import FIGURE_6, PATIENTS, manifest, released

TWO = (
    ("Edu", "ZIP", "Race", "InsCompany"),
    ("Job", "MarStatus", "Disease", "Salary", "InsAmount"),
)
TABLES = released(TWO, FIGURE_6)
MANIFEST = manifest(TWO, 4)


def ask(sql: str, **own: Any) -> Answer:
    """A query over Figure 6."""
    return answer(TABLES, MANIFEST, sql, own=own)


def column(sql: str) -> dict[Any, float]:
    """The second column of an answer by the first."""
    table = ask(sql).table
    return dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))


FIGURE_7 = {
    "SELECT Edu, AVG(InsAmount) FROM release GROUP BY Edu": (
        {"B.Sc": 110, "Ed.D": 97.5, "MBA": 97.5, "M.Sc": 103.75, "Ph.D": 110, "Primary": 97.5,
         "Th.D": 110},
        0.08,
    ),
    "SELECT InsCompany, AVG(Salary) FROM release GROUP BY InsCompany": (
        {"BestCompany": 2500, "HerCompany": 4500, "MyCompany": 1500, "YourCompany": 4500},
        0.84615,
    ),
    "SELECT Race, AVG(Salary) FROM release GROUP BY Race": (
        {"Asian": 4500, "Black": 1500, "Indian": 1500, "White": 4500},
        1.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("sql", FIGURE_7)
def test_figure_7(sql: str) -> None:
    """The answers the paper prints, and the utilities they have."""
    expected, utility = FIGURE_7[sql]
    found = column(sql)
    assert found == pytest.approx(expected)
    by, of = sql.split()[1].strip(","), sql.split("(")[1].split(")", maxsplit=1)[0]
    frame = PATIENTS.to_pandas()
    real = frame.groupby(by)[of].mean()
    with_ = np.mean([abs(found[key] - real[key]) for key in real.index])
    without = np.mean([abs(frame[of].mean() - real[key]) for key in real.index])
    assert 1 - with_ / without == pytest.approx(utility, abs=5e-4)


def test_the_join_has_32_rows_that_weigh_8() -> None:
    """Figure 6: 32 combinations stand for 8 tuples."""
    association = TABLES["association"].to_pandas()
    joined = association.merge(TABLES["fragment-1"].to_pandas()).merge(
        TABLES["fragment-2"].to_pandas()
    )
    assert len(joined) == 32
    found = ask("SELECT COUNT(*) FROM release WHERE Race IS NOT NULL AND Salary > 0").table
    assert found.column(0).to_pylist() == pytest.approx([8.0])


def worlds() -> list[pd.DataFrame]:
    """Every way tuples can be put together that Figure 6 allows."""
    rows = TABLES["association"].to_pylist()
    choices = []
    for f in (1, 2):
        groups = TABLES[f"fragment-{f}"].column(f"group_{f}").to_pylist()
        ways = []
        for g in range(4):
            members = [t for t, h in enumerate(groups) if h == g]
            places = [r for r, row in enumerate(rows) if row[f"group_{f}"] == g]
            ways.append(
                [dict(zip(places, p, strict=True)) for p in itertools.permutations(members)]
            )
        choices.append(
            [{k: v for part in way for k, v in part.items()} for way in itertools.product(*ways)]
        )
    left, right = (TABLES[f"fragment-{f}"].to_pandas() for f in (1, 2))
    return [
        pd.concat(
            [
                left.iloc[[one[r] for r in range(8)]].reset_index(drop=True),
                right.iloc[[two[r] for r in range(8)]].reset_index(drop=True),
            ],
            axis=1,
        )
        for one, two in itertools.product(*choices)
    ]


def test_expected_values_equal_all_worlds() -> None:
    """COUNT and SUM are the means over every world; errors are near the true deviations."""
    table = ask(
        "SELECT Race, COUNT(*) AS n, SUM(InsAmount) AS s FROM release "
        "WHERE Salary < 4500 AND InsCompany <> 'HerCompany' GROUP BY Race"
    ).table.to_pandas()
    counts: dict[str, list[float]] = {}
    sums: dict[str, list[float]] = {}
    for world in worlds():
        chosen = world[(world.Salary < 4500) & (world.InsCompany != "HerCompany")]
        for race in PATIENTS.column("Race").unique().to_pylist():
            part = chosen[chosen.Race == race]
            counts.setdefault(race, []).append(len(part))
            sums.setdefault(race, []).append(part.InsAmount.sum())
    for _, row in table.iterrows():
        assert row.n == pytest.approx(np.mean(counts[row.Race]))
        assert row.s == pytest.approx(np.mean(sums[row.Race]))
        assert row.n_error >= np.std(counts[row.Race]) - 1e-9
        assert row.s_error >= np.std(sums[row.Race]) - 1e-9
    assert table.n.sum() > 0


def test_bounds_hold_in_every_world() -> None:
    """MIN and MAX of every world lie between the bounds."""
    row = ask("SELECT Race, MIN(InsAmount) low, MAX(InsAmount) high FROM release GROUP BY Race")
    assert row.bounds == ("low_least", "low_most", "high_least", "high_most")
    frame = row.table.to_pandas().set_index("Race")
    for world in worlds():
        found = world.groupby("Race").InsAmount.agg(["min", "max"])
        for race, (low, high) in found.iterrows():
            assert frame.low[race] <= low <= frame.low_most[race]
            assert frame.high_least[race] <= high <= frame.high[race] == frame.high_most[race]


def test_every_bound_holds_in_every_world() -> None:
    """Counts, sums, averages, quantiles and spreads of all worlds lie within their bounds."""
    found = ask(
        "SELECT Race AS k, COUNT(*) AS n, SUM(InsAmount) AS s, AVG(InsAmount) AS a, "
        "MEDIAN(InsAmount) AS m, STDDEV_POP(InsAmount) AS d, COUNT_IF(Salary > 1500) AS c "
        "FROM release WHERE Job <> 'Clerk' GROUP BY Race"
    )
    assert "outer bounds" in found.words()
    told = {row["k"]: row for row in found.table.to_pylist()}
    tight = 0
    for world in worlds():
        chosen = world[world.Job != "Clerk"]
        for race, part in chosen.groupby("Race"):
            true = {
                "n": len(part), "s": part.InsAmount.sum(), "a": part.InsAmount.mean(),
                "m": part.InsAmount.median(), "d": part.InsAmount.std(ddof=0),
                "c": (part.Salary > 1500).sum(),
            }  # fmt: skip
            for name, value in true.items():
                row = told[race]
                assert row[f"{name}_least"] - 1e-9 <= value <= row[f"{name}_most"] + 1e-9
                tight += value in (row[f"{name}_least"], row[f"{name}_most"])
    assert tight > 0


def test_counts_that_one_fragment_decides_have_no_width() -> None:
    """Where keys lie in one fragment, so many tuples there are, whatever they belong with."""
    found = ask("SELECT Race, COUNT(*) AS n, AVG(Salary) AS a FROM release GROUP BY Race")
    for row in found.table.to_pylist():
        assert row["n_least"] == row["n"] == row["n_most"] == 2
        assert row["a_least"] <= row["a"] <= row["a_most"]


def test_subqueries_over_one_fragment_each_are_exact() -> None:
    """Fragments are joined only where a SELECT needs several at once."""
    found = ask(
        "SELECT (SELECT COUNT(*) FROM release WHERE Race = 'Asian') AS a, "
        "(SELECT MAX(Salary) FROM release) AS b"
    )
    assert found.exact
    assert found.table.to_pylist() == [{"a": 2, "b": 5000}]
    assert "fragments 1, 2" in found.words()
    around = ask("WITH t AS (SELECT Race, AVG(Salary) AS pay FROM release GROUP BY Race) "
                 "SELECT MAX(pay) AS most FROM t")  # fmt: skip
    assert around.table.to_pylist() == [{"most": 4500.0}]
    assert not around.exact
    assert "No bounds" in around.words()


def test_one_fragment_is_exact() -> None:
    """Queries over one fragment are answered from it, whatever SQL they use."""
    found = ask("SELECT Race, COUNT(*) c, COUNT(DISTINCT ZIP) z FROM release GROUP BY Race")
    assert found.exact
    assert found.fragments == (1,)
    assert set(found.table.column("c").to_pylist()) == {2}
    assert "Exact" in found.words()
    rows = ask("SELECT DISTINCT Race FROM release ORDER BY Race LIMIT 1")
    assert rows.table.to_pylist() == [{"Race": "Asian"}]
    assert ask("SELECT COUNT(*) FROM release").table.column(0).to_pylist() == [8]


def test_suppressed_tuples_are_said() -> None:
    """The number of tuples that are missing goes with every answer."""
    found = answer(TABLES, manifest(TWO, 4, suppressed=3), "SELECT COUNT(*) FROM release")
    assert found.missing == 3
    assert "3 tuples" in found.words()
    assert found.as_data()["missing"] == 3


def test_expressions_having_order_and_limit() -> None:
    """Aggregates may be combined, filtered and ordered; keys may be expressions."""
    table = ask(
        "SELECT upper(r.Race) AS who, ROUND(SUM(r.Salary) / COUNT(*), 1) AS mean "
        "FROM release AS r GROUP BY 1 HAVING AVG(Salary) > 2000 ORDER BY who DESC LIMIT 1 OFFSET 0"
    ).table
    assert table.to_pylist() == [{"who": "WHITE", "mean": 4500.0}]
    by_alias = ask(
        "SELECT Salary > 3000 AS rich, COUNT(Race) AS n FROM release GROUP BY rich ORDER BY 2, rich"
    ).table
    assert by_alias.column("n").to_pylist() == pytest.approx([4.0, 4.0])


def test_joins_to_own_tables() -> None:
    """An analyst's tables can be joined; errors are then left out."""
    codes = pa.table({"Race": ["Black", "White"], "part": ["x", "y"]})
    found = ask(
        "SELECT codes.part, AVG(Salary) AS pay FROM release "
        "JOIN codes ON codes.Race = release.Race "
        "GROUP BY codes.part ORDER BY codes.part",
        codes=codes,
    )
    assert found.table.to_pylist() == [{"part": "x", "pay": 1500.0}, {"part": "y", "pay": 4500.0}]
    assert found.errors == ()
    exact = ask("SELECT part, COUNT(*) n FROM release JOIN codes USING (Race) GROUP BY part",
                codes=codes.to_pandas())  # fmt: skip
    assert exact.exact


@pytest.mark.parametrize("tables", ["release JOIN pay", "pay JOIN release", "release r JOIN pay p"])
def test_a_column_that_is_joined_by_needs_no_table(tables: str) -> None:
    """After USING, over one fragment and over several, whichever table comes first."""
    pay = pa.table({"Race": ["Black", "White"], "rate": [1, 2]})
    shown = "SELECT Race, MAX(rate) AS rate, AVG(Salary) AS pay FROM"
    assert ask(
        f"{shown} {tables} USING (Race) GROUP BY Race ORDER BY 1", pay=pay
    ).table.to_pylist() == [
        {"Race": "Black", "rate": 1, "pay": 1500.0},
        {"Race": "White", "rate": 2, "pay": 4500.0},
    ]
    shown = "SELECT Race, COUNT(*) AS n FROM"
    counted = ask(f"{shown} {tables} USING (Race) GROUP BY Race", pay=pay)
    assert counted.exact
    assert sorted(counted.table.column("n").to_pylist()) == [2, 2]


OWN = {
    "pay": pa.table({"Race": ["Black", "White"], "rate": [1.5, 2.0]}),
    "twice": pa.table({"a": [1], "A": [2]}),
}
"""Tables of an analyst: one that fits, one whose columns differ in case only."""


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("SELECT AVG(Salary), COUNT(ZIP) FROM release JOIN pay USING (rate)", "not in both"),
        ("SELECT COUNT(ZIP), AVG(Salary) FROM release r JOIN pay r ON r.rate > 1", "same name"),
        ("SELECT COUNT(ZIP), AVG(Salary) FROM release JOIN pay p ON p.Race = Race", "table.column"),
        ("SELECT ZIP, AVG(Salary) FROM release RIGHT JOIN pay USING (Race) GROUP BY ZIP", "RIGHT"),
        ("SELECT Race, AVG(Salary) FROM release JOIN twice ON true GROUP BY Race", "case only"),
        ("SELECT Race, AVG(Salary) FROM nope, release GROUP BY Race", "an unknown table"),
        ("SELECT Race, AVG(Salary) FROM release GROUP BY Race LIMIT 1 + 1", "LIMIT"),
        ("SELECT Race, AVG(Salary) AS m FROM release GROUP BY Race, m", "not answered"),
        ("SELECT Race, AVG(Salary) AS m FROM release WHERE m > 3 GROUP BY Race", "not answered"),
        ("SELECT Race, AVG(Salary) FROM release WHERE SUM(Salary) > 1 GROUP BY Race", "SUM"),
        ("SELECT Race, AVG(Salary), release.* FROM release GROUP BY Race", r"'\*'"),
        ("SELECT Race, release.Rase, AVG(Salary) FROM release GROUP BY Race", "'Race'"),
        ("SELECT Race, AVG(Salary) FROM release GROUP BY ()", "not answered"),
        ("SELECT Race, AVG(SUM(Salary)) FROM release GROUP BY Race", "not answered"),
        ("SELECT Race, Salary + AVG(Salary) FROM release GROUP BY Race", "neither grouped by"),
        (
            "SELECT AVG(x) FROM (SELECT Race, Salary AS x FROM release ORDER BY x LIMIT 3)",
            "neither ordered",
        ),
        (
            "SELECT COUNT(*) FROM pay LEFT JOIN (SELECT Race, Salary FROM release) s "
            "ON pay.Race = s.Race",
            "LEFT JOIN",
        ),
        (
            "SELECT Race, AVG(Salary) FILTER (WHERE COUNT(*) > 2) FROM release GROUP BY Race",
            "not answered",
        ),
    ],
)
def test_what_cannot_be_joined_or_grouped_is_refused(sql: str, wrong: str) -> None:
    """Over several fragments and an analyst's own tables; never answered as something else."""
    with pytest.raises(UsageError, match=wrong):
        ask(sql, **OWN)


def test_missing_values_are_not_averaged() -> None:
    """Nulls count in COUNT(*) only; a group without values has no sum, average or error."""
    part = TABLES["fragment-2"]
    at = part.schema.get_field_index("Salary")
    salary = pa.array([None if p in (1000, 2000) else p for p in part.column("Salary").to_pylist()])
    tables = {**TABLES, "fragment-2": part.set_column(at, "Salary", salary)}
    found = answer(
        tables,
        MANIFEST,
        "SELECT Race, COUNT(*) n, COUNT(Salary) m, SUM(Salary) s, AVG(Salary) a "
        "FROM release GROUP BY Race ORDER BY Race",
    ).table.to_pylist()
    assert [row["n"] for row in found] == pytest.approx([2, 2, 2, 2])
    black = next(row for row in found if row["Race"] == "Black")
    assert (black["m"], black["s"], black["a"], black["a_error"]) == (0, None, None, None)
    white = next(row for row in found if row["Race"] == "White")
    assert (white["m"], white["a"]) == (2, 4500)


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("SELECT Race FROM (release", "cannot be read"),
        ("DROP TABLE release", "not a single SELECT"),
        ("SELECT 1; SELECT 2", "not a single SELECT"),
        ("SELECT 1 FROM elsewhere", "does not ask the view"),
        (
            "SELECT COUNT(a.Salary + b.Salary) FROM release a JOIN release b ON a.Race = b.Race",
            "joins the release to itself",
        ),
        ("SELECT x, y FROM (SELECT Race AS x, Salary AS y FROM release)", "single rows"),
        (
            "SELECT Race, AVG(Salary) FROM release GROUP BY Race QUALIFY COUNT(*) OVER () = 1",
            "QUALIFY",
        ),
        ("SELECT Race, AVG(Salary) FROM release GROUP BY Race USING SAMPLE 10%", "SAMPLE"),
        ("SELECT COUNT(*) FROM release USING SAMPLE 3", "SAMPLE"),
        (
            "SELECT AVG(Salary) FROM release WHERE Race = (SELECT Race FROM release LIMIT 1)",
            "without an order",
        ),
        ("WITH few AS (SELECT Salary FROM release OFFSET 3) SELECT SUM(Salary) FROM few", "OFFSET"),
        ("SELECT Race, MAX(Salary, 3) FROM release GROUP BY Race", r"MAX\(Salary, 3\)"),
        ("SELECT Race, AVG(Salary) FROM release TABLESAMPLE 10% GROUP BY Race", "SAMPLE"),
        ("SELECT Race, COUNT(*) FROM release GROUP BY Race HAVING RANDOM() > AVG(Salary)", "RAND"),
        (
            "SELECT COUNT(*) FROM release r NATURAL JOIN (SELECT Race, Salary FROM release) s",
            "NATURAL",
        ),
        (
            "SELECT COUNT(*) FROM release r WHERE EXISTS "
            "(SELECT 1 FROM release s WHERE s.Salary > r.ZIP)",
            "EXISTS",
        ),
        (
            "SELECT Race, (SELECT AVG(Salary) FROM release s WHERE s.Race = r.Race) FROM release r "
            "GROUP BY Race",
            "a table it does not use",
        ),
        ("SELECT upper(Race) AS Race, AVG(Salary) FROM release GROUP BY Race", "names both"),
        (
            "WITH release AS (SELECT Salary FROM release) SELECT Race, AVG(Salary) FROM release "
            "GROUP BY Race",
            "another name",
        ),
        ("SELECT Rase FROM release", "did you mean 'Race'"),
        ("SELECT other.Race FROM release", "a table it does not use"),
        ("SELECT Race, Salary FROM release", "single rows"),
        ("SELECT DISTINCT Race, COUNT(Salary) FROM release GROUP BY Race", "DISTINCT"),
        ("SELECT Race, COUNT(DISTINCT Salary) FROM release GROUP BY Race", "distinct"),
        ("SELECT Race, KURTOSIS(Salary) FROM release GROUP BY Race", "KURTOSIS"),
        ("SELECT Race, SUM(Salary) OVER () FROM release", "OVER"),
        ("SELECT * FROM release", r"'\*'"),
        ("SELECT Race, AVG(Salary) FROM release GROUP BY 3", "not selected"),
        ("SELECT Race, AVG(Salary) FROM release GROUP BY ALL", "GROUP BY"),
        ("SELECT Race, AVG(Job) FROM release GROUP BY Race", "cannot be answered"),
        ("SELECT COUNT(*) FROM release JOIN '/etc/hostname.csv' f ON true", "cannot be answered"),
        ("SELECT COUNT(*) FROM release JOIN tables ON true", "cannot be answered"),
    ],
)
def test_what_has_no_meaning_is_refused(sql: str, wrong: str) -> None:
    """Every refusal says why."""
    with pytest.raises(UsageError, match=wrong):
        ask(sql)


def test_a_computation_that_fails_does_not_quote_a_cell() -> None:
    """DuckDB's own words would: of the query's words it may speak, of a row's value not."""
    with pytest.raises(UsageError, match="could quote a cell") as caught:
        ask("SELECT MIN(CAST(Race AS INTEGER)) FROM release")
    assert not any(race in str(caught.value) for race in ("White", "Asian", "Black", "Indian"))


def test_withheld_attributes_and_other_releases_are_refused() -> None:
    """A withheld attribute is named as such; a table called release cannot be joined."""
    secret = manifest(TWO, 4)
    secret["facts"]["withheld"] = ["SSN"]
    with pytest.raises(UsageError, match="withheld"):
        answer(TABLES, secret, "SELECT SSN FROM release")
    with pytest.raises(UsageError, match="not made of fragments"):
        answer(TABLES, {"facts": {}}, "SELECT 1 FROM release")
    with pytest.raises(UsageError, match="another name"):
        ask("SELECT COUNT(*) FROM release", release=PATIENTS)
    alone = {**TABLES, "association": pa.table({"group_1": [0]})}
    with pytest.raises(UsageError, match="does not associate"):
        answer(alone, MANIFEST, "SELECT Race, AVG(Salary) FROM release GROUP BY Race")


HUNDRED = pa.table(
    {
        "a": [i % 5 for i in range(100)],
        "b": list(range(100)),
        "c": [f"c{i % 7}" for i in range(100)],
    }
)


def ask_hundred(sql: str) -> list[dict[str, Any]]:
    """An answer over a hundred tuples in two fragments, in groups of one tuple each."""
    tables = {
        "fragment-1": HUNDRED.select(["a", "b"]).append_column("group_1", pa.array(range(100))),
        "fragment-2": HUNDRED.select(["c"]).append_column("group_2", pa.array(range(100))),
        "association": pa.table({"group_1": range(100), "group_2": range(100)}),
    }
    facts = {"fragments": [["a", "b"], ["c"]], "withheld": [], "suppressed": 0}
    return answer(tables, {"facts": facts}, sql).table.to_pylist()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT FIRST(b) FROM release",
        "SELECT ANY_VALUE(b) FROM release",
        "SELECT LIST(b) FROM release",
        "SELECT LIST(b ORDER BY a) FROM release",
        "SELECT STRING_AGG(c, ',') FROM release",
        "SELECT ARG_MAX(b, a) FROM release",
        "SELECT b, ROW_NUMBER() OVER () FROM release",
        "SELECT b, LAG(b) OVER (ORDER BY a) FROM release",
        "SELECT b, SUM(b) OVER (ORDER BY a ROWS 1 PRECEDING) FROM release",
        "SELECT DISTINCT ON (a) a, b FROM release",
        "SELECT SUM(b) FROM (SELECT a, b FROM release ORDER BY a LIMIT 3)",
        "WITH q AS (SELECT b, ROW_NUMBER() OVER (ORDER BY a) n FROM release) SELECT SUM(b) FROM q "
        "WHERE n < 10",
        "SELECT MIN(c) FROM (SELECT c, COUNT(a) n FROM release WHERE b < 99 GROUP BY c "
        "ORDER BY n LIMIT 1)",
    ],
)
def test_what_hangs_on_the_order_of_rows_is_refused(sql: str) -> None:
    """Rows of a release are shuffled: the first one says nothing of the original's first."""
    with pytest.raises(UsageError, match="order of rows"):
        ask_hundred(sql)


@pytest.mark.parametrize(
    ("sql", "least"),
    [
        ("SELECT LIST(b ORDER BY b) AS n FROM release", list(range(100))),
        ("SELECT FIRST(b ORDER BY b) AS n FROM release", 0),
        ("SELECT ROW_NUMBER() OVER (ORDER BY b) AS n FROM release ORDER BY n", 1),
        ("SELECT RANK() OVER (ORDER BY a) AS n FROM release ORDER BY n", 1),
        ("SELECT SUM(b) AS n FROM (SELECT b FROM release ORDER BY b LIMIT 3)", 3),
        ("SELECT DISTINCT ON (a) b AS n FROM release ORDER BY a, b", 0),
        ("SELECT SUM(b / 7) OVER () AS n FROM release", pytest.approx(4950 / 7)),
        ("SELECT a AS n FROM release ORDER BY n LIMIT 3", 0),
    ],
)
def test_what_an_order_settles_is_answered(sql: str, least: Any) -> None:
    """The same parts of SQL, over orders in which no rows are equal, and rounding set aside."""
    assert ask_hundred(sql)[0]["n"] == least


def test_a_bound_is_not_called_like_another_column() -> None:
    """Both would be found under one name."""
    with pytest.raises(UsageError, match="have one name"):
        ask_hundred("SELECT c, AVG(b) AS b, COUNT(*) AS b_least FROM release GROUP BY c")
