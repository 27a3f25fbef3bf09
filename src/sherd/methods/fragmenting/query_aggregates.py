"""Aggregates over possible combinations: what is expected, how it errs, what it lies between.

Notation: a *unit* is an association row, or a tuple of one fragment; it takes part in exactly
one true tuple, so its possible combinations weigh 1 together. Of a unit and an argument x,
within one group of the answer, p, s, q are the sums of w, w·x, w·x² over the combinations in
which x is there, low and high the least and greatest x. Weights are whole numbers over one
denominator W, so that a unit that certainly belongs there has p = W exactly.

Expected values, over association rows:

    COUNT      Σp            variance Σ p(1 − p)
    SUM(x)     Σs            variance Σ (q − s²)
    AVG(x)     Σs / Σp = m   variance Σ (q − 2ms + m²p − (s − mp)²) / (Σp)²

Deviations, covariances and correlations are those of the weighted combinations; a quantile is
read off their cumulative weight. Variances take association rows as independent and all pairings
within groups as equally likely. The first mostly overstates them, since no member of a group is
taken twice; the second leaves out what cannot be known from a release: attributes of different
fragments that depend on each other within groups.

Bounds hold in every world that the release allows. Each unit adds between low and high where it
certainly belongs to the group, and between that and nothing where it may. A bound is
computed once from association rows and once from the tuples of each fragment, and the tightest
is given. It is an outer bound: not every combination of extremes is possible at once. Where keys
and conditions lie in one fragment, that fragment's tuples are all certain, and counts are exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError
from sherd.methods.fragmenting.query_language import check_aggregate, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

WEIGHT, ROW, MEMBER = "__weight", "__row", "__member_"
_SPREADS = {"Stddev", "StddevSamp", "StddevPop", "Variance", "VariancePop"}
_PAIRS = {"Corr", "CovarSamp", "CovarPop"}
_QUANTILES = {"Median", "Quantile", "PercentileCont", "PercentileDisc"}


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """One aggregate: its kind, its arguments by number, and a quantile's fraction."""

    kind: str
    first: int
    second: int | None = None
    fraction: str = ""

    @property
    def has_error(self) -> bool:
        """Whether a standard error goes with it."""
        return self.kind in ("Count", "Sum", "Avg")


class Sums:
    """The arguments of all aggregates of a query, and what is summed of each."""

    def __init__(self, whole: int, kinds: int) -> None:
        self.whole = whole
        self.kinds = range(kinds)
        self.arguments: list[str] = []
        self.aggregates: list[Aggregate] = []

    def add(self, node: Any) -> Aggregate:
        """An aggregate of the query, its expressions resolved, as one of these."""
        from sqlglot import exp

        condition = None
        if isinstance(node, exp.Filter):
            check_aggregate(node)
            condition, node = node.expression.this, node.this
        check_aggregate(node)
        kind = type(node).__name__
        if kind == "Count":
            first = node.this
            if first is None or isinstance(first, exp.Star):
                first = exp.Literal.number(1)
        elif kind == "CountIf":
            # DuckDB adds up ones and zeros: of no known condition there is no sum
            told = [exp.If(this=node.this, true=exp.Literal.number(1)),
                    exp.If(this=exp.not_(node.this), true=exp.Literal.number(0))]  # fmt: skip
            first, kind = exp.Case(ifs=told), "Sum"
        else:
            first = node.this
        if isinstance(first, (exp.Distinct, exp.Order)):
            raise UsageError(
                "distinct values over several fragments have no meaning: which values occur "
                "together is what is hidden",
                do="ask one fragment, which is exact",
            )
        made = Aggregate(
            kind=kind,
            first=self._argument(first, condition),
            second=self._argument(node.expression, condition) if kind in _PAIRS else None,
            fraction=_fraction(node) if kind in _QUANTILES else "",
        )
        if made not in self.aggregates:
            self.aggregates.append(made)
        return made

    def _argument(self, node: Any, condition: Any) -> int:
        text = node.sql(dialect="duckdb")
        if condition is not None:
            text = f"CASE WHEN {condition.sql(dialect='duckdb')} THEN {text} END"
        if text not in self.arguments:
            self.arguments.append(text)
        return self.arguments.index(text)

    def columns(self) -> list[str]:
        """What is summed up for every unit."""
        sums = []
        for at in range(len(self.arguments)):
            x, w = f"__x{at}", WEIGHT
            sums += [
                f"SUM(CASE WHEN {x} IS NOT NULL THEN {w} ELSE 0 END) AS __p{at}",
                f"MIN({x}) AS __low{at}",
                f"MAX({x}) AS __high{at}",
            ]
        uses = {(a.first, a.kind in _SPREADS) for a in self.aggregates if a.kind in _SUMMED}
        for at in sorted({first for first, _ in uses}):
            x, w = f"__x{at}", WEIGHT
            sums.append(f"COALESCE(SUM({w} * {x}), 0) AS __s{at}")
            sums.append(f"COALESCE(SUM({w} * {x} * {x}), 0) AS __q{at}")
        for at in sorted({first for first, spread in uses if spread}):
            far = f"(__x{at} - __centre{at})"  # far from zero, squares would lose what varies
            sums.append(f"COALESCE(SUM({WEIGHT} * {far}), 0) AS __d{at}")
            sums.append(f"COALESCE(SUM({WEIGHT} * {far} * {far}), 0) AS __e{at}")
        for one, two in self._pairs():
            a, b = f"(__x{one} - __centre{one})", f"(__x{two} - __centre{two})"
            for name, term in (("n", "1"), ("a", a), ("b", b), ("aa", f"{a} * {a}"),
                               ("bb", f"{b} * {b}"), ("ab", f"{a} * {b}")):  # fmt: skip
                both = f"__x{one} IS NOT NULL AND __x{two} IS NOT NULL"
                sums.append(
                    f"SUM(CASE WHEN {both} THEN {WEIGHT} * {term} ELSE 0 END) "
                    f"AS __{name}{one}_{two}"
                )
        return sums

    def _pairs(self) -> list[tuple[int, int]]:
        return sorted({(a.first, a.second) for a in self.aggregates if a.second is not None})

    def centred(self) -> list[int]:
        """The arguments that are measured from their middle."""
        spread = {a.first for a in self.aggregates if a.kind in _SPREADS}
        return sorted(spread | {at for pair in self._pairs() for at in pair})

    def estimate(self, one: Aggregate) -> str:
        """What is expected of an aggregate, as SQL over the units."""
        at, w = one.first, self.whole
        p = _rows(f"__p{at}")
        if one.kind == "Count":
            return f"(COALESCE({p}, 0) / {w})"
        if one.kind == "Sum":
            return f"(CASE WHEN {p} > 0 THEN {_rows(f'__s{at}')} / {w} END)"
        if one.kind == "Avg":
            return f"({_rows(f'__s{at}')} / NULLIF({p}, 0))"
        if one.kind == "Min":
            return f"MIN(__low{at})"
        if one.kind == "Max":
            return f"MAX(__high{at})"
        if one.kind in _QUANTILES:
            return f"ANY_VALUE(__quantile{self.aggregates.index(one)}.value)"
        if one.kind in _SPREADS:
            d, e = _rows(f"__d{at}"), _rows(f"__e{at}")
            rest = f"{e} - {d} * {d} / NULLIF({p}, 0)"  # of zero, rounding leaves a little
            value = f"(CASE WHEN {rest} > 1e-12 * {e} THEN {rest} ELSE 0 END / NULLIF({p}, 0))"
            value = _sample(value, p, w, sample=not one.kind.endswith("Pop"))
            return f"SQRT({value})" if one.kind.startswith("Stddev") else value
        return self._covariance(one)

    def _covariance(self, one: Aggregate) -> str:
        n, a, b, aa, bb, ab = (
            _rows(f"__{name}{one.first}_{one.second}") for name in ("n", "a", "b", "aa", "bb", "ab")
        )
        value = f"(({ab} - {a} * {b} / NULLIF({n}, 0)) / NULLIF({n}, 0))"
        if one.kind != "Corr":
            return _sample(value, n, self.whole, sample=one.kind == "CovarSamp")
        # what rounding leaves of a variance that is zero is no variance
        each = [
            f"(CASE WHEN {xx} - {x} * {x} / NULLIF({n}, 0) > 1e-12 * {xx} "
            f"THEN SQRT({xx} - {x} * {x} / NULLIF({n}, 0)) END)"
            for x, xx in ((a, aa), (b, bb))
        ]
        value = f"COALESCE({value} * {n} / ({each[0]} * {each[1]}), CAST('NaN' AS DOUBLE))"
        return f"(CASE WHEN {n} > 0 THEN {value} END)"

    def error(self, one: Aggregate) -> str:
        """The standard error of a count, a sum or an average."""
        at, w = one.first, float(self.whole)
        p, s, q = f"(__p{at} / {w})", f"(__s{at} / {w})", f"(__q{at} / {w})"
        if one.kind == "Count":
            return f"SQRT({_rows(f'GREATEST(0, {p} * (1 - {p}))')})"
        if one.kind == "Sum":
            return f"SQRT({_rows(f'GREATEST(0, {q} - {s} * {s})')})"
        mean = f"({_rows(s)} / NULLIF({_rows(p)}, 0))"
        spread = (
            f"{_rows(f'{q} - {s} * {s}')} - 2 * {mean} * {_rows(f'{s} - {s} * {p}')}"
            f" + {mean} * {mean} * {_rows(f'{p} - {p} * {p}')}"
        )
        return f"(SQRT(GREATEST(0, {spread})) / NULLIF({_rows(p)}, 0))"

    def bounds(self, one: Aggregate) -> tuple[str, str]:
        """The least and the greatest that the release allows."""
        at = one.first
        p, low, high = f"__p{at}", f"__low{at}", f"__high{at}"
        sure = f"{p} >= {self.whole}"
        if one.kind == "Count":
            return (
                self._best("GREATEST", "COUNT(*)", sure),
                self._best("LEAST", "COUNT(*)", f"{p} > 0"),
            )
        if one.kind == "Sum":
            least = f"SUM(CAST(CASE WHEN {sure} THEN {low} ELSE LEAST(0, {low}) END AS DOUBLE))"
            most = f"SUM(CAST(CASE WHEN {sure} THEN {high} ELSE GREATEST(0, {high}) END AS DOUBLE))"
            there = f"{p} > 0"
            return self._best("GREATEST", least, there), self._best("LEAST", most, there)
        if one.kind == "Min":
            return f"MIN({low})", self._best("LEAST", f"MIN({high})", sure)
        if one.kind == "Max":
            return self._best("GREATEST", f"MAX({low})", sure), f"MAX({high})"
        if one.kind == "Avg":
            return self._ordered(at, "AVG({})")
        if one.kind in _QUANTILES:
            word = "QUANTILE_CONT" if _interpolates(one.kind) else "QUANTILE_DISC"
            return self._ordered(at, f"{word}({{}}, {one.fraction})")
        if one.kind == "Corr":
            return "CAST(-1 AS DOUBLE)", "CAST(1 AS DOUBLE)"
        return self._spread_bounds(one)

    def _spread_bounds(self, one: Aggregate) -> tuple[str, str]:
        """A variance is at most a quarter of the squared range, a covariance of both ranges."""
        least_count = self._best("GREATEST", "COUNT(*)", f"__p{one.first} >= {self.whole}")
        ranges = [f"(MAX(__high{at}) - MIN(__low{at}))" for at in (one.first, one.second)
                  if at is not None]  # fmt: skip
        most = f"(CAST({ranges[0]} AS DOUBLE) * {ranges[-1]} / 4)"
        if not one.kind.endswith("Pop"):
            n = f"GREATEST(2, {least_count})"
            most = f"({most} * {n} / ({n} - 1))"
        if one.second is not None:
            return f"(-{most})", most
        return "CAST(0 AS DOUBLE)", f"SQRT({most})" if one.kind.startswith("Stddev") else most

    def _best(self, choose: str, aggregate: str, where: str) -> str:
        each = [f"{aggregate} FILTER (WHERE __kind = {k} AND {where})" for k in self.kinds]
        return f"{choose}({', '.join(each)})" if len(each) > 1 else each[0]

    def _ordered(self, at: int, aggregate: str) -> tuple[str, str]:
        """Bounds of what grows with each value: from all units where none is uncertain."""
        ends = []
        for choose, value, extreme in (("GREATEST", "low", "MIN"), ("LEAST", "high", "MAX")):
            each = []
            for k in self.kinds:
                there = f"FILTER (WHERE __kind = {k} AND __p{at} > 0)"
                some = f"__p{at} > 0 AND __p{at} < {self.whole}"
                unsure = f"COUNT(*) FILTER (WHERE __kind = {k} AND {some})"
                each.append(
                    f"CASE WHEN {unsure} = 0 THEN {aggregate.format(f'__{value}{at}')} {there} "
                    f"ELSE {extreme}(__{value}{at}) {there} END"
                )
            ends.append(f"{choose}({', '.join(each)})" if len(each) > 1 else each[0])
        return ends[0], ends[1]

    def quantiles(self, keys: list[str]) -> list[tuple[str, str]]:
        """A table for each quantile: its value for every group, by name."""
        columns = []
        named = "".join(f"{key}, " for key in keys)
        over = f"PARTITION BY {', '.join(keys)} " if keys else ""
        for number, one in enumerate(self.aggregates):
            if one.kind not in _QUANTILES:
                continue
            w, x, q = self.whole, f"__x{one.first}", one.fraction
            weighed = (
                f"SELECT {named}{x} AS x, SUM({WEIGHT}) AS w FROM __cells "  # noqa: S608
                f"WHERE {x} IS NOT NULL GROUP BY {named}{x}"
            )
            summed = (
                f"SELECT {named}x, SUM(w) OVER ({over}ORDER BY x) AS c, "  # noqa: S608
                f"SUM(w) OVER ({over}) AS t FROM ({weighed})"
            )
            if _interpolates(one.kind):
                place = f"SELECT *, GREATEST(0, {q} * (t / {w} - 1)) AS h FROM ({summed})"  # noqa: S608
                below = f"MIN(x) FILTER (WHERE c > {w} * (FLOOR(h + 1e-9) + 1e-9))"
                above = f"MIN(x) FILTER (WHERE c > {w} * (FLOOR(h + 1e-9) + 1 + 1e-9))"
                part = "GREATEST(0, ANY_VALUE(h) - FLOOR(ANY_VALUE(h) + 1e-9))"
                value = f"{below} + (COALESCE({above}, {below}) - {below}) * {part}"
            else:
                place = summed
                value = f"MIN(x) FILTER (WHERE c >= {q} * t - 1e-9 * {w})"
            group = f" GROUP BY {', '.join(keys)}" if keys else ""
            sql = f"SELECT {named}{value} AS value FROM ({place}){group}"  # noqa: S608
            columns.append((f"__quantile{number}", sql))
        return columns


_SUMMED = {"Sum", "Avg", *_SPREADS}


def _rows(term: str) -> str:
    return f"SUM({term}) FILTER (WHERE __kind = 0)"


def _sample(value: str, weight: str, whole: int, *, sample: bool) -> str:
    if not sample:
        return value
    count = f"({weight} / {whole})"
    return f"(CASE WHEN {count} > 1 THEN {value} * {count} / ({count} - 1) END)"


def _interpolates(kind: str) -> bool:
    return kind in ("Median", "PercentileCont")


def _fraction(node: Any) -> str:
    from sqlglot import exp

    given = node.args.get("quantile") or node.args.get("expression")
    if given is None:
        return "0.5"
    if not isinstance(given, exp.Literal) or given.is_string or not 0 <= float(given.name) <= 1:
        raise refused(node)
    return str(given.name)


def one_set(
    number: int,
    chosen: tuple[int, ...],
    n_keys: int,
    sums: Sums,
    units: list[str],
    columns: list[tuple[str, str]],
    order: list[str],
    having: str,
) -> tuple[list[str], str]:
    """The tables and the SELECT for one set of keys; keys outside it are null."""
    keys = [f"__k{at}" for at in chosen]
    named = "".join(f"{key}, " for key in keys)
    sets = ", ".join(f"({named}{unit})" for unit in units)
    kinds = " ".join(f"WHEN GROUPING({unit}) = 0 THEN {at}" for at, unit in enumerate(units))
    level = f"__units{number}"
    tables = [
        f"{level} AS (SELECT {named}CASE {kinds} END AS __kind, {', '.join(sums.columns())} "  # noqa: S608
        f"FROM __cells GROUP BY GROUPING SETS ({sets}))"
    ]
    joined = ""
    for name, sql in sums.quantiles(keys):
        tables.append(f"{name}_{number} AS ({sql})")
        on = " AND ".join(
            f"{name}.{key} IS NOT DISTINCT FROM __units.{key}" for key in keys
        ) or "TRUE"  # fmt: skip
        joined += f" LEFT JOIN {name}_{number} AS {name} ON {on}"
    absent = {f"__k{at}": "NULL" for at in range(n_keys) if at not in chosen}
    texts = [(f"__c{at}", text) for at, (_, text) in enumerate(columns)]
    texts += [(f"__o{at}", text) for at, text in enumerate(order)]
    items = ", ".join(f"{_nulled(text, absent)} AS {name}" for name, text in texts)
    group = f" GROUP BY {', '.join(f'__units.{key}' for key in keys)}" if keys else ""
    sql = f"SELECT {items} FROM {level} AS __units{joined}{group}{_nulled(having, absent)}"  # noqa: S608
    return tables, sql


def _nulled(text: str, absent: Mapping[str, str]) -> str:
    return re.sub(r'"?__units"?\."?(__k\d+)"?', lambda m: absent.get(m[1], m[0]), text)
