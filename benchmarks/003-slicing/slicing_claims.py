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
TWO = 2
"""So few runs give no standard error worth the name: small differences are not told by them."""

EXISTING = ("generalisation", "bucketisation")
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


def _noise(*errors: float) -> float:
    return 2 * float(np.hypot(*errors))


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


def more_useful(rows: Rows, *, learned: str, grouping: str) -> Judged:
    """Models from slicing are better than from both existing methods, with all attributes."""
    own = pick(rows, over="attributes", learned=learned)
    most = max(r["attributes"] for r in own)
    mine = pick(own, method=f"slicing, {grouping}", attributes=most)[0]
    told, sides = [f"slicing {mine['accuracy']:.3f}"], []
    for existing in EXISTING:
        other = pick(own, method=existing, attributes=most)[0]
        ahead = mine["accuracy"] - other["accuracy"]
        room = _noise(mine["accuracy, error"], other["accuracy, error"])
        sides.append(None if abs(ahead) <= room else ahead > 0)
        told.append(f"{existing} {other['accuracy']:.3f} (noise {room:.3f})")
    held = False if False in sides else None if None in sides else True
    return f"{', '.join(told)}, {most} attributes", held if mine["runs"] > TWO else None


def loss_grows(rows: Rows, *, learned: str) -> Judged:
    """What generalisation loses against raw data is more with many attributes than with few."""
    losses = []
    for raw in sorted(
        pick(rows, over="attributes", learned=learned, method="raw data"),
        key=lambda r: r["attributes"],
    ):
        general = pick(rows, over="attributes", learned=learned, method="generalisation",
                       attributes=raw["attributes"])[0]  # fmt: skip
        error = float(np.hypot(raw["accuracy, error"], general["accuracy, error"]))
        losses.append((raw["attributes"], raw["accuracy"] - general["accuracy"], error))
    (few, first, first_error), (many, last, last_error) = losses[0], losses[-1]
    room = _noise(first_error, last_error)
    told = (
        f"{100 * first:.1f} points lost with {few} attributes, {100 * last:.1f} with {many} "
        f"(noise {100 * room:.1f})"
    )
    return told, None if abs(last - first) <= room else last > first


def breaks(rows: Rows) -> Judged:
    """Less of the sensitive attribute is learned from the others after bucketisation."""
    own = pick(rows, over="attributes", learned=LEARNED[0])
    most = max(r["attributes"] for r in own)
    raw, after = (pick(own, method=m, attributes=most)[0] for m in ("raw data", "bucketisation"))
    lost = raw["accuracy"] - after["accuracy"]
    room = _noise(raw["accuracy, error"], after["accuracy, error"])
    told = f"{after['accuracy']:.3f}, {raw['accuracy']:.3f} from raw data (noise {room:.3f})"
    return told, None if abs(lost) <= room else lost > 0


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
    found = pick(rows, method="bucketisation")[0]
    return f"advantage over guessing {_advantage(found)}", over(found, advantage)


def membership_hidden(rows: Rows, *, advantage: float, frequency: str, columns: str) -> Judged:
    """Slicing does not tell who is in the table."""
    found = pick(rows, method="slicing", frequency=frequency, columns=columns)[0]
    other = pick(rows, method="bucketisation")[0]
    more = over(found, advantage)
    return (
        f"advantage over guessing {_advantage(found)} with {columns}, {frequency}; bucketisation "
        f"{_advantage(other)}",
        None if more is None else not more,
    )


def frequency_hides(rows: Rows, *, columns: str) -> Judged:
    """Column generalisation makes members harder to tell, the more the higher its frequency."""
    own = pick(rows, method="slicing", columns=columns)
    line = [(r["least"], r["advantage"], r["advantage, error"])
            for r in sorted(own, key=lambda r: r["least"])]  # fmt: skip
    told = ", ".join(f"{value:.3f} ± {error:.3f} with {least}" for least, value, error in line)
    return f"{columns}; advantage {told} as the least frequency", trend(line, -1)


def smaller_buckets(rows: Rows, *, columns: str) -> Judged:
    """Column generalisation lets buckets be smaller for the same l."""
    own = pick(rows, method="slicing", columns=columns)
    line = [(r["least"], r["bucket size"], r["bucket size, error"])
            for r in sorted(own, key=lambda r: r["least"])]  # fmt: skip
    told = ", ".join(f"{size:.1f} ± {error:.1f} with {least}" for least, size, error in line)
    plain, *others = line
    held: bool | None = False
    for _, size, error in others:
        less, room = plain[1] - size, _noise(plain[2], error)
        held = True if less > room or held else None if less >= -room else held
    if own[0]["runs"] <= TWO:
        held = None
    return f"{columns}; records a bucket {told} as the least frequency", held


def over(row: dict[str, Any], advantage: float) -> bool | None:
    """Whether an advantage is above a number, or cannot be told from it.

    >>> [over({"advantage": x, "advantage, error": 0.01}, 0.1) for x in (0.2, 0.11, 0.05)]
    [True, None, False]
    """
    above = row["advantage"] - advantage
    return None if abs(above) <= 2 * row["advantage, error"] else above > 0


def _advantage(row: dict[str, Any]) -> str:
    return f"{row['advantage']:.3f} ± {row['advantage, error']:.3f}"


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
    Claim(id="F2-delay", figures=("2",), judge=no_packets),
    Claim(id="F2-rises", figures=("2",), judge=learns_more, switches=("learned", "grouping")),
    Claim(id="F2-gain", figures=("2",), judge=gain,
          switches=("learned", "grouping", "existing")),
    Claim(id="F3-falls", figures=("3",), judge=rate_falls, switches=("rate", "grouping")),
    Claim(id="S1-dimensions", figures=("2",), judge=loss_grows, switches=("learned",)),
    Claim(id="S1-correlation", figures=("2",), judge=breaks),
    Claim(id="S2-loss", figures=("2",), judge=loses, switches=("learned",)),
    Claim(id="S2-homogeneity", figures=("M",), judge=homogeneity),
    Claim(id="S3-membership", figures=("M",), judge=membership_open),
    Claim(id="S4-membership", figures=("M",), judge=membership_hidden,
          switches=("frequency", "columns")),
    Claim(id="S4-frequency", figures=("M",), judge=frequency_hides, switches=("columns",)),
    Claim(id="S4-buckets", figures=("M",), judge=smaller_buckets, switches=("columns",)),
    Claim(id="S4-diversity", figures=("M",), judge=diverse),
    Claim(id="S6-utility", figures=("2",), judge=more_useful, switches=("learned", "grouping")),
)  # fmt: skip
