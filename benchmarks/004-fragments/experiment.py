"""De Capitani di Vimercati et al.: loose associations (Figures 7 and 10 to 15).

Runs and settings are in ``loose``, the paper's worked example in ``worked``, how claims are judged
in ``loose_claims``, claims and tolerances in ``expected.yaml``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import loose_claims as claims
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
           "are ours but q0; two.yaml and three.yaml list all but the last two of two fragments."),
    Figure(number="15", title="IPUMS-like: average wage by education", compute=figure_15,
           draw=_draw_15),
)  # fmt: skip


def _claim(name: str, figures: str, judge: Any, *switches: str) -> Claim:
    return Claim(id=name, figures=tuple(figures.split()), judge=judge, switches=switches)


CLAIMS = (
    _claim("F7-answers", "7", claims.printed),
    _claim("F7-kinds", "7", claims.three_kinds),
    _claim("F10-size", "10", claims.small_tables_suppress, "algorithm", "variability"),
    _claim(
        "F10-k",
        "10",
        claims.changes("suppressed", "k", "rows", 1, ".2% of the tuples"),
        "algorithm",
        "variability",
    ),
    _claim(
        "F10-gamma",
        "10",
        claims.changes("suppressed", "gamma", "k", -1, ".4% of the tuples"),
        "algorithm",
    ),
    _claim("F10-ipums", "14", claims.nothing_suppressed, "algorithm"),
    _claim("F11-minute", "11", claims.seconds_for, "algorithm"),
    _claim("F11-second", "11", claims.seconds_for, "algorithm"),
    _claim("F11-scales", "11", claims.scales, "algorithm"),
    _claim("F11-gamma", "11", claims.changes("seconds", "gamma", "k", -1, ".3f s"), "algorithm"),
    _claim("F11-k", "11", claims.changes("seconds", "k", "gamma", 1, ".3f s"), "algorithm"),
    _claim("F11-ipums", "14", claims.real_within, "algorithm"),
    _claim("F12-high", "12", claims.nearly_all, "algorithm"),
    _claim("F12-always", "12", claims.always_high, "algorithm"),
    _claim("F12-size", "12", claims.utility_by("tuples", "rows", "k", 1), "algorithm"),
    _claim("F12-gamma", "12", claims.utility_by("gamma", "gamma", "k", 1), "algorithm"),
    _claim("F12-k", "12", claims.utility_by("gamma", "k", "gamma", -1), "algorithm"),
    _claim("F12-worst", "12", claims.worst_case, "algorithm"),
    _claim("F13-both", "13", claims.one_is_best, "algorithm"),
    _claim("F13-one", "13", claims.queries_with(1), "algorithm"),
    _claim("F13-none", "13", claims.not_null, "algorithm"),
    _claim("F14-both", "14", claims.queries_with(2), "algorithm"),
    _claim("F14-one", "14", claims.queries_with(1), "algorithm"),
    _claim("F14-like", "14", claims.like_both, "algorithm"),
    _claim("F14-none", "14", claims.between, "algorithm"),
    _claim("F14-real", "13 14", claims.real_beats_synthetic, "algorithm"),
    _claim("F14-stable", "13 14", claims.stable, "algorithm"),
    _claim("F14-middle", "13 14", claims.middle_not_least, "algorithm"),
    _claim("F14-even", "14", claims.even_groups_win, "algorithm"),
    _claim("F15-overlap", "15", claims.lines_overlap, "algorithm"),
    _claim("S5-none", "13 14", claims.always_positive, "algorithm"),
    _claim("S5-one", "13 14", claims.typical(1), "algorithm"),
    _claim("S5-both", "13 14", claims.typical(2), "algorithm"),
)
