"""How the claims of paper 004 are judged: rows of its figures in, words and a verdict out.

``None`` is "cannot be told". Numbers of the paper come from ``expected.yaml``.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from reproduction import Rows

Judged = tuple[str, bool | None]
_SYMBOLS = {"gamma": "γ", "k": "k"}
_SHORT = {"of the tuples": "", "s": " s"}
"""Units as they stand behind an error."""


def _of(rows: Rows, algorithm: str, /, **wanted: Any) -> Rows:
    return [
        r for r in rows if r["algorithm"] == algorithm and all(r[k] == v for k, v in wanted.items())
    ]


def printed(rows: Rows, *, rounding: float, **tables: dict[str, list[float]]) -> Judged:
    """Figure 7 cell by cell: with the association, over the original relation, without."""
    found = {(r["query"], r["value"]): (r["with"], r["real"], r["without"]) for r in rows}
    cells = [
        (ours, theirs)
        for query, table in tables.items()
        for value, given in table.items()
        for ours, theirs in zip(found[query, value], given, strict=True)
    ]
    off = [abs(ours - theirs) for ours, theirs in cells]
    ours, theirs = cells[off.index(max(off))]
    near = sum(o <= rounding for o in off)
    words = f"{near} of {len(cells)} cells as printed; the largest difference is "
    return f"{words}{ours:.6g} for {theirs:g}", near == len(cells)


def three_kinds(rows: Rows) -> Judged:
    """Utility grows from q_ns over q_as to q_os."""
    found = []
    for query in ("q_ns", "q_as", "q_os"):
        own = [r for r in rows if r["query"] == query]
        error = sum(abs(r["with"] - r["real"]) for r in own)
        found.append(1 - error / sum(abs(r["without"] - r["real"]) for r in own))
    words = ", ".join(f"{u:.3f}" for u in found)
    return f"utilities {words}", found[0] < found[1] < found[2]


def _trend(rows: Rows, along: str, across: str, of: str) -> tuple[float, float]:
    """From the least to the largest value of an axis: the mean change, and its standard error."""
    changes, errors = [], []
    for fixed in sorted({r[across] for r in rows}):
        line = sorted((r for r in rows if r[across] == fixed), key=lambda r: r[along])
        changes.append(line[-1][of] - line[0][of])
        errors.append(math.hypot(*(r[f"{of}, standard error"] for r in (line[0], line[-1]))))
    return float(np.mean(changes)), math.hypot(*errors) / len(errors)


def _sign(change: float, error: float, wanted: int) -> bool | None:
    """Whether a change has the wanted sign, beyond two standard errors."""
    if abs(change) <= 2 * error or change == 0:
        return None
    return bool(change * wanted > 0)


def _beyond(above: float, error: float) -> bool | None:
    """Whether a value lies above its limit, if that can be told."""
    return None if abs(above) <= error and error > 0 else above > 0


def _by_tuples(rows: Rows, algorithm: str, variability: str, most: int = 10_000) -> Rows:
    gamma = int(variability.rsplit(maxsplit=1)[-1])
    found = _of(rows, algorithm, part="tuples", gamma=gamma)
    return [r for r in found if r["rows"] <= most]


def small_tables_suppress(rows: Rows, *, algorithm: str, variability: str) -> Judged:
    """More is left out of small tables."""
    own = _by_tuples(rows, algorithm, variability)
    change, error = _trend(own, "rows", "k", "suppressed")
    least, largest = min(r["rows"] for r in own), max(r["rows"] for r in own)
    of = {n: np.mean([r["suppressed"] for r in own if r["rows"] == n]) for n in (least, largest)}
    return (
        f"{of[least]:.2%} of {least:,} tuples, {of[largest]:.3%} of {largest:,} (mean over k)",
        _sign(change, error, -1),
    )


def changes(of: str, along: str, across: str, wanted: int, form: str) -> Any:
    """A number grows (``wanted`` 1) or falls (-1) along an axis, on average over another.

    Judged over γ, or over the number of tuples where a variability is named; ``form`` is how the
    number is written, with its unit.
    """

    def judge(rows: Rows, *, algorithm: str, variability: str = "") -> Judged:
        own = _of(rows, algorithm, part="gamma")
        if variability:
            own = _by_tuples(rows, algorithm, variability)
        change, error = _trend(own, along, across, of)
        ends = [end(r[along] for r in own) for end in (min, max)]
        number, unit = form.split(maxsplit=1)
        words = f"from {_SYMBOLS[along]} = {ends[0]} to {ends[1]} by {change:+{number}} {unit} on "
        return f"{words}average (± {2 * error:{number}}{_SHORT[unit]})", _sign(
            change, error, wanted
        )

    return judge


def nothing_suppressed(rows: Rows, *, algorithm: str) -> Judged:
    """No tuple of the real table is left out."""
    words, largest = [], 0.0
    for name in ("two", "three"):
        own = {r["grouping"]: r["suppressed"] for r in _of(rows, algorithm, fragments=name)}
        shown = ", ".join(f"{grouping}: {share:.2%}" for grouping, share in own.items())
        words.append(f"{name} fragments, {shown}")
        largest = max(largest, *own.values())
    return "; ".join(words), largest == 0


def seconds_for(rows: Rows, *, algorithm: str, seconds: float) -> Judged:
    """100,000 tuples at k = 16 within a time."""
    own = _of(rows, algorithm, part="tuples", rows=100_000, k=16)
    return f"{own[0]['seconds']:.2f} s of processor time", own[0]["seconds"] < seconds


def scales(rows: Rows, *, algorithm: str, exponent: float) -> Judged:
    """Time grows gently with the number of tuples."""
    found = []
    for k in sorted({r["k"] for r in _of(rows, algorithm, part="tuples", gamma=8)}):
        line = [r for r in _of(rows, algorithm, part="tuples", gamma=8, k=k) if r["rows"] >= 2000]
        if len(line) > 1:
            x = np.log([r["rows"] for r in line])
            found.append(float(np.polyfit(x, np.log([r["seconds"] for r in line]), 1)[0]))
    words = f"time ∝ n^{np.median(found):.2f} from 2,000 tuples (median over k)"
    return words, float(np.median(found)) <= exponent


def real_within(rows: Rows, *, algorithm: str, seconds: float) -> Judged:
    """Every association of the real table within a time."""
    most = max(r["seconds"] for r in _of(rows, algorithm))
    return f"at most {most:.1f} s of processor time", most < seconds


def nearly_all(rows: Rows, *, algorithm: str, utility: float) -> Judged:
    """Figure 12(a): utility is nearly 100 % in most configurations."""
    own = [r["utility"] for r in _of(rows, algorithm, part="tuples", gamma=8)]
    good = sum(u >= utility for u in own)
    words = f"at least {utility:.0%} in {good} of {len(own)} configurations, median"
    return f"{words} {np.median(own):.1%}", good > len(own) / 2


def always_high(rows: Rows, *, algorithm: str, utility: float) -> Judged:
    """Figure 12(b): utility is high in every configuration."""
    least = min(_of(rows, algorithm, part="gamma"), key=lambda r: r["utility"])
    above, error = least["utility"] - utility, 2 * least["utility, standard error"]
    words = f"least {least['utility']:.1%} (± {error:.1%}) with γ = {least['gamma']}, k = "
    return f"{words}{least['k']}", _beyond(above, error)


def utility_by(part: str, along: str, across: str, wanted: int) -> Any:
    """Utility grows or falls along an axis."""

    def judge(rows: Rows, *, algorithm: str) -> Judged:
        own = [r for r in _of(rows, algorithm, part=part) if part == "gamma" or r["gamma"] == 8]
        change, error = _trend(own, along, across, "utility")
        words = f"by {change:+.1%} on average from the least to the largest (± {2 * error:.1%})"
        return words, _sign(change, error, wanted)

    return judge


def worst_case(rows: Rows, *, algorithm: str, utility: float, least: int) -> Judged:
    """With k = 20 above 80 % for hundreds of tuples."""
    own = [r for r in _of(rows, algorithm, part="tuples", gamma=8, k=20) if r["rows"] >= least]
    words = ", ".join(f"{r['rows']:,}: {r['utility']:.0%}" for r in own)
    return f"by number of tuples: {words}", min(r["utility"] for r in own) > utility


def queries_with(ordered: int) -> Any:
    """The utility of the queries with so many ordered attributes, in all pairs of group sizes."""

    def judge(rows: Rows, *, algorithm: str, utility: float) -> Judged:
        own = _of(rows, algorithm, ordered=ordered)
        own = [r for r in own if r.get("fragments") != "three"]
        means = [
            float(np.mean([r["utility"] for r in own if r["query"] == query]))
            for query in dict.fromkeys(r["query"] for r in own)
        ]
        least = min(own, key=lambda r: r["utility"])
        above, error = least["utility"] - utility, 2 * least["utility, standard error"]
        shown = ", ".join(f"{m:.0%}" for m in means)
        words = f"by query {shown}; least {least['utility']:.0%} (± {error:.0%}) in a grouping"
        return words, _beyond(above, error)

    return judge


def not_null(rows: Rows, *, algorithm: str, utility: float) -> Judged:
    """Queries over unordered attributes have some utility, on average over the groupings."""
    own = _of(rows, algorithm, ordered=0)
    means, errors = [], []
    for query in dict.fromkeys(r["query"] for r in own):
        each = [r for r in own if r["query"] == query]
        means.append(float(np.mean([r["utility"] for r in each])))
        errors.append(math.hypot(*(r["utility, standard error"] for r in each)) / len(each))
    told = [_sign(mean - utility, error, 1) for mean, error in zip(means, errors, strict=True)]
    words = ", ".join(f"{m:.0%} (± {2 * e:.0%})" for m, e in zip(means, errors, strict=True))
    held = False if False in told else (None if None in told else True)
    return f"by query {words}, mean over the groupings", held


def one_is_best(rows: Rows, *, algorithm: str, utility: float) -> Judged:
    """q_0 has the highest utility, almost 100 %."""
    own = _of(rows, algorithm)
    means = _means(own)
    first = next(r["query"] for r in own if r["ordered"] == 2)
    other = max((q for q in means if q != first), key=lambda q: means[q])
    groupings = list(dict.fromkeys(r["grouping"] for r in own))
    best = 0
    for grouping in groupings:
        each = {r["query"]: r["utility"] for r in own if r["grouping"] == grouping}
        best += max(each, key=lambda q: each[q]) == first
    words = f"{first} {means[first]:.1%}, the best other {means[other]:.0%} ({other}), means over "
    words += f"the groupings; {first} is best in {best} of {len(groupings)} groupings"
    return words, means[first] >= utility and means[first] > means[other]


def _means(rows: Rows) -> dict[str, float]:
    """The mean utility of every query over the groupings."""
    return {
        query: float(np.mean([r["utility"] for r in rows if r["query"] == query]))
        for query in dict.fromkeys(r["query"] for r in rows)
    }


def like_both(rows: Rows, *, algorithm: str, points: float) -> Judged:
    """Queries with one ordered attribute are as good as the one with two."""
    own = _of(rows, algorithm, fragments="two")
    (both,) = _means([r for r in own if r["ordered"] == 2]).values()
    one = _means([r for r in own if r["ordered"] == 1])
    words = ", ".join(f"{query} {mean:.0%}" for query, mean in one.items())
    return f"{both:.0%} with two, {words}", max(abs(both - mean) for mean in one.values()) <= points


def _two(rows: Rows, algorithm: str, ordered: int | None = None) -> Rows:
    """A figure's rows over two fragments, by kind of query."""
    return [
        r
        for r in _of(rows, algorithm)
        if r.get("fragments") != "three" and ordered in (None, r["ordered"])
    ]


def stable(synthetic: Rows, real: Rows, *, algorithm: str, spread: float) -> Judged:
    """Utility stays about the same whatever the pair of group sizes."""
    spreads = []
    for rows in (synthetic, real):
        own = _two(rows, algorithm)
        for query in dict.fromkeys(r["query"] for r in own):
            each = [r["utility"] for r in own if r["query"] == query]
            spreads.append(max(each) - min(each))
    good = sum(s <= spread for s in spreads)
    words = f"within {100 * spread:.0f} points for {good} of {len(spreads)} queries; at most "
    return f"{words}{100 * max(spreads):.0f} points apart", good == len(spreads)


def middle_not_least(synthetic: Rows, real: Rows, *, algorithm: str) -> Judged:
    """Group sizes near the root of k do not have the lowest utility.

    Only of figures with several runs and with group sizes on both sides.
    """
    middle = ("(4,3)", "(3,4)")
    queries, low, unsure = 0, 0, 0
    for rows in (synthetic, real):
        own = [r for r in _two(rows, algorithm) if r["runs"] > 1]
        for query in dict.fromkeys(r["query"] for r in own):
            each = sorted((r for r in own if r["query"] == query), key=lambda r: r["utility"])
            if len(each) < 3:
                continue
            queries += 1
            if each[0]["grouping"] in middle:
                other = next(r for r in each if r["grouping"] not in middle)
                name = "utility, standard error"
                error = 2 * math.hypot(each[0][name], other[name])
                within = other["utility"] - each[0]["utility"] <= error
                unsure += within
                low += not within
    words = f"(4,3) or (3,4) is lowest for {low} of {queries} queries, for {unsure} more within "
    held = None if not queries or (unsure and not low) else not low
    return f"{words}what runs differ by", held


def always_positive(synthetic: Rows, real: Rows, *, algorithm: str, some: float) -> Judged:
    """Unordered attributes: utility always positive, and near a value for some queries."""
    own = _two(synthetic, algorithm, 0) + _two(real, algorithm, 0)
    least = min(own, key=lambda r: r["utility"])
    most = max(r["utility"] for r in own)
    error = 2 * least["utility, standard error"]
    words = f"{least['utility']:.0%} (± {error:.0%}) to {most:.0%} in a grouping"
    positive = _beyond(least["utility"], error)
    return words, positive if most >= some else False


def typical(ordered: int) -> Any:
    """The typical utility of the queries with so many ordered attributes."""

    def judge(
        synthetic: Rows, real: Rows, *, algorithm: str, utility: float, points: float
    ) -> Judged:
        own = _two(synthetic, algorithm, ordered) + _two(real, algorithm, ordered)
        found = float(np.median([r["utility"] for r in own]))
        words = f"median {found:.0%} over {len(own)} queries and groupings"
        return words, abs(found - utility) <= points

    return judge


def between(rows: Rows, *, algorithm: str, least: float, most: float) -> Judged:
    """Most queries over unordered attributes have a utility in a range (two fragments)."""
    own = _of(rows, algorithm, ordered=0, fragments="two")
    inside = sum(least <= r["utility"] <= most for r in own)
    words = ", ".join(f"{r['utility']:.0%}" for r in own if r["grouping"] == "(4,3)")
    return f"{inside} of {len(own)} within; with (4,3): {words}", inside > len(own) / 2


def real_beats_synthetic(synthetic: Rows, real: Rows, *, algorithm: str) -> Judged:
    """Queries over unordered attributes fare better on real data."""
    one = float(np.mean([r["utility"] for r in _of(synthetic, algorithm, ordered=0)]))
    two = float(np.mean([r["utility"] for r in _of(real, algorithm, ordered=0, fragments="two")]))
    return f"mean utility {two:.0%} on the IPUMS-like table, {one:.0%} on synthetic ones", two > one


def even_groups_win(rows: Rows, *, algorithm: str) -> Judged:
    """Three fragments: utility of q_0 … q_3 grows towards (3,4,4).

    A grouping that releases nothing has no utility to be compared; the others can still disagree.
    """
    own = [r for r in _of(rows, algorithm, fragments="three") if r["ordered"] > 0]
    words, means, empty = [], [], False
    for grouping in dict.fromkeys(r["grouping"] for r in own):
        each = [r for r in own if r["grouping"] == grouping]
        if each[0]["suppressed"] == 1:
            words.append(f"{grouping}: nothing released")
            empty = True
            continue
        means.append(float(np.mean([r["utility"] for r in each])))
        words.append(f"{grouping}: {means[-1]:.0%}")
    grows = all(a < b for a, b in itertools.pairwise(means))
    return f"mean utility {', '.join(words)}", None if grows and empty else grows


def lines_overlap(rows: Rows, *, algorithm: str, share: float) -> Judged:
    """The answers lie on the real ones over most of the range."""
    words, good = [], True
    for name in dict.fromkeys(r["fragments"] for r in rows):
        own = _of(rows, algorithm, fragments=name)
        near = sum(abs(r["with"] / r["real"] - 1) <= share for r in own)
        worst = max(abs(r["with"] / r["real"] - 1) for r in own)
        words.append(f"{name}: {near} of {len(own)} levels, worst {worst:.1%} off")
        good &= near > len(own) / 2
    return f"within {share:.0%}: {'; '.join(words)}", good
