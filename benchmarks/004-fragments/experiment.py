"""De Capitani di Vimercati et al.: loose associations (Figures 7 and 10 to 15).

Runs and settings are in ``loose``, the paper's worked example in ``worked``, claims and tolerances
in ``expected.yaml``.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from loose import OURS, PUBLISHED, figure_13, figure_14, figure_15, sweep
from plots import bars, curves
from reproduction import Claim, Figure, Rows
from worked import figure_7

TITLE = "Loose associations to increase utility in data publishing"
ABOUT = (
    "De Capitani di Vimercati, Foresti, Jajodia, Livraga, Paraboschi and Samarati, Journal of "
    "Computer Security 23 (2015). Tuples left out, time, and utility of queries over fragments "
    "complemented by k-loose associations."
)
READINGS = {"algorithm": (PUBLISHED, OURS), "variability": ("γ = 8", "γ = 4")}
READINGS_ABOUT = {
    "algorithm": "The published pseudocode has slips and cannot be run as printed; it is run with "
    "them mended, beside our own placement.",
    "variability": "How γ makes the synthetic values is not said; claims on the number of tuples "
    "are judged at the paper's base value and at its least.",
}
Judged = tuple[str, bool | None]


def _drawn(of: str, label: str, *, log: bool, percent: bool = False) -> Any:
    """Both parts of a figure: over the number of tuples, and over γ."""

    def draw(rows: Rows) -> Any:
        shown = []
        for r in sorted(rows, key=lambda r: (r["part"] == "gamma", -r["gamma"], r["k"])):
            tuples = r["part"] == "tuples"
            panel = f"{r['algorithm']}; " + (f"γ = {r['gamma']}" if tuples else "10,000 tuples")
            shown.append(
                {"panel": panel, "line": f"k = {r['k']}", "tuples": tuples,
                 "x": r["rows"] if tuples else r["gamma"], "y": r[of] * (100 if percent else 1)}
            )  # fmt: skip
        names = {r["panel"]: "tuples" if r["tuples"] else "γ" for r in shown}
        wide = frozenset(name for name, axis in names.items() if axis == "tuples")
        return curves(
            shown, "x", "y", "line", "panel", log=log, label=label, x_labels=names, log_x=wide,
            across=2,
        )  # fmt: skip

    return draw


def _draw_7(rows: Rows) -> Any:
    shown = [
        {"panel": f"{r['query']}: AVG({r['of']}) by {r['by']}", "group": r["value"],
         "bar": bar, "height": r[key]}
        for r in rows
        for key, bar in (("real", "real"), ("with", "with the association"), ("without", "without"))
    ]  # fmt: skip
    return bars(shown, "average")


def _draw_utility(rows: Rows) -> Any:
    shown = [
        {"panel": r["algorithm"] + (f"; {r['fragments']} fragments" if "fragments" in r else ""),
         "group": r["query"], "bar": r["grouping"], "height": 100 * r["utility"]}
        for r in rows
    ]  # fmt: skip
    return bars(shown, "utility, %", across=2, percent=True)


def _draw_15(rows: Rows) -> Any:
    shown = [
        {"panel": f"{r['fragments']}; {r['algorithm']}", "line": line, "x": r["level"],
         "y": r[key]}
        for r in rows
        for key, line in (("real", "real"), ("without", "without loose associations"),
                          ("with", "with loose associations (ordered)"))
    ]  # fmt: skip
    names = {r["panel"]: "level of education" for r in shown}
    return curves(shown, "x", "y", "line", "panel", log=False, label="average weekly earnings",
                  x_labels=names, across=2)  # fmt: skip


FIGURES = (
    Figure(number="7", title="Three queries over eight patients", draw=_draw_7,
           compute=lambda _setting: figure_7()),
    Figure(number="10", title="Tuples that are not released", compute=sweep,
           draw=_drawn("suppressed", "tuples left out, %", log=False, percent=True)),
    Figure(number="11", title="Time to compute an association", compute=sweep, same_runs="10",
           draw=_drawn("seconds", "processor seconds", log=True),
           readings="Compiled code; the paper's prototype was written in Python."),
    Figure(number="12", title="Utility of AVG(Salary) by Education", compute=sweep,
           same_runs="10", draw=_drawn("utility", "utility, %", log=False, percent=True)),
    Figure(number="13", title="Synthetic: utility of seven queries, k = 12", compute=figure_13,
           draw=_draw_utility,
           readings="q0: both attributes ordered; q1 to q3: one; q4 to q6: none."),
    Figure(number="14", title="IPUMS-like: utility of queries, k = 12", compute=figure_14,
           draw=_draw_utility,
           readings="q0: both attributes ordered; q1 to q3: one; the others: none. The queries "
           "are ours but q0; two.yaml and three.yaml list them."),
    Figure(number="15", title="IPUMS-like: average wage by education", compute=figure_15,
           draw=_draw_15),
)  # fmt: skip


def _of(rows: Rows, algorithm: str, /, **wanted: Any) -> Rows:
    return [
        r for r in rows if r["algorithm"] == algorithm and all(r[k] == v for k, v in wanted.items())
    ]


def printed(rows: Rows, *, rounding: float) -> Judged:
    """Figure 7(a) cell by cell."""
    off = [r for r in rows if abs(r["with"] - r["printed"]) > rounding]
    worst = max(rows, key=lambda r: abs(r["with"] - r["printed"]))
    return (
        f"{len(rows) - len(off)} of {len(rows)} cells as printed; the largest difference is "
        f"{worst['with']:g} for {worst['printed']:g}",
        not off,
    )


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


def suppression_grows_with_k(rows: Rows, *, algorithm: str, variability: str) -> Judged:
    """More is left out for larger k."""
    own = _by_tuples(rows, algorithm, variability)
    change, error = _trend(own, "k", "rows", "suppressed")
    words = f"from k = 4 to 20 by {change:+.2%} of the tuples on average (± {2 * error:.2%})"
    return words, _sign(change, error, 1)


def suppression_falls_with_gamma(rows: Rows, *, algorithm: str) -> Judged:
    """More is left out where values vary little."""
    own = _of(rows, algorithm, part="gamma")
    change, error = _trend(own, "gamma", "k", "suppressed")
    words = f"from γ = 4 to 12 by {change:+.4%} of the tuples on average (± {2 * error:.4%})"
    return words, _sign(change, error, -1)


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


def time_falls_with_gamma(rows: Rows, *, algorithm: str) -> Judged:
    """Low variability costs time."""
    own = _of(rows, algorithm, part="gamma")
    change, error = _trend(own, "gamma", "k", "seconds")
    words = f"from γ = 4 to 12 by {change:+.3f} s on average (± {2 * error:.3f} s)"
    return words, _sign(change, error, -1)


def time_grows_with_k(rows: Rows, *, algorithm: str) -> Judged:
    """Larger k costs time."""
    own = _of(rows, algorithm, part="gamma")
    change, error = _trend(own, "k", "gamma", "seconds")
    words = f"from k = 4 to 20 by {change:+.3f} s on average (± {2 * error:.3f} s)"
    return words, _sign(change, error, 1)


def real_within(rows: Rows, *, algorithm: str, seconds: float) -> Judged:
    """Every association of the real table within a time."""
    most = max(r["seconds"] for r in _of(rows, algorithm))
    return f"at most {most:.1f} s of processor time", most < seconds


def nearly_all(rows: Rows, *, algorithm: str, utility: float) -> Judged:
    """Utility is nearly 100 % in most configurations."""
    own = [r["utility"] for r in _of(rows, algorithm) if r["gamma"] == 8 or r["part"] == "gamma"]
    good = sum(u >= utility for u in own)
    words = f"at least {utility:.0%} in {good} of {len(own)} configurations, median"
    return f"{words} {np.median(own):.1%}", good > len(own) / 2


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
        return words, None if abs(above) <= error else above > 0

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
    best = [r["utility"] for r in _of(rows, algorithm, ordered=2)]
    others = [r["utility"] for r in _of(rows, algorithm) if r["ordered"] < 2]
    words = f"{min(best):.1%} to {max(best):.1%}; the best other query {max(others):.0%}"
    return words, min(best) >= utility and min(best) > max(others)


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
    """Three fragments: utility of q_0 … q_3 grows towards (3,4,4)."""
    own = [r for r in _of(rows, algorithm, fragments="three") if r["ordered"] > 0]
    groupings = list(dict.fromkeys(r["grouping"] for r in own))
    means = [float(np.mean([r["utility"] for r in own if r["grouping"] == g])) for g in groupings]
    words = ", ".join(f"{g}: {m:.0%}" for g, m in zip(groupings, means, strict=True))
    return f"mean utility {words}", all(a < b for a, b in itertools.pairwise(means))


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


ALGORITHM, BOTH = ("algorithm",), ("algorithm", "variability")
CLAIMS = (
    Claim(id="F7-answers", figures=("7",), judge=printed),
    Claim(id="F7-kinds", figures=("7",), judge=three_kinds),
    Claim(id="F10-size", figures=("10",), judge=small_tables_suppress, switches=BOTH),
    Claim(id="F10-k", figures=("10",), judge=suppression_grows_with_k, switches=BOTH),
    Claim(id="F10-gamma", figures=("10",), judge=suppression_falls_with_gamma, switches=ALGORITHM),
    Claim(id="F10-ipums", figures=("14",), judge=nothing_suppressed, switches=ALGORITHM),
    Claim(id="F11-minute", figures=("11",), judge=seconds_for, switches=ALGORITHM),
    Claim(id="F11-second", figures=("11",), judge=seconds_for, switches=ALGORITHM),
    Claim(id="F11-scales", figures=("11",), judge=scales, switches=ALGORITHM),
    Claim(id="F11-gamma", figures=("11",), judge=time_falls_with_gamma, switches=ALGORITHM),
    Claim(id="F11-k", figures=("11",), judge=time_grows_with_k, switches=ALGORITHM),
    Claim(id="F11-ipums", figures=("14",), judge=real_within, switches=ALGORITHM),
    Claim(id="F12-high", figures=("12",), judge=nearly_all, switches=ALGORITHM),
    Claim(id="F12-size", figures=("12",), judge=utility_by("tuples", "rows", "k", 1),
          switches=ALGORITHM),
    Claim(id="F12-gamma", figures=("12",), judge=utility_by("gamma", "gamma", "k", 1),
          switches=ALGORITHM),
    Claim(id="F12-k", figures=("12",), judge=utility_by("gamma", "k", "gamma", -1),
          switches=ALGORITHM),
    Claim(id="F12-worst", figures=("12",), judge=worst_case, switches=ALGORITHM),
    Claim(id="F13-both", figures=("13",), judge=one_is_best, switches=ALGORITHM),
    Claim(id="F13-one", figures=("13",), judge=queries_with(1), switches=ALGORITHM),
    Claim(id="F13-none", figures=("13",), judge=not_null, switches=ALGORITHM),
    Claim(id="F14-both", figures=("14",), judge=queries_with(2), switches=ALGORITHM),
    Claim(id="F14-one", figures=("14",), judge=queries_with(1), switches=ALGORITHM),
    Claim(id="F14-none", figures=("14",), judge=between, switches=ALGORITHM),
    Claim(id="F14-real", figures=("13", "14"), judge=real_beats_synthetic, switches=ALGORITHM),
    Claim(id="F14-even", figures=("14",), judge=even_groups_win, switches=ALGORITHM),
    Claim(id="F15-overlap", figures=("15",), judge=lines_overlap, switches=ALGORITHM),
)  # fmt: skip
