"""How the claims of wang2020's section 5 are judged; their words and tolerances: expected.yaml.

Accuracies and tolerances are percentage points. A difference counts only beyond two standard
errors of the runs, unless a claim states a number, which must then be met within the tolerance.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from reproduction import Claim, Rows

Judged = tuple[str, bool | None]


def pick(rows: Rows, **wanted: Any) -> Rows:
    """The rows with these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def line_of(rows: Rows, data: str, protocol: str, tree: str) -> Rows:
    """A protocol's accuracies in the order of ε; as printed with the paper's l = 2."""
    own = pick(rows, data=data, tree=tree, line=protocol)
    if not own and protocol == "arbdistdp, Max":  # Max is what suits the table
        own = pick(rows, data=data, tree=tree, line="arbdistdp")
    return sorted((r for r in own if r["l"] in (None, 2)), key=lambda r: r["epsilon"])


def at(line: Rows, epsilon: float) -> dict[str, Any]:
    """The row of one ε."""
    return next(row for row in line if row["epsilon"] == epsilon)


def noise(*rows: dict[str, Any]) -> float:
    """Two standard errors of a difference."""
    return 2 * float(np.sqrt(sum(row["standard error"] ** 2 for row in rows)))


def words(row: dict[str, Any]) -> str:
    """An accuracy with its standard error."""
    return f"{row['accuracy']:.1f} ± {row['standard error']:.1f}"


def counted(rows: Rows, **numbers: dict[str, int]) -> Judged:
    """The datasets have the numbers of records, attributes and classes that the paper states."""
    told, good = [], True
    for data, expected in numbers.items():
        row = pick(rows, data=data)[0]
        wrong = [name for name, value in expected.items() if row.get(name) != value]
        good &= not wrong
        told.append(f"{data}: {row['records']} records, {row['attributes']} attributes"
                    + (f", other numbers of {', '.join(wrong)}" if wrong else ""))  # fmt: skip
    return "; ".join(told), good


def bounds(data: str) -> Any:
    """BA and LA as stated."""

    def judge(rows: Rows, *, BA: float, LA: float, points: float, tree: str) -> Judged:  # noqa: N803
        best, least = (pick(rows, data=data, tree=tree, line=x)[0] for x in ("BA", "LA"))
        near = max(abs(best["accuracy"] - BA), abs(least["accuracy"] - LA))
        return f"BA {words(best)}, LA {words(least)}", near <= points

    return judge


def rises(data: str) -> Any:
    """Accuracy grows with ε, for every l."""

    def judge(rows: Rows, *, protocol: str, tree: str) -> Judged:
        good = steps = 0
        gains = []
        own = pick(rows, data=data, tree=tree, line=protocol)
        own = own or line_of(rows, data, protocol, tree)
        for l in dict.fromkeys(r["l"] for r in own):  # noqa: E741 - the paper's name
            line = sorted(pick(own, l=l), key=lambda r: r["epsilon"])
            gains.append(line[-1]["accuracy"] - line[0]["accuracy"] - noise(line[0], line[-1]))
            for a, b in itertools.pairwise(line):
                steps += 1
                good += b["accuracy"] >= a["accuracy"] - noise(a, b)
        return (
            f"no fall in {good} of {steps} steps; from the least to the largest ε at least "
            f"{max(0.0, min(gains)):.1f} points more, noise taken off",
            good == steps and min(gains) > 0,
        )

    return judge


def stated(data: str, line: str | None = None) -> Any:
    """Accuracies that the text states, by ε; of ArbDistDP unless another line is named."""

    def judge(
        rows: Rows, *, accuracy: dict[float, float], points: float, tree: str,
        protocol: str | None = None,
    ) -> Judged:  # fmt: skip
        own = line_of(rows, data, line or str(protocol), tree)
        told, gaps = [], []
        for epsilon, paper in accuracy.items():
            row = at(own, epsilon)
            told.append(f"ε = {epsilon:g}: {words(row)} (paper {paper:g})")
            gaps.append(abs(row["accuracy"] - paper))
        return "; ".join(told), max(gaps) <= points

    return judge


def scaling(data: str) -> Any:
    """The digits kept change the accuracy little."""

    def judge(rows: Rows, *, span: float, tree: str) -> Judged:
        own = [r for r in pick(rows, data=data, tree=tree) if r["l"] is not None]
        largest, beyond = (0.0, 0.0), 0.0
        for epsilon in dict.fromkeys(r["epsilon"] for r in own):
            for a, b in itertools.combinations(pick(own, epsilon=epsilon), 2):
                gap = abs(a["accuracy"] - b["accuracy"])
                largest = max(largest, (gap, epsilon))
                beyond = max(beyond, gap - noise(a, b))
        told = (
            f"largest span {largest[0]:.1f} points, at ε = {largest[1]:g}; {beyond:.1f} beyond the "
            "noise of the runs"
        )
        # A larger span that noise may explain tells nothing about the digits.
        return told, False if beyond > span else True if largest[0] <= span else None

    return judge


def not_below(data: str, other: str) -> Any:
    """ArbDistDP is nowhere further below another algorithm than the paper's largest difference."""

    def judge(rows: Rows, *, points: float, protocol: str, tree: str) -> Judged:
        mine, theirs = (line_of(rows, data, name, tree) for name in (protocol, other))
        gaps = [(b["accuracy"] - a["accuracy"], noise(a, b), a["epsilon"])
                for a, b in zip(mine, theirs, strict=True)]  # fmt: skip
        worst = max(gaps)
        told = f"{worst[0]:.1f} points below {other} at ε = {worst[2]:g}, the most"
        if worst[0] <= 0:
            told = f"nowhere below {other}, nearest by {-worst[0]:.1f} points at ε = {worst[2]:g}"
        held = max(gap - room for gap, room, _ in gaps) <= points
        return f"{told} (noise of the runs {worst[1]:.1f})", held

    return judge


def gap_remains(rows: Rows, *, protocol: str, tree: str) -> Judged:
    """ArbDistDP stays below BA for every ε on both tables."""
    gaps = []
    for data in ("adult", "nursery"):
        best = pick(rows, data=data, tree=tree, line="BA")[0]
        gaps += [(best["accuracy"] - r["accuracy"], noise(best, r), data, r["epsilon"])
                 for r in line_of(rows, data, protocol, tree)]  # fmt: skip
    least = min(gaps)
    return (
        f"at least {least[0]:.1f} points ({least[2]}, ε = {least[3]:g})",
        min(gap - room for gap, room, _, _ in gaps) > 0,
    )


def adult_slower(rows: Rows, *, times: float, timed: str) -> Judged:
    """Adult takes much longer than Nursery."""
    told = []
    for n in dict.fromkeys(r["records"] for r in pick(rows, line=timed)):
        a, b = (pick(rows, line=timed, data=d, records=n)[0]["seconds"] for d in
                ("adult", "nursery"))  # fmt: skip
        told.append((n, a / b))
    shown = ", ".join(f"{ratio:.1f} times as long for {n:,} records" for n, ratio in told)
    return f"{timed}: {shown}", told[-1][1] >= times


def diffgen_faster(rows: Rows, *, times: float) -> Judged:
    """DiffGen needs less time than ArbDistDP, without any cryptography and with it."""
    found: dict[str, list[float]] = {}
    for r in rows:
        if r["line"] != "DiffGen":
            base = pick(rows, data=r["data"], records=r["records"], line="DiffGen")[0]
            found.setdefault(r["line"], []).append(r["seconds"] / base["seconds"])
    told = ", ".join(f"{name}: {min(x):.0f} to {max(x):.0f}" for name, x in found.items())
    return f"times DiffGen's seconds: {told}", min(min(x) for x in found.values()) >= times


def exchange(rows: Rows, *, share: float) -> Judged:
    """Most of ArbDistDP's time goes into exchange; needs secure computation."""
    own = pick(rows, line="arbdistdp, secure")
    if not own:
        return "secure computation was not run", None
    shares = [r["exchange"] / r["seconds"] for r in own]
    return f"{min(shares):.0%} to {max(shares):.0%} in joint steps", min(shares) > share


_BOTH = ("protocol", "tree")


def _claims(data: str) -> list[Claim]:
    part = {"adult": "a", "nursery": "b"}[data]
    seven, eight = f"F7{part}", f"F8{part}"
    return [
        Claim(id=f"{seven}-bounds", figures=("7",), judge=bounds(data), switches=("tree",)),
        Claim(id=f"{seven}-rises", figures=("7",), judge=rises(data), switches=_BOTH),
        Claim(id=f"{seven}-least", figures=("7",), judge=stated(data), switches=_BOTH),
        Claim(id=f"{seven}-largest", figures=("7",), judge=stated(data), switches=_BOTH),
        Claim(id=f"{seven}-scaling", figures=("7",), judge=scaling(data), switches=("tree",)),
        Claim(id=f"{eight}-diffgen", figures=("8",), judge=stated(data, "DiffGen"),
              switches=("tree",)),
        Claim(id=f"{eight}-c45", figures=("8",), judge=stated(data, "DiffP-C4.5"),
              switches=("tree",)),
        Claim(id=f"{eight}-arbdistdp", figures=("8",), judge=stated(data), switches=_BOTH),
        Claim(id=f"{eight}-below-diffgen", figures=("8",), judge=not_below(data, "DiffGen"),
              switches=_BOTH),
        Claim(id=f"{eight}-below-c45", figures=("8",), judge=not_below(data, "DiffP-C4.5"),
              switches=_BOTH),
    ]  # fmt: skip


CLAIMS = (
    Claim(id="T4-counts", figures=("T4",), judge=counted),
    *_claims("adult"),
    *_claims("nursery"),
    Claim(id="F8-gap", figures=("8",), judge=gap_remains, switches=_BOTH),
    Claim(id="F9-diffgen", figures=("9",), judge=diffgen_faster),
    Claim(id="F9-exchange", figures=("9",), judge=exchange),
    Claim(id="F9-adult", figures=("9",), judge=adult_slower, switches=("timed",)),
)
