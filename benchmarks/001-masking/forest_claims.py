"""How the claims of paper 001 about classification are judged (Figures 5 and 6).

Rows are cells: the F-measure of one class by forests trained on data masked by one method at one
(α, ε, k), its standard error, and the same of original training data. The switch ``classes`` says
whether the class was masked too. Errors of few runs are uncertain: those of all k are pooled then.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from compared import EXTREME, Measured, Tally, every, mean
from masked import ALPHAS, CLASSES, EPSILONS, KEPT, NAMES

if TYPE_CHECKING:
    from reproduction import Rows

Judged = tuple[str, bool | None]
Line = dict[int, Measured]
FEW = 5
"""Runs below this say too little of their own spread."""


def labels(rows: Rows) -> tuple[str, str]:
    """The classes, as the paper calls them."""
    return CLASSES[rows[0]["data"]]


def line(rows: Rows, **wanted: Any) -> Line:
    """The F-measures over k of the cells wanted."""
    own = [r for r in rows if all(r[name] == value for name, value in wanted.items())]
    if not own:
        return {}
    pooled = math.sqrt(sum(r["standard error"] ** 2 for r in own) / len(own))
    return {
        r["k"]: Measured(
            value=r["F-measure"], error=pooled if r["runs"] < FEW else r["standard error"]
        )
        for r in sorted(own, key=lambda r: r["k"])
    }


def bound(rows: Rows, label: str) -> Measured:
    """The F-measure of a class with original training data."""
    row = next(r for r in rows if r["class"] == label)
    return Measured(value=row["original"], error=row["standard error, original"])


def best(rows: Rows, label: str, classes: str, method: str, epsilon: float) -> Measured:
    """The best F-measure over k and α."""
    wanted = {"class": label, "classes": classes, "method": method, "epsilon": epsilon}
    lines = [line(rows, alpha=alpha, **wanted) for alpha in ALPHAS]
    return max((m for own in lines for m in own.values()), key=lambda m: m.value)


def _lines(rows: Rows, classes: str, method: str, epsilons: tuple[float, ...]) -> list[
    tuple[float, str, Line]
]:  # fmt: skip
    """The curves of a method with the narrower domain, for every ε and class."""
    return [
        (e, label, line(rows, classes=classes, method=method, alpha=ALPHAS[0], epsilon=e,
                        **{"class": label}))
        for e, label in itertools.product(epsilons, labels(rows))
    ]  # fmt: skip


def _gaps(
    rows: Rows, classes: str, method: str, worse: dict[float, float]
) -> tuple[str, dict[tuple[float, str], Measured]]:
    """How far the best F-measures stay below original training data, beside the paper's numbers."""
    gaps, words = {}, []
    for epsilon, paper in worse.items():
        said = []
        for label in labels(rows):
            ratio = best(rows, label, classes, method, epsilon).over(bound(rows, label))
            gap = Measured(value=1 - ratio.value, error=ratio.error)
            gaps[epsilon, label] = gap
            side = "better" if gap.value < 0 else "worse"
            said.append(f"{abs(gap.value):.1%} ± {2 * gap.error:.1%} {side}")
        words.append(f"ε = {epsilon:g}: {' and '.join(said)} (paper: {paper:.0%} worse)")
    return f"{NAMES[method]}, {' and '.join(labels(rows))}: {'; '.join(words)}", gaps


def gap_around(method: str) -> Any:
    """The best F-measures are about as far below the bound as the paper says, on either side."""

    def judge(rows: Rows, *, classes: str, worse: dict[float, float], room: float) -> Judged:
        words, gaps = _gaps(rows, classes, method, worse)
        near = (g.between(worse[e] - room, worse[e] + room) for (e, _), g in gaps.items())
        return words, every(near)

    return judge


def gap_at_most(method: str) -> Any:
    """The best F-measures are at most as far below the bound as the paper says."""

    def judge(rows: Rows, *, classes: str, worse: dict[float, float], room: float) -> Judged:
        words, gaps = _gaps(rows, classes, method, worse)
        ours = sum(g.side_of(worse[e] - room) < 0 for (e, _), g in gaps.items())
        if ours:
            words += f"; ours is better than printed in {ours} of {len(gaps)}"
        return words, every(g.at_most(worse[e] + room) for (e, _), g in gaps.items())

    return judge


def reaches_and_improves(
    rows: Rows, *, classes: str, worse: dict[float, float], room: float
) -> Judged:
    """iDP-CBLS reaches the bound, and is slightly above it for some k."""
    words, gaps = _gaps(rows, classes, "idp-cbls", worse)
    held = [g.at_most(worse[e] + room) for (e, _), g in gaps.items()]
    for epsilon in worse:
        # the best of many cells: two standard errors would be found above the bound by chance
        sides = [gaps[epsilon, label].side_of(0.0, EXTREME) for label in labels(rows)]
        least = min(gaps[epsilon, label].value for label in labels(rows))
        held.append(True if -1 in sides else (None if least < 0 else False))
    return words, every(held)


def grows_with_k(rows: Rows, *, classes: str, share: float) -> Judged:
    """iDP-LS: F-measures grow with k for ε > 0.01."""
    words, pairs = [], []
    for epsilon, label, own in _lines(rows, classes, "idp-ls", EPSILONS[1:]):
        if len(own) < 2:
            return "one k was computed", None
        first, last = own[min(own)], own[max(own)]
        words.append(f"{label}, ε = {epsilon:g}: {first.value:.2f} → {last.value:.2f} "
                     f"(± {2 * last.minus(first).error:.2f})")  # fmt: skip
        pairs.append((first, last))
    return f"from the least to the largest k: {', '.join(words)}", Tally.of(pairs).holds(share)


def stable_from(rows: Rows, *, classes: str, k: int, span: float) -> Judged:
    """iDP-LS: F-measures stay much the same from some k on, for ε > 0.01."""
    words, held = [], []
    for epsilon, label, own in _lines(rows, classes, "idp-ls", EPSILONS[1:]):
        late = [m for at, m in own.items() if at >= k]
        if len(late) < 2:
            return f"fewer than two k from {k} on were computed", None
        low, high = (choose(late, key=lambda m: m.value) for choose in (min, max))
        width = high.minus(low)
        words.append(f"{label}, ε = {epsilon:g}: {low.value:.2f} to {high.value:.2f}")
        held.append(True if width.value <= span else width.at_most(span, EXTREME))
    return f"from k = {k} on: {', '.join(words)}", every(held)


def narrow_is_better(rows: Rows, *, classes: str, share: float) -> Judged:
    """iDP-LS: narrower domains give better F-measures for ε > 0.01."""
    words, pairs = [], []
    for epsilon, label in itertools.product(EPSILONS[1:], labels(rows)):
        wanted = {"class": label, "classes": classes, "method": "idp-ls", "epsilon": epsilon}
        narrow, wide = (list(line(rows, alpha=a, **wanted).values()) for a in ALPHAS)
        if not wide:
            return "only α = 1.5 was computed", None
        gain = mean(narrow).minus(mean(wide))
        words.append(f"{label}, ε = {epsilon:g}: {gain.value:+.3f} ± {2 * gain.error:.3f}")
        pairs.append((mean(wide), mean(narrow)))
    return (
        f"mean gain over k, α = 1.5 beside 3: {', '.join(words)}",
        Tally.of(pairs).holds(share),
    )


def cbls_above_ls(rows: Rows, *, classes: str) -> Judged:
    """iDP-CBLS has better F-measures than iDP-LS for every ε."""
    words, held = [], []
    for epsilon, label in itertools.product(EPSILONS, labels(rows)):
        cbls, ls = (best(rows, label, classes, m, epsilon) for m in ("idp-cbls", "idp-ls"))
        words.append(f"{label}, ε = {epsilon:g}: {cbls.value:.2f} against {ls.value:.2f}")
        held.append(ls.minus(cbls).below(0.0))
    return f"best F-measures: {', '.join(words)}", every(held)


def tenth_of_epsilon(rows: Rows, *, classes: str, room: float) -> Judged:
    """iDP-CBLS at ε = 0.01 is like iDP-LS at ε = 0.1."""
    words, held = [], []
    for label in labels(rows):
        cbls = best(rows, label, classes, "idp-cbls", 0.01)
        ls = best(rows, label, classes, "idp-ls", 0.1)
        words.append(f"{label}: {cbls.value:.3f} against {ls.value:.3f}")
        held.append(cbls.minus(ls).between(-room, room))
    return f"best F-measures: {', '.join(words)}", every(held)


def large_k_hurts(rows: Rows, *, classes: str, least: int, most: int, share: float) -> Judged:
    """iDP-CBLS: F-measures are lower for the largest k than for those that suit it best."""
    words, pairs = [], []
    for epsilon, label, own in _lines(rows, classes, "idp-cbls", EPSILONS):
        small = [m for k, m in own.items() if least <= k <= most]
        if not small:
            return f"no k from {least} to {most} was computed", None
        fall = mean(small).minus(own[max(own)])
        side = fall.side_of(0.0)
        told = {1: "degrades", 0: "within noise", -1: "improves"}[side]
        words.append(
            f"{label}, ε = {epsilon:g}: {told} ({-fall.value:+.3f} ± {2 * fall.error:.3f})"
        )
        pairs.append((own[max(own)], mean(small)))
    return (
        f"the largest k beside k from {least} to {most}: {', '.join(words)}",
        Tally.of(pairs).holds(share),
    )


def rare_is_harder(rows: Rows, *, classes: str, share: float) -> Judged:
    """The rarer class ("Excellent") gets lower F-measures."""
    common, rare = labels(rows)
    pairs = []
    for r in rows:
        if r["class"] == rare and r["classes"] == classes:
            same = {n: r[n] for n in ("classes", "alpha", "epsilon", "method")}
            one, other = (line(rows, **same, **{"class": c})[r["k"]] for c in (rare, common))
            pairs.append((one, other))
    tally = Tally.of(pairs)
    return f"“{rare}” beside “{common}”: {tally.words()} cells", tally.holds(share)


def times_more(rows: Rows, *, times: float, room: float) -> Judged:
    """The common class has so many times the records of the rare one."""
    count = {r["class"]: r["records"] for r in rows if r["classes"] == KEPT}
    common, rare = labels(rows)
    found = count[common] / count[rare]
    return f"{count[common]} and {count[rare]} records: {found:.2f} times", abs(
        found - times
    ) <= room


def counted(rows: Rows, *, records: int) -> Judged:
    """The dataset has so many records."""
    count = {r["class"]: r["records"] for r in rows}
    found = sum(count.values())
    return f"{found} records", found == records
