"""Large tables: what looks at every record, and the sample that all else looks at.

Above ``Limits.rows`` records, whatever goes column by column, and whatever a sample would flatter
(noise against the plan, row structure, reconstruction, uniqueness), still uses every record. The
rest looks at so many records, drawn evenly and without repetition: with known pairs the same
persons on both sides, without them each side by itself.

The error that this adds is shown. Shares of trials have the interval of their trials; what would
be exact on all records has one from random groups: the sample is dealt into five, and their spread
says how far the sample's own value may lie from that of all records (Student, 95 %). Linkage by
distance looks for a person among fewer originals, so it finds them at least as often.

``give_back`` returns memory that is no longer needed to the system at once: Arrow's pool and the
allocator of C keep what was freed for later. An audit holds whole tables in turns, so that what is
kept of one would add to the next.
"""

from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sherd.auditing.case.case import height, take

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.auditing.verdict.measure import Measure


GROUPS = 5
_ELSEWHERE = {"control", "matched", "run"}
_STUDENT = 2.776  # 97.5 % of Student's distribution with four degrees of freedom


def sampled(case: Case) -> Case:
    """The case with at most so many records on each side; itself where it has no more."""
    most = case.limits.rows
    if max(case.n, case.n_released) <= most:
        return case
    rng = case.rng("sample of the rows")
    after = _some(rng, case.n_released, most)
    if case.order is None:
        before, order = _some(rng, case.n, most), None
    else:
        before = np.sort(case.order[after])
        order = np.searchsorted(before, case.order[after])
    holdout = case.holdout
    if holdout is not None:
        holdout = take(holdout, _some(rng, height(holdout), most))
    return replace(
        case,
        original=take(case.original, before),
        released=take(case.released, after),
        order=order,
        holdout=holdout,
        whole=(case.n, case.n_released),
    )


def _some(rng: np.random.Generator, n: int, most: int) -> NDArray[np.int64]:
    return np.sort(rng.permutation(n)[:most])


def note(case: Case) -> str:
    """What was sampled of a case and what that costs, in a line."""
    n, every = case.n_released, case.release_rows
    error = 1.96 * math.sqrt(max(0.0, 1 - n / every) / n) / 2
    return (
        f"{n:,} of {every:,} records, drawn at random, were looked at where a measure says so: "
        f"that alone moves a share by at most {100 * error:.2f} points (95 %). Noise, row "
        "structure, reconstruction, losses, moments and uniqueness use every record."
    )


def marked(case: Case, measures: Sequence[Measure]) -> list[Measure]:
    """Measures of a sampled case, each saying so; those of a shadow or of small runs do not."""
    if case.whole is None:
        return list(measures)
    words = f"; of {case.n_released:,} of {case.release_rows:,} records at random"
    return [
        one if _ELSEWHERE & set(one.spec.needs)
        else replace(one, basis=one.basis + words, sampled=True)
        for one in measures
    ]  # fmt: skip


def with_error(case: Case, measured: Callable[[Case], list[Measure]]) -> list[Measure]:
    """Measures that would be exact on all records, with the error of the sample."""
    measures = measured(case)
    if case.whole is None:
        return measures
    groups = [{m.code: m.value for m in measured(part)} for part in _groups(case)]
    result = []
    for one in measures:
        spread = float(np.std([group[one.code] for group in groups], ddof=1))
        half = _STUDENT * spread / math.sqrt(GROUPS)
        low, high = (one.value if end is None else end for end in (one.low, one.high))
        result.append(replace(one, low=max(0.0, low - half), high=high + half))
    return result


def _groups(case: Case) -> list[Case]:
    """The sample dealt into groups; pairs are not needed in them."""
    rng = case.rng("groups of the sample")
    before, after = (rng.permutation(n) % GROUPS for n in (case.n, case.n_released))
    return [
        replace(
            case,
            original=take(case.original, before == group),
            released=take(case.released, after == group),
            order=None,
        )
        for group in range(GROUPS)
    ]


def give_back() -> None:
    """Return freed memory; where the system's C library cannot, only Arrow's goes back."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
