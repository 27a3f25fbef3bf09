# ruff: noqa: E741 - l is the field's own name for it
"""The largest l that a table allows, known before any work, and the records that would have to go.

Where the most frequent sensitive value fills a share p of the rows (of the rows with the same
q, where quasi-identifiers share its column), no release can reach an l above 1/p without
leaving rows out. Conditions beyond l are met by the whole table, or by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import InfeasibleError
from sherd.methods.slicing.group_conditions import Conditions, shares
from sherd.methods.slicing.sensitive_values import sensitive_codes

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.slicing.sensitive_values import Sensitive
    from sherd.randomness import Randomness
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The largest l that a table allows without suppression, and what sets it."""

    l: int
    attribute: str


def limit(sensitive: Sensitive, q: NDArray[np.int32], n_q: int) -> Limit:
    """The largest l: one over the largest share of a sensitive value at any q."""
    of_q = np.bincount(q, minlength=n_q)
    best: Limit | None = None
    for place, (name, size) in enumerate(zip(sensitive.names, sensitive.sizes, strict=True)):
        columns, n_values = sensitive.sets.get(place, (sensitive.codes[:, [place]], size))
        pair = (q.astype(np.int64)[:, None] * n_values + columns)[columns >= 0]
        occurring, count = _counted(pair, n_q * n_values)
        base = of_q[occurring // n_values]
        bound = int((base // count).min())
        if best is None or bound < best.l:
            best = Limit(l=bound, attribute=name)
    assert best is not None
    return best


def _counted(codes: NDArray[np.int64], room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes below ``room`` that occur, and how often each does."""
    if room > 4 * len(codes) + 1024:
        occurring, count = np.unique(codes, return_counts=True)
        return occurring, count
    count = np.bincount(codes, minlength=room)
    occurring = np.flatnonzero(count)
    return occurring, count[occurring]


def surviving(
    sensitive: Sensitive, q: NDArray[np.int32], l: int, order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rows that stay when the fewest are left out, value by value, so that l is feasible.

    ``order`` decides which of the rows with the same value stay: the first of them.
    """
    kept = order
    while True:
        before = len(kept)
        for place, size in enumerate(sensitive.sizes):
            pair = q[kept].astype(np.int64) * size + sensitive.codes[kept, place]
            codes, inverse, count = np.unique(pair, return_inverse=True, return_counts=True)
            quota = _quotas(codes // size, count, l)
            rank = _rank_within(inverse)
            kept = kept[rank < quota[inverse]]
        if len(kept) == before or len(kept) == 0:
            return np.sort(kept)


def _quotas(q: NDArray[np.int64], count: NDArray[np.int64], l: int) -> NDArray[np.int64]:
    """For each (q, s) how many rows may stay: none above 1/l of what stays at that q.

    ``q`` rises. All q are capped at once, again and again, until nothing changes.
    """
    quota = count.copy()
    starts = np.flatnonzero(np.r_[True, q[1:] != q[:-1]])
    lengths = np.diff(np.r_[starts, len(q)])
    while True:
        cap = np.repeat(np.add.reduceat(quota, starts) // l, lengths)
        if (quota <= cap).all():
            return quota
        quota = np.minimum(quota, cap)


def _rank_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of every row among the rows of its group, in the rows' order."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else order
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    placed = np.empty(len(order), dtype=np.int64)
    placed[order] = rank
    return placed


def feasible(
    sensitive: Sensitive,
    q: NDArray[np.int32],
    n_q: int,
    plan: Plan,
    *,
    rows: int,
    randomness: Randomness,
    beside: tuple[str, ...] = (),
) -> NDArray[np.int64]:
    """The rows to work on: all of them, or those that suppression leaves.

    ``rows`` is the size of the whole table, of which ``most_suppressed`` may be left out. Raises
    InfeasibleError with the attribute at fault, and what would help, where l is not feasible.
    """
    l = plan["l"]
    bound = limit(sensitive, q, n_q)
    if l <= bound.l:
        check_conditions(sensitive, q, plan, beside)
        return np.arange(len(q), dtype=np.int64)
    # A refusal is an output: it names an attribute and quotes the plan, and counts nothing.
    where = f" among records that agree in {', '.join(beside)}" if beside else ""
    ways = ["lower l", f"coarsen '{bound.attribute}'"]
    share = plan["most_suppressed"]
    if not sensitive.sets:
        kept = surviving(sensitive, q, l, randomness.permutation(len(q)))
        if plan["suppress"] and len(kept) and rows - len(kept) <= share * rows:
            return kept
        ways += [f"take {', '.join(beside)} out of the sensitive column"] if beside else []
        ways.append(
            "raise 'most_suppressed'"
            if plan["suppress"]
            else "let records be left out ('suppress')"
        )
    what = "element" if sensitive.sets else "value"
    raise InfeasibleError(
        f"no release with l = {l} exists for this table"
        + (" without leaving out too many records" if plan["suppress"] else ""),
        must=f"a share of at most 1/{l} for every {what} of '{bound.attribute}'{where}",
        got=f"more than the {share:.0%} that 'most_suppressed' allows would be left out"
        if plan["suppress"]
        else f"a more frequent {what}",
        do=", or ".join(ways),
    )


def feasible_rows(
    table: pa.Table, schema: Schema, plan: Plan, randomness: Randomness
) -> tuple[pa.Table, Sensitive, NDArray[np.int64]]:
    """The table with clamped values and without the rows that suppression leaves out."""
    import pyarrow as pa

    from sherd.tables.clamping import within

    table = within(table, schema)
    n = table.num_rows
    sensitive = sensitive_codes(table, schema, plan)
    nothing = np.zeros(n, dtype=np.int32)
    kept = feasible(sensitive, nothing, 1, plan, rows=n, randomness=randomness)
    if len(kept) < n:
        sensitive, table = sensitive.kept(kept), table.take(pa.array(kept))
    return table, sensitive, kept


def meets_conditions(sensitive: Sensitive, q: NDArray[np.int32], wanted: Conditions) -> bool:
    """Whether all records together, those of each q by themselves, meet conditions."""
    from sherd.methods.slicing.condition_kernels import unmet

    if not wanted.asked():
        return True
    values, heads = sensitive.elements()
    overall = shares(values, heads)
    return not unmet(q.astype(np.int64), values, heads, overall, wanted.limits())


def check_conditions(
    sensitive: Sensitive, q: NDArray[np.int32], plan: Plan, beside: tuple[str, ...] = ()
) -> None:
    """Raise where not even the whole table meets the conditions that the plan asks for."""
    wanted = Conditions.of(plan)
    where = f" among records that agree in {', '.join(beside)}" if beside else ""
    for name in wanted.asked():
        if not meets_conditions(sensitive, q, wanted.only(name)):
            raise InfeasibleError(
                f"the whole table does not meet the condition '{name}'{where}",
                must="met by all records together, since groups can only be put together",
                got=f"{name}={wanted.said(name)}",
                do="ask for less"
                + (f", or take {', '.join(beside)} out of the sensitive column" if beside else ""),
            )
