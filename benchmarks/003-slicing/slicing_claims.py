"""How the claims of arul2019 are judged; their words and tolerances are in expected.yaml."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from reproduction import Claim, Rows

Judged = tuple[str, bool | None]
SIZES = (
    "attributes of the largest column",
    "attributes a column",
    "values of the largest column",
    "values a column",
)
LEARNED = ("occupation", "salary, masked like the others", "salary, released as it is")


def pick(rows: Rows, **wanted: Any) -> Rows:
    """The rows with these values."""
    return [r for r in rows if all(r.get(key) == value for key, value in wanted.items())]


def line_of(rows: Rows, along: str, name: str, **wanted: Any) -> list[tuple[float, float, float]]:
    """A line's places, means and standard errors, in order."""
    own = sorted(pick(rows, **wanted), key=lambda r: r[along])
    return [(r[along], r[name], r[f"{name}, error"]) for r in own]


def trend(line: list[tuple[float, float, float]], sign: int, slack: float = 0.0) -> bool:
    """Whether a line rises (1) or falls (−1): no step back beyond noise and slack, and a change.

    >>> trend([(1, 2.0, 0.1), (2, 3.0, 0.1), (3, 2.9, 0.1)], 1)
    True
    >>> trend([(1, 2.0, 0.0), (2, 1.0, 0.0)], 1)
    False
    """
    for (_, a, a_error), (_, b, b_error) in itertools.pairwise(line):
        if sign * (b - a) < -2 * float(np.hypot(a_error, b_error)) - slack * abs(a):
            return False
    (_, first, first_error), (_, last, last_error) = line[0], line[-1]
    return sign * (last - first) > 2 * float(np.hypot(first_error, last_error)) + slack * abs(first)


def _from_to(line: list[tuple[float, float, float]]) -> str:
    return f"{line[0][1]:.3g} to {line[-1][1]:.3g}"


def columns_grow(rows: Rows, *, size: str, existing: str) -> Judged:
    """Columns grow with the number of attributes, ours and the existing."""
    methods = {"slicing": "slicing, as printed", existing: existing}
    lines = {name: line_of(rows, "attributes", size, method=m) for name, m in methods.items()}
    ends = lines["slicing"]
    told = "; ".join(f"{name}: {_from_to(line)}" for name, line in lines.items())
    return (
        f"{size}, from {ends[0][0]} to {ends[-1][0]} attributes: {told}",
        all(trend(line, 1) for line in lines.values()),
    )


def no_packets(rows: Rows) -> Judged:
    """There are no packets in this work, nor a delay."""
    del rows
    return "there are no packets in data publishing, and no delay is defined", None


def learns_more(rows: Rows, *, slack: float, learned: str, grouping: str) -> Judged:
    """Accuracy rises with the number of attributes."""
    mine, raw = (
        line_of(rows, "attributes", "accuracy", over="attributes", learned=learned, method=method)
        for method in (f"slicing, {grouping}", "raw data")
    )
    return (
        f"{_from_to(mine)} from {mine[0][0]} to {mine[-1][0]} attributes (raw data "
        f"{_from_to(raw)})",
        trend(mine, 1, slack),
    )


def gain(
    rows: Rows, *, least: float, most: float, learned: str, grouping: str, existing: str
) -> Judged:
    """How much more accurate models from slicing are than from an existing method, in per cent."""
    own = pick(rows, over="attributes", learned=learned)
    gains = []
    for mine in pick(own, method=f"slicing, {grouping}"):
        other = pick(own, method=existing, attributes=mine["attributes"])[0]
        gains.append((mine["attributes"], 100 * (mine["accuracy"] / other["accuracy"] - 1)))
    told = ", ".join(f"{value:+.0f} % with {n} attributes" for n, value in gains)
    middle = float(np.median([value for _, value in gains]))
    return f"{told}; median {middle:+.0f} %", least <= middle <= most


def rate_falls(rows: Rows, *, slack: float, rate: str, grouping: str) -> Judged:
    """The tuple partition rate falls as tuples are added."""
    told, good = [], True
    for l in dict.fromkeys(r["l"] for r in rows):  # noqa: E741 - the field's name
        line = line_of(rows, "tuples", rate, method=f"slicing, {grouping}", l=l)
        good &= trend(line, -1, slack)
        told.append(f"l = {l}: {_from_to(line)}")
    return f"{rate}, from {line[0][0]:,} to {line[-1][0]:,} tuples, {'; '.join(told)}", good


def loses(rows: Rows, *, points: float, learned: str) -> Judged:
    """Generalisation loses much of what can be learned from all attributes."""
    raw, general = (
        line_of(rows, "attributes", "accuracy", over="attributes", learned=learned, method=method)
        [-1][1]
        for method in ("raw data", "generalisation")
    )  # fmt: skip
    return (
        f"{100 * general:.1f} % after generalisation, {100 * raw:.1f} % from raw data",
        100 * (raw - general) >= points,
    )


def membership_open(rows: Rows, *, advantage: float) -> Judged:
    """Bucketisation tells who is in the table."""
    found = pick(rows, method="bucketisation")[0]["advantage"]
    return f"advantage over guessing {found:.2f}", found >= advantage


def membership_hidden(rows: Rows, *, advantage: float, frequency: str, columns: str) -> Judged:
    """Slicing does not tell who is in the table."""
    found = pick(rows, method="slicing", frequency=frequency, columns=columns)[0]["advantage"]
    return (
        f"advantage over guessing {found:.3f} with {columns}, {frequency}",
        found <= advantage,
    )


def diverse(rows: Rows) -> Judged:
    """No sliced table lets anybody believe in a sensitive value with more than 1/l."""
    own = pick(rows, method="slicing")
    failed = sum(r["failed checks"] * r["runs"] for r in own)
    return (
        f"{failed:.0f} failed checks of {sum(r['runs'] for r in own)} verified releases, l = 3",
        failed == 0,
    )


def homogeneity(rows: Rows, *, share: float) -> Judged:
    """k-anonymous classes in which all share a sensitive value."""
    found = pick(rows, method="k-anonymity")[0]["homogeneous"]
    return f"{found:.1%} of the records are in a class with one occupation only", found >= share


CLAIMS = (
    Claim(id="F1-grows", figures=("1",), judge=columns_grow, switches=("size", "existing")),
    Claim(id="F1-delay", figures=("1",), judge=no_packets),
    Claim(id="F2-rises", figures=("2",), judge=learns_more, switches=("learned", "grouping")),
    Claim(id="F2-gain", figures=("2",), judge=gain,
          switches=("learned", "grouping", "existing")),
    Claim(id="F3-falls", figures=("3",), judge=rate_falls, switches=("rate", "grouping")),
    Claim(id="S2-loss", figures=("2",), judge=loses, switches=("learned",)),
    Claim(id="S2-homogeneity", figures=("M",), judge=homogeneity),
    Claim(id="S3-membership", figures=("M",), judge=membership_open),
    Claim(id="S4-membership", figures=("M",), judge=membership_hidden,
          switches=("frequency", "columns")),
    Claim(id="S4-diversity", figures=("M",), judge=diverse),
)  # fmt: skip
