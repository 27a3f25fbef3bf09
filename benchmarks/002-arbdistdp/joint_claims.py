"""How the claims of wang2020's section 5 are judged; their words and tolerances: expected.yaml.

Accuracies and tolerances are percentage points. A difference counts only beyond the ``noise`` of
the runs. A number that the paper states is met within the tolerance, missed if it is further off
than the tolerance and the noise, and cannot be told between (see ``met``).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from reproduction import Claim, Rows
from scipy.stats import t

Judged = tuple[str, bool | None]
SECURE = "arbdistdp, secure"
CHOICES = "places of choices"
"""What the secure computation opens while it specialises; all else comes before or after."""


def pick(rows: Rows, **wanted: Any) -> Rows:
    """The rows with these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def line_of(rows: Rows, data: str, protocol: str, tree: str) -> Rows:
    """A protocol's accuracies in the order of ε; as printed with the paper's l = 2."""
    own = pick(rows, data=data, tree=tree, line=protocol)
    if not own:  # Max is what suits the table: measured once for both readings
        own = pick(rows, data=data, tree=tree, line=protocol.split(",", 1)[0])
    return sorted((r for r in own if r["l"] in (None, 2)), key=lambda r: r["epsilon"])


def at(line: Rows, epsilon: float) -> dict[str, Any]:
    """The row of one ε."""
    return next(row for row in line if row["epsilon"] == epsilon)


def noise(*rows: dict[str, Any]) -> float:
    """Half the 95 % interval of a difference: about two standard errors, more for few runs."""
    times = t.ppf(0.975, min(row["runs"] for row in rows) - 1)
    return float(times * np.sqrt(sum(row["standard error"] ** 2 for row in rows)))


def words(row: dict[str, Any]) -> str:
    """An accuracy with its standard error."""
    return f"{row['accuracy']:.1f} ± {row['standard error']:.1f}"


def of_five(row: dict[str, Any]) -> float:
    """The standard error that a mean of the paper's five runs has, by the spread of ours."""
    return float(row["standard error"] * np.sqrt(row["runs"] / 5))


def met(gaps: list[tuple[float, float]], points: float) -> bool | None:
    """Whether differences, each with its noise, keep within a tolerance.

    Where the noise is more than half the tolerance, other random numbers may turn a miss round;
    then only one by more than twice the tolerance counts.

    >>> met([(1.0, 0.2)], 1.5), met([(1.6, 0.2)], 1.5), met([(1.8, 0.2)], 1.5)
    (True, None, False)
    >>> met([(3.0, 1.0)], 1.5), met([(5.0, 1.0)], 1.5)
    (None, False)
    """
    fine = all(room <= points / 2 for _, room in gaps)
    if any(gap - room > (points if fine else 2 * points) for gap, room in gaps):
        return False
    return True if all(gap <= points for gap, _ in gaps) else None


def single(other: str, diffgen: str) -> str:
    """The line of an algorithm for one party, DiffGen by the utility that is read."""
    return "DiffGen, gain" if (other, diffgen) == ("DiffGen", "suited") else other


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
    """Accuracies that the text states, by ε; of ArbDistDP unless another line is named.

    With ``above_LA`` they must also be above LA by more than the noise: what the paper calls the
    benefit, and all that tells a release from guessing where LA is near.
    """

    def judge(
        rows: Rows, *, accuracy: dict[float, float], points: float, tree: str,
        above_LA: bool = False, protocol: str | None = None, diffgen: str = "Max",  # noqa: N803
    ) -> Judged:  # fmt: skip
        own = line_of(rows, data, single(line or str(protocol), diffgen), tree)
        told, gaps, useless = [], [], False
        for epsilon, paper in accuracy.items():
            row = at(own, epsilon)
            said = f"ε = {epsilon:g}: {words(row)} (paper {paper:g}; five runs ± {of_five(row):.1f}"
            if above_LA:
                least = pick(rows, data=data, tree=tree, line="LA")[0]
                benefit = row["accuracy"] - least["accuracy"]
                useless |= benefit <= noise(row, least)
                said += f"; {benefit:.1f} above LA, noise {noise(row, least):.1f}"
            told.append(f"{said})")
            gaps.append((abs(row["accuracy"] - paper), noise(row)))
        return "; ".join(told), False if useless else met(gaps, points)

    return judge


def cost(data: str) -> Any:
    """BA − CA falls and CA − LA rises from the least ε to the largest, to what the text states."""

    def judge(
        rows: Rows, *, cost: float, benefit: float, points: float, protocol: str, tree: str
    ) -> Judged:
        line = line_of(rows, data, protocol, tree)
        first, last = line[0], line[-1]
        best, least = (pick(rows, data=data, tree=tree, line=x)[0] for x in ("BA", "LA"))
        found = best["accuracy"] - last["accuracy"], last["accuracy"] - least["accuracy"]
        room = max(noise(best, last), noise(last, least))
        grown = last["accuracy"] - first["accuracy"] > noise(first, last)
        told = (
            f"cost {best['accuracy'] - first['accuracy']:.1f} to {found[0]:.1f} (paper {cost:g}), "
            f"benefit {first['accuracy'] - least['accuracy']:.1f} to {found[1]:.1f} "
            f"(paper {benefit:g}), noise {room:.1f}"
        )
        gaps = [(abs(ours - said), room) for ours, said in zip(found, (cost, benefit), strict=True)]
        return told, met(gaps, points) if grown else False

    return judge


def spans(rows: Rows, data: str, tree: str) -> list[tuple[float, float, float]]:
    """The span of the accuracy over l for every ε, the noise of its noisiest pair, and ε."""
    own = [r for r in pick(rows, data=data, tree=tree) if r["l"] is not None]
    found = []
    for epsilon in sorted({r["epsilon"] for r in own}):
        here = pick(own, epsilon=epsilon)
        values = [r["accuracy"] for r in here]
        noisiest = sorted(here, key=lambda r: r["standard error"])[-2:]
        found.append((max(values) - min(values), noise(*noisiest), epsilon))
    return found


def scaling(data: str) -> Any:
    """The digits kept change the accuracy little."""

    def judge(rows: Rows, *, span: float, tree: str) -> Judged:
        found = spans(rows, data, tree)
        largest, loudest = max(found), max(room for _, room, _ in found)
        told = (
            f"largest span {largest[0]:.1f} points, at ε = {largest[2]:g}; noise of the runs up to "
            f"{loudest:.1f}"
        )
        held = met([(gap, room) for gap, room, _ in found], span)
        # Runs that differ by more than the span by chance tell nothing about the digits.
        return told, None if held and loudest > span else held

    return judge


def placed(gaps: list[tuple[float, float, float]], epsilon: float) -> bool | None:
    """Whether the largest of some differences (each with its noise) is that of one ε.

    >>> placed([(1.0, 0.1, 0.1), (3.0, 0.1, 0.75)], 0.75), placed([(1.0, 0.1, 0.1)], 0.1)
    (True, True)
    >>> placed([(3.0, 0.1, 0.1), (1.0, 0.1, 0.75)], 0.75)
    False
    >>> placed([(2.9, 0.5, 0.1), (3.0, 0.5, 0.75)], 0.75) is None
    True
    """
    gap, room, _ = next(one for one in gaps if one[2] == epsilon)
    others = [(other - gap, float(np.hypot(noisy, room)))
              for other, noisy, place in gaps if place != epsilon]  # fmt: skip
    if any(more > noisy for more, noisy in others):
        return False
    return True if gap > room and all(-more > noisy for more, noisy in others) else None


def _places(gaps: list[tuple[float, float, float]], epsilon: float) -> str:
    largest = max(gaps)
    here = next(one for one in gaps if one[2] == epsilon)
    return (
        f"largest at ε = {largest[2]:g}, {largest[0]:.1f} points (noise {largest[1]:.1f}); at "
        f"ε = {epsilon:g} {here[0]:.1f} (noise {here[1]:.1f})"
    )


def span_at(data: str) -> Any:
    """The ε at which the digits kept make the largest difference."""

    def judge(rows: Rows, *, epsilon: float, tree: str) -> Judged:
        found = spans(rows, data, tree)
        return _places(found, epsilon), placed(found, epsilon)

    return judge


def behind(
    rows: Rows, data: str, other: str, protocol: str, tree: str
) -> list[tuple[float, float, float]]:
    """How far ArbDistDP is below another algorithm for every ε, with the noise, and ε."""
    mine, theirs = (line_of(rows, data, name, tree) for name in (protocol, other))
    return [(b["accuracy"] - a["accuracy"], noise(a, b), a["epsilon"])
            for a, b in zip(mine, theirs, strict=True)]  # fmt: skip


def _furthest(gaps: list[tuple[float, float, float]], other: str) -> str:
    gap, room, epsilon = max(gaps)
    told = f"{gap:.1f} points below {other} at ε = {epsilon:g}, the most"
    if gap <= 0:
        told = f"nowhere below {other}, nearest by {-gap:.1f} points at ε = {epsilon:g}"
    return f"{told} (noise of the runs {room:.1f})"


def not_below(data: str, other: str) -> Any:
    """ArbDistDP is nowhere further below another algorithm than the paper's largest difference."""

    def judge(
        rows: Rows, *, points: float, protocol: str, tree: str, diffgen: str = "Max"
    ) -> Judged:
        gaps = behind(rows, data, single(other, diffgen), protocol, tree)
        return _furthest(gaps, other), met([(gap, room) for gap, room, _ in gaps], points)

    return judge


def furthest_at(data: str, other: str) -> Any:
    """The ε at which ArbDistDP is furthest below another algorithm."""

    def judge(
        rows: Rows, *, epsilon: float, protocol: str, tree: str, diffgen: str = "Max"
    ) -> Judged:
        gaps = behind(rows, data, single(other, diffgen), protocol, tree)
        return f"below {other}: {_places(gaps, epsilon)}", placed(gaps, epsilon)

    return judge


def comparable(rows: Rows, *, points: float, protocol: str, tree: str, diffgen: str) -> Judged:
    """On neither table ArbDistDP is further below either algorithm than the paper calls near."""
    told, gaps = [], []
    for data in ("adult", "nursery"):
        for other in ("DiffGen", "DiffP-C4.5"):
            own = behind(rows, data, single(other, diffgen), protocol, tree)
            told.append(f"{data}: {_furthest(own, other)}")
            gaps += [(gap, room) for gap, room, _ in own]
    return "; ".join(told), met(gaps, points)


def gap_remains(line: str | None = None) -> Any:
    """ArbDistDP, or another line, stays below BA for every ε on both tables."""

    def judge(rows: Rows, *, tree: str, protocol: str | None = None) -> Judged:
        gaps = []
        for data in ("adult", "nursery"):
            best = pick(rows, data=data, tree=tree, line="BA")[0]
            gaps += [(best["accuracy"] - r["accuracy"], noise(best, r), data, r["epsilon"])
                     for r in line_of(rows, data, line or str(protocol), tree)]  # fmt: skip
        least = min(gaps)
        told = (
            f"at least {least[0]:.1f} points ({least[2]}, ε = {least[3]:g}; noise of the runs "
            f"{least[1]:.1f})"
        )
        if any(gap < -room for gap, room, _, _ in gaps):
            return told, False
        return told, True if all(gap > room for gap, room, _, _ in gaps) else None

    return judge


def adult_slower(rows: Rows, *, times: float, timed: str) -> Judged:
    """Adult takes much longer than Nursery, whatever the number of records."""
    told = []
    for n in dict.fromkeys(r["records"] for r in pick(rows, line=timed)):
        a, b = (pick(rows, line=timed, data=d, records=n)[0]["seconds"] for d in
                ("adult", "nursery"))  # fmt: skip
        told.append((n, a / b))
    shown = ", ".join(f"{ratio:.1f} times as long for {n:,} records" for n, ratio in told)
    return f"{timed}: {shown}", all(ratio >= times for _, ratio in told)


def diffgen_faster(rows: Rows, *, times: float) -> Judged:
    """DiffGen needs less time than ArbDistDP, though neither does any cryptography here.

    The claim names no factor: less is enough. The secure computation has another clock and
    fewer leaves: it is in no ratio.
    """
    found: dict[str, list[float]] = {}
    for r in rows:
        if r["line"] not in ("DiffGen", SECURE):
            base = pick(rows, data=r["data"], records=r["records"], line="DiffGen")[0]
            found.setdefault(r["line"], []).append(r["seconds"] / base["seconds"])
    told = ", ".join(f"{name}: {min(x):.0f} to {max(x):.0f}" for name, x in found.items())
    return f"times DiffGen's seconds: {told}", min(min(x) for x in found.values()) > times


def exchange(rows: Rows, *, share: float) -> Judged:
    """Most of ArbDistDP's time goes into exchange for specialising; needs secure computation.

    Specialising is the choices; leaves are counted after it.
    """
    own = pick(rows, line=SECURE)
    if not own:
        return "secure computation was not run", None
    choices = [r[f"seconds, {CHOICES}"] / r["seconds"] for r in own]
    joint = [r["exchange"] / r["seconds"] for r in own]
    return (
        f"{min(choices):.0%} to {max(choices):.0%} of the seconds for the choices of specialising, "
        f"{min(joint):.0%} to {max(joint):.0%} for all joint steps, leaf counts among them",
        min(choices) > share,
    )


_BOTH = ("protocol", "tree")
_ALL = (*_BOTH, "diffgen")


def _claims(data: str) -> list[Claim]:
    part = {"adult": "a", "nursery": "b"}[data]
    seven, eight = f"F7{part}", f"F8{part}"
    # Max suits Adult, so there DiffGen's utility is no question.
    every = _BOTH if data == "adult" else _ALL
    return [
        Claim(id=f"{seven}-bounds", figures=("7",), judge=bounds(data), switches=("tree",)),
        Claim(id=f"{seven}-rises", figures=("7",), judge=rises(data), switches=_BOTH),
        Claim(id=f"{seven}-least", figures=("7",), judge=stated(data), switches=_BOTH),
        Claim(id=f"{seven}-largest", figures=("7",), judge=stated(data), switches=_BOTH),
        Claim(id=f"{seven}-cost", figures=("7",), judge=cost(data), switches=_BOTH),
        Claim(id=f"{seven}-scaling", figures=("7",), judge=scaling(data), switches=("tree",)),
        Claim(id=f"{eight}-diffgen", figures=("8",), judge=stated(data, "DiffGen"),
              switches=every[1:]),
        Claim(id=f"{eight}-c45", figures=("8",), judge=stated(data, "DiffP-C4.5"),
              switches=("tree",)),
        Claim(id=f"{eight}-arbdistdp", figures=("8",), judge=stated(data), switches=_BOTH),
        Claim(id=f"{eight}-below-diffgen", figures=("8",), judge=not_below(data, "DiffGen"),
              switches=every),
        Claim(id=f"{eight}-below-c45", figures=("8",), judge=not_below(data, "DiffP-C4.5"),
              switches=_BOTH),
        Claim(id=f"{eight}-where-diffgen", figures=("8",), judge=furthest_at(data, "DiffGen"),
              switches=every),
        Claim(id=f"{eight}-where-c45", figures=("8",), judge=furthest_at(data, "DiffP-C4.5"),
              switches=_BOTH),
    ]  # fmt: skip


CLAIMS = (
    Claim(id="T4-counts", figures=("T4",), judge=counted),
    *_claims("adult"),
    Claim(id="F7a-where", figures=("7",), judge=span_at("adult"), switches=("tree",)),
    *_claims("nursery"),
    Claim(id="F8-gap", figures=("8",), judge=gap_remains(), switches=_BOTH),
    Claim(id="F8-gap-c45", figures=("8",), judge=gap_remains("DiffP-C4.5"), switches=("tree",)),
    Claim(id="F8-comparable", figures=("8",), judge=comparable, switches=_ALL),
    Claim(id="F9-diffgen", figures=("9",), judge=diffgen_faster),
    Claim(id="F9-exchange", figures=("9",), judge=exchange),
    Claim(id="F9-adult", figures=("9",), judge=adult_slower, switches=("timed",)),
)
