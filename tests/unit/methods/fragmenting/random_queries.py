# ruff: noqa: E501, S608 - queries are written as text, one a line; there is no table to guard
"""Random tables in fragments, random queries over them, and answers found in another way.

Nothing here shares code with the package: combinations are enumerated in plain Python with
fractions as weights, and predicates follow SQL's three-valued logic.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

if TYPE_CHECKING:
    import random

KINDS = {"Region": "text", "Age": "int", "job": "text", "PAY": "int", "Score": "real", "ok": "bool"}
FRAGMENTS = (("Region", "Age"), ("job", "PAY"), ("Score", "ok"))
_VALUES: dict[str, tuple[Any, ...]] = {
    "Region": ("north", "south", "east"),
    "Age": (20, 30, 31, 45),
    "job": ("clerk", "Cook", "chef", None),
    "PAY": (-5, 0, 10, 25, 40, None),
    "Score": (0.5, 1.25, 2.0, -3.75, None),
    "ok": (True, False),
}
Row = dict[str, Any]


def table(rng: random.Random, rows: int) -> pa.Table:
    """A small table with missing values and names in every case."""
    types = {"text": pa.string(), "int": pa.int64(), "real": pa.float64(), "bool": pa.bool_()}
    return pa.table(
        {
            name: pa.array([rng.choice(_VALUES[name]) for _ in range(rows)], types[kind])
            for name, kind in KINDS.items()
        }
    )


def released(rng: random.Random, original: pa.Table, largest: int) -> dict[str, pa.Table]:
    """The table in fragments with random groups of at most ``largest`` tuples."""
    rows = original.num_rows
    tables, association = {}, {}
    for f, names in enumerate(FRAGMENTS, 1):
        group: list[int] = []
        place = list(range(rows))
        rng.shuffle(place)
        while len(group) < rows:
            size = min(rng.randint(1, largest), rows - len(group))
            group += [max(group, default=-1) + 1] * size
        of_row = [0] * rows
        for at, row in enumerate(place):
            of_row[row] = group[at]
        association[f"group_{f}"] = of_row
        order = list(range(rows))
        rng.shuffle(order)
        part = original.select(list(names)).append_column(f"group_{f}", pa.array(of_row))
        tables[f"fragment-{f}"] = part.take(pa.array(order))
    return {**tables, "association": pa.table(association)}


def manifest() -> dict[str, Any]:
    """What ``answer`` reads of a manifest."""
    return {"facts": {"fragments": [list(f) for f in FRAGMENTS], "withheld": [], "suppressed": 0}}


def over_original(original: pa.Table, sql: str) -> pa.Table | None:
    """DuckDB's own answer over the whole table, None where it has none."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET python_enable_replacements = false")
        connection.register("release", original)
        try:
            return connection.sql(sql).to_arrow_table()
        except duckdb.Error:
            return None


def alike(one: Any, two: Any) -> bool:
    """Whether two cells of an answer are equal; counts may be whole numbers or not."""
    if one is None or two is None:
        return one is None and two is None
    one, two = (float(x) if isinstance(x, Decimal) else x for x in (one, two))
    if isinstance(one, (int, float)) and isinstance(two, (int, float)):
        if math.isnan(one) or math.isnan(two):
            return math.isnan(one) and math.isnan(two)
        return math.isclose(one, two, rel_tol=1e-7, abs_tol=1e-7)
    return bool(one == two)


def same_rows(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    """Whether two answers hold the same rows in any order."""
    rest = list(right)
    for row in left:
        at = next((i for i, o in enumerate(rest) if all(map(alike, row, o))), None)
        if at is None or len(row) != len(rest[at]):
            return False
        rest.pop(at)
    return not rest


# ── free queries, to be compared with DuckDB over the whole table ─────────────────────────────

_NUMBERS, _TEXTS = ("Age", "PAY", "Score"), ("Region", "job")


def _spelled(rng: random.Random, name: str) -> str:
    return rng.choice([name, name, name.lower(), name.upper(), f'"{name}"'])


def _number(rng: random.Random, depth: int = 1) -> str:
    if depth == 0 or rng.random() < 0.55:
        return _spelled(rng, rng.choice(_NUMBERS))
    a, b = _number(rng, depth - 1), _number(rng, depth - 1)
    return rng.choice(
        [
            f"{a} + {b}", f"{a} * 2", f"({a} - {b})", f"ABS({a})", f"COALESCE({a}, 0)",
            f"CASE WHEN {predicate(rng, 0)} THEN {a} ELSE {b} END", f"-{a}", f"ROUND({a} / 3, 2)",
            f"GREATEST({a}, {b})", f"NULLIF({a}, 10)", f"CAST({a} AS DOUBLE)", f"{a} % 7",
        ]
    )  # fmt: skip


def predicate(rng: random.Random, depth: int = 2) -> str:
    """A condition on any attributes."""
    if depth == 0 or rng.random() < 0.5:
        number, text = rng.choice(_NUMBERS), rng.choice(_TEXTS)
        return rng.choice(
            [
                f"{_spelled(rng, number)} {rng.choice(['<', '>=', '=', '<>'])} {rng.randint(-5, 45)}",
                f"{_spelled(rng, text)} = '{rng.choice(['north', 'chef', 'Cook'])}'",
                f"{_spelled(rng, text)} IN ('south', 'clerk', 'chef')",
                f"{_spelled(rng, number)} BETWEEN 0 AND 31",
                f"{_spelled(rng, text)} IS {rng.choice(['', 'NOT '])}NULL",
                f"{_spelled(rng, text)} LIKE '%e%'",
                "ok", "NOT ok",
                f"{_spelled(rng, number)} IS DISTINCT FROM 25",
                f"LENGTH({text}) > 4",
            ]
        )  # fmt: skip
    joined = rng.choice([" AND ", " OR "]).join(predicate(rng, depth - 1) for _ in range(2))
    return f"NOT ({joined})" if rng.random() < 0.2 else f"({joined})"


def _aggregate(rng: random.Random) -> str:
    x = _number(rng)
    made = rng.choice(
        [
            "COUNT(*)", "COUNT(*)", f"COUNT({x})", f"SUM({x})", f"AVG({x})", f"MIN({x})", f"MAX({x})",
            f"COUNT_IF({predicate(rng, 1)})", f"STDDEV({x})", f"STDDEV_POP({x})", f"VAR_SAMP({x})",
            f"VAR_POP({x})", f"COVAR_POP({x}, {_number(rng)})", f"COVAR_SAMP({x}, Age)",
            f"MEDIAN({x})", f"QUANTILE_CONT({x}, 0.25)", f"QUANTILE_DISC({x}, 0.75)",
            f"QUANTILE({x}, 0.3)", f"MIN({rng.choice(_TEXTS)})", "CORR(Age, PAY)",
        ]
    )  # fmt: skip
    if rng.random() < 0.2:
        made += f" FILTER (WHERE {predicate(rng, 1)})"
    if rng.random() < 0.15:
        made = rng.choice([f"ROUND({made}, 1)", f"{made} + 1", f"COALESCE({made}, -1)"])
    return made


def _odd(rng: random.Random) -> str:
    """What must be refused, or answered as DuckDB does."""
    return rng.choice(
        [
            "MAX(PAY, 2)", "MIN(Age, 3)", "COUNT(DISTINCT PAY)", "SUM(DISTINCT Age)", "FIRST(PAY)",
            "ANY_VALUE(job)", "STRING_AGG(job, ',')", "LIST(Age)", "SUM(PAY) OVER ()", "MODE(job)",
            "COUNT(*)::VARCHAR", "COUNT(*) // 2", "COUNT(*) % 2", "PRODUCT(Age)", "BOOL_AND(ok)",
            "ARG_MAX(job, PAY)", "MAX(PAY ORDER BY Age)", "GROUPING(Region)", "ENTROPY(PAY)",
            "REGR_SLOPE(PAY, Age)", "KURTOSIS(PAY)", "APPROX_COUNT_DISTINCT(PAY)", "SUM(ok::INT)",
            "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY PAY)", "COUNT(release)", "HASH(job)",
        ]
    )  # fmt: skip


def _one_select(rng: random.Random, source: str = "release") -> str:
    keys = rng.sample(["Region", "job", "Age", "ok", "PAY > 5", "UPPER(Region)"], rng.randint(0, 2))
    items = [_aggregate(rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.08:
        items.append(_odd(rng))
    columns = [*keys, *items]
    aliased = [f"{text} AS c{at}" for at, text in enumerate(columns)]
    sql = f"SELECT {', '.join(aliased)} FROM {source}"
    if rng.random() < 0.5:
        sql += f" WHERE {predicate(rng)}"
    if keys:
        form = rng.random()
        listed = ", ".join(keys)
        if form < 0.15:
            listed = f"ROLLUP ({listed})"
        elif form < 0.25:
            listed = f"CUBE ({listed})"
        elif form < 0.35:
            listed = f"GROUPING SETS (({keys[0]}), (), ({listed}))"
        elif form < 0.5:
            listed = ", ".join(str(at + 1) for at in range(len(keys)))
        elif form < 0.6:
            listed = ", ".join(f"c{at}" for at in range(len(keys)))
        sql += f" GROUP BY {listed}"
        if rng.random() < 0.25:
            sql += f" HAVING {rng.choice(['COUNT(*) > 2', 'SUM(PAY) > 20', 'AVG(Age) < 33'])}"
    order = rng.random()
    if order < 0.35:
        every = ", ".join(
            f"{at + 1} {rng.choice(['', 'DESC', 'ASC NULLS FIRST'])}" for at in range(len(columns))
        )
        sql += f" ORDER BY {every}"
        if order < 0.2:
            sql += f" LIMIT {rng.randint(0, 4)}" + rng.choice(["", " OFFSET 1"])
    return sql


def free_query(rng: random.Random) -> str:
    """A query of any shape that might be asked."""
    form = rng.random()
    if form < 0.55:
        return _one_select(rng)
    if form < 0.63:
        return (
            f"WITH chosen AS (SELECT Region, Age, job, PAY, Score, ok FROM release WHERE "
            f"{predicate(rng)}) {_one_select(rng, 'chosen')}"
        )
    if form < 0.71:
        inner = "(SELECT Region, Age, job, PAY * 2 AS PAY, COALESCE(Score, 0) AS score, ok FROM release)"
        return _one_select(rng, f"{inner} AS made")
    if form < 0.78:
        return (
            "WITH per AS (SELECT Region, AVG(PAY) AS pay, COUNT(*) AS n FROM release GROUP BY Region) "
            + rng.choice(
                ["SELECT MAX(pay) AS a, SUM(n) AS b FROM per", "SELECT Region FROM per WHERE n > 3"]
            )
        )
    if form < 0.86:
        inner = rng.choice(
            ["SELECT AVG(PAY) FROM release", "SELECT MAX(Age) - 10 FROM release",
             "SELECT PAY FROM release LIMIT 1", "SELECT Age FROM release ORDER BY Age DESC LIMIT 1",
             "SELECT AVG(PAY) FROM release WHERE Region = 'north'"]
        )  # fmt: skip
        return f"SELECT Region, COUNT(*) AS n, SUM(Score) AS s FROM release WHERE PAY > ({inner}) GROUP BY Region"
    if form < 0.9:
        return (
            "SELECT Region, COUNT(*) AS n FROM release WHERE job IN (SELECT job FROM release WHERE "
            f"PAY > {rng.randint(0, 30)}) GROUP BY Region"
        )
    if form < 0.93:
        return _one_select(rng) + rng.choice(
            [" USING SAMPLE 3", " QUALIFY COUNT(*) OVER () > 1", " LIMIT 100%"]
        )
    return rng.choice(
        [
            "SELECT Region, PAY FROM release", "SELECT * FROM release", "SELECT COLUMNS('.*') FROM release",
            "SELECT DISTINCT Region, PAY FROM release", "SELECT Region, PAY FROM release ORDER BY 1, 2 LIMIT 2",
            "SELECT a.Region, COUNT(b.PAY) AS n FROM release a, release b GROUP BY 1",
            "SELECT a.Region, COUNT(*) AS n FROM release a JOIN release b ON a.PAY = b.PAY GROUP BY 1",
            "SELECT Region, COUNT(*) AS n FROM release r WHERE EXISTS (SELECT 1 FROM release s WHERE s.PAY > r.Age) GROUP BY 1",
            "SELECT UPPER(Region) AS Region, COUNT(PAY) AS n FROM release GROUP BY Region",
            "SELECT PAY AS Age, COUNT(*) AS n FROM release WHERE Age > 20 GROUP BY PAY ORDER BY Age",
            "SELECT Region, SUM(PAY) AS Age FROM release GROUP BY Region HAVING Age > 20",
            "SELECT COUNT(*) AS n FROM release NATURAL JOIN (SELECT 'north' AS Region, 10 AS PAY) t",
            "SELECT Region, COUNT(PAY) AS n FROM release GROUP BY ALL",
            "SELECT Region, COUNT(PAY) AS n FROM release TABLESAMPLE 50% GROUP BY Region",
            "SELECT Region, AVG(PAY) AS a FROM release GROUP BY Region UNION ALL SELECT 'x', 1",
            "SELECT CASE WHEN AVG(PAY) > 5 THEN 'high' ELSE 'low' END AS w, Region FROM release GROUP BY Region",
            "SELECT SUM(n) AS m FROM (SELECT job, COUNT(Age) AS n FROM release GROUP BY job HAVING COUNT(*) > 1)",
            "SELECT RANDOM() > 2 AS r, COUNT(PAY) AS n FROM release WHERE Age > 0 GROUP BY r",
        ]
    )  # fmt: skip


# ── queries of a known meaning, to be compared with weighted combinations ─────────────────────


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A query as values: keys, a condition, and aggregates with their own conditions.

    ``having`` is a limit that the first aggregate must exceed; ``part`` are the first row and how
    many of the rows in order of their keys.
    """

    keys: tuple[str, ...]
    where: tuple[tuple[str, str, Any], ...]
    aggregates: tuple[tuple[str, str, tuple[str, str, Any] | None], ...]
    grouping: str = ""
    sets: tuple[tuple[str, ...], ...] = field(default=())
    having: float | None = None
    part: tuple[int, int] | None = None

    def sql(self, rng: random.Random) -> str:
        """The query in words, in one of several forms."""
        items = [_spelled(rng, key) + f" AS k{at}" for at, key in enumerate(self.keys)]
        calls = []
        for kind, x, only in self.aggregates:
            text = _CALLS[kind].format(x)
            calls.append(text + (f" FILTER (WHERE {_condition(only)})" if only else ""))
        items += [f"{text} AS a{at}" for at, text in enumerate(calls)]
        where = f" WHERE {' AND '.join(map(_condition, self.where))}" if self.where else ""
        before, source, after, form = "", "release", where, rng.random()
        if form < 0.2:
            source, after = f"(SELECT {', '.join(KINDS)} FROM release{where}) AS chosen", ""
        elif form < 0.4:
            before = f"WITH chosen AS (SELECT {', '.join(KINDS)} FROM release{where}) "
            source, after = "chosen", ""
        listed = ", ".join(self.keys)
        if self.grouping == "GROUPING SETS":
            listed = ", ".join(f"({', '.join(names)})" for names in self.sets)
        group = ""
        if self.keys:
            group = f" GROUP BY {self.grouping} ({listed})" if self.sets else f" GROUP BY {listed}"
        if self.having is not None:
            group += f" HAVING {calls[0]} > {self.having}"
        if self.part is not None:
            order = ", ".join(f"k{at} NULLS FIRST" for at in range(len(self.keys)))
            group += f" ORDER BY {order} LIMIT {self.part[1]} OFFSET {self.part[0]}"
        return f"{before}SELECT {', '.join(items)} FROM {source}{after}{group}"


_CALLS = {
    "count": "COUNT(*)", "there": "COUNT({})", "sum": "SUM({})", "avg": "AVG({})", "min": "MIN({})",
    "max": "MAX({})", "var": "VAR_POP({})", "samp": "VAR_SAMP({})", "std": "STDDEV({})",
    "disc": "QUANTILE_DISC({}, 0.5)", "median": "MEDIAN({})", "cont": "QUANTILE_CONT({}, 0.25)",
    "cov": "COVAR_POP({}, Age)", "corr": "CORR({}, Age)", "if": "COUNT_IF({} > 5)",
}  # fmt: skip
_WITH_AGE = ("cov", "corr")


def _condition(one: tuple[str, str, Any]) -> str:
    name, operator, value = one
    return f"{name} {operator} " + (f"'{value}'" if isinstance(value, str) else str(value))


def asked(rng: random.Random) -> Asked:
    """A random query of known meaning."""

    def one() -> tuple[str, str, Any]:
        name = rng.choice([*_NUMBERS, *_TEXTS])
        value = rng.choice([v for v in _VALUES[name] if v is not None])
        return name, rng.choice(["<", "=", ">=", "<>"] if name in _NUMBERS else ["=", "<>"]), value

    keys = tuple(rng.sample(["Region", "job", "ok", "Age"], rng.randint(0, 2)))
    grouping = ""
    sets: tuple[tuple[str, ...], ...] = ()
    part: tuple[int, int] | None = None
    if keys and rng.random() < 0.3:
        grouping = rng.choice(["ROLLUP", "CUBE", "GROUPING SETS"])
        sizes = range(len(keys), -1, -1)
        sets = {
            "ROLLUP": tuple(keys[:size] for size in sizes),
            "CUBE": tuple(some for size in sizes for some in itertools.combinations(keys, size)),
            "GROUPING SETS": (keys[:1], (), keys),
        }[grouping]
    elif keys and rng.random() < 0.25:
        part = rng.randint(0, 2), rng.randint(0, 4)
    return Asked(
        keys=keys,
        where=tuple(one() for _ in range(rng.randint(0, 2))),
        aggregates=tuple(
            (rng.choice(list(_CALLS)), rng.choice(_NUMBERS), one() if rng.random() < 0.2 else None)
            for _ in range(rng.randint(1, 3))
        ),
        grouping=grouping,
        sets=sets,
        having=rng.choice([0.7123, 1.5321, 9.8765]) if keys and rng.random() < 0.2 else None,
        part=part,
    )


def _holds(row: Row, one: tuple[str, str, Any]) -> bool:
    name, operator, value = one
    cell = row[name]
    if cell is None:
        return False
    return bool(
        {"<": cell < value, ">=": cell >= value, "=": cell == value, "<>": cell != value}[operator]
        if not isinstance(cell, str)
        else {"=": cell == value, "<>": cell != value}[operator]
    )


def combinations(tables: dict[str, pa.Table], fragments: set[int]) -> list[tuple[Row, Fraction]]:
    """Every combination of the named fragments that is possible, with its weight."""
    groups: dict[int, dict[int, list[Row]]] = {}
    for f in fragments:
        for row in tables[f"fragment-{f}"].to_pylist():
            groups.setdefault(f, {}).setdefault(row[f"group_{f}"], []).append(row)
    found = []
    for link in tables["association"].to_pylist():
        choices = [groups[f][link[f"group_{f}"]] for f in sorted(fragments)]
        weight = Fraction(1, math.prod(map(len, choices)))
        found += [
            ({k: v for part in parts for k, v in part.items()}, weight)
            for parts in itertools.product(*choices)
        ]
    return found


def reference(tables: dict[str, pa.Table], query: Asked) -> list[tuple[Any, ...]]:
    """The expected answer: weighted sums over all combinations, in exact fractions."""
    named = {*query.keys, *(w[0] for w in query.where)}
    for kind, x, only in query.aggregates:
        named |= {x} if kind != "count" else set()
        named |= {"Age"} if kind in _WITH_AGE else set()
        named |= {only[0]} if only else set()
    fragments = {f for f, names in enumerate(FRAGMENTS, 1) if named & set(names)} or {1}
    cells = [
        (row, weight)
        for row, weight in combinations(tables, fragments)
        if all(_holds(row, one) for one in query.where)
    ]
    answer = []
    for keys in query.sets or (query.keys,):
        groups: dict[tuple[Any, ...], list[tuple[Row, Fraction]]] = {}
        for row, weight in cells:
            groups.setdefault(tuple(row[key] for key in keys), []).append((row, weight))
        if not keys and not groups:
            groups[()] = []
        for values, inside in groups.items():
            shown = dict(zip(keys, values, strict=True))
            line = (
                *(shown.get(key) for key in query.keys),
                *(_expected(inside, *one) for one in query.aggregates),
            )
            first = line[len(query.keys)]
            if query.having is None or (first is not None and not first <= query.having):  # as NaN
                answer.append(line)
    if query.part is None:
        return answer
    start, many = query.part
    answer.sort(key=lambda line: [(one is not None, one) for one in line[: len(query.keys)]])
    return answer[start : start + many]


def _expected(
    cells: list[tuple[Row, Fraction]], kind: str, x: str, only: tuple[str, str, Any] | None
) -> Any:
    inside = [(row, w) for row, w in cells if only is None or _holds(row, only)]
    if kind == "count":
        return float(sum(w for _, w in inside))
    if kind in _WITH_AGE:
        inside = [(row, w) for row, w in inside if row["Age"] is not None]
    pairs = [(Fraction(row[x]), w) for row, w in inside if row[x] is not None]
    total = sum((w for _, w in pairs), Fraction(0))
    if kind == "there":
        return float(total)
    if not pairs:
        return None
    if kind == "if":  # DuckDB's is a sum: over no value at all, there is none
        return float(sum(w for v, w in pairs if v > 5))
    if kind in ("min", "max"):
        return float((min if kind == "min" else max)(v for v, _ in pairs))
    if kind in _WITH_AGE:
        both = [(Fraction(r[x]), Fraction(r["Age"]), w) for r, w in inside if r[x] is not None]
        return _together(both, kind)
    if kind in _PLACES:
        return _quantile(sorted(pairs), total, kind)
    return _moment(pairs, total, kind)


def _moment(pairs: list[tuple[Fraction, Fraction]], total: Fraction, kind: str) -> float | None:
    """A sum, mean or variance of weighted values."""
    summed = sum(v * w for v, w in pairs)
    if kind == "sum":
        return float(summed)
    mean = summed / total
    if kind == "avg":
        return float(mean)
    squares = sum((v - mean) ** 2 * w for v, w in pairs)
    if kind == "var":
        return float(squares / total)
    if total <= 1:
        return None
    sample = float(squares / (total - 1))
    return math.sqrt(sample) if kind == "std" else sample


def _together(both: list[tuple[Fraction, Fraction, Fraction]], kind: str) -> float:
    """The covariance or correlation of weighted pairs."""
    total = sum(w for *_, w in both)
    mean, far = sum(a * w for a, _, w in both) / total, sum(b * w for _, b, w in both) / total
    joint = sum((a - mean) * (b - far) * w for a, b, w in both) / total
    if kind == "cov":
        return float(joint)
    spreads = sum((a - mean) ** 2 * w for a, _, w in both) * sum(
        (b - far) ** 2 * w for _, b, w in both
    )
    return float(joint * total) / math.sqrt(spreads) if spreads else math.nan


_PLACES = {"disc": Fraction(1, 2), "median": Fraction(1, 2), "cont": Fraction(1, 4)}


def _quantile(pairs: list[tuple[Fraction, Fraction]], total: Fraction, kind: str) -> float:
    def at(more_than: Fraction, *, strict: bool) -> Fraction:
        summed = Fraction(0)
        for value, weight in pairs:
            summed += weight
            if summed > more_than or (not strict and summed == more_than):
                return value
        return pairs[-1][0]

    if kind == "disc":
        return float(at(total / 2, strict=False))
    place = max(Fraction(0), (total - 1) * _PLACES[kind])
    below, part = math.floor(place), place - math.floor(place)
    low, high = at(Fraction(below), strict=True), at(Fraction(below + 1), strict=True)
    return float(low + (high - low) * part)
