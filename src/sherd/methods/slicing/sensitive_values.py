# ruff: noqa: E741 - l is the field's own name for it
"""Which attributes are sensitive, what counts as one sensitive value, and feasibility.

Labels count as they are; a measured attribute counts by declared bins, since otherwise
l values next to each other would pass for l different ones. Missing is a value too.

Feasibility is told before any work: where the most frequent sensitive value fills a share
p of the rows (of the rows with the same q, where quasi-identifiers share its column), no
release can reach an l above 1/p without leaving rows out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import InfeasibleError, PlanError, SchemaError, did_you_mean
from sherd.methods.slicing.attribute_codes import combined, encode
from sherd.tables.schema import Role, Type

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.randomness import Randomness
    from sherd.release.plan import Plan
    from sherd.tables.schema import Attribute, Schema

Edge = float | date | datetime


def sensitive_names(plan: Plan, schema: Schema) -> tuple[str, ...]:
    """The sensitive attributes: those the plan names, else those of that role."""
    given: tuple[str, ...] | None = plan["sensitive"]
    if given is None:
        return schema.named(Role.SENSITIVE)
    for name in given:
        if name not in schema.attributes or schema[name].role is Role.IDENTIFIER:
            known = schema.released
            raise PlanError(
                "a sensitive attribute is not in the schema",
                must="one of " + ", ".join(known),
                got=repr(name),
                do=did_you_mean(str(name), known) or None,
            )
    if len(set(given)) != len(given):
        raise PlanError("a sensitive attribute is named twice", must="distinct names")
    return tuple(given)


def quasi_identifiers(plan: Plan, schema: Schema) -> tuple[str, ...]:
    """The quasi-identifiers: every protected attribute that is not sensitive in this plan."""
    sensitive = sensitive_names(plan, schema)
    return tuple(name for name in schema.protected if name not in sensitive)


def demoted(plan: Plan, schema: Schema) -> tuple[str, ...]:
    """Attributes that are sensitive in the schema but quasi-identifiers in the plan."""
    sensitive = sensitive_names(plan, schema)
    return tuple(name for name in schema.named(Role.SENSITIVE) if name not in sensitive)


def edges(plan: Plan, attribute: Attribute) -> tuple[Edge, ...] | None:
    """The declared bin edges of a sensitive attribute; None where it has labels."""
    given: Mapping[str, Any] = plan["bins"] or {}
    if not attribute.type.measured:
        if attribute.name in given:
            raise PlanError(
                f"'{attribute.name}' has labels and takes no bins", do="leave its bins out"
            )
        return None
    if attribute.name not in given:
        raise PlanError(
            f"the sensitive attribute '{attribute.name}' is measured and has no bins",
            must="edges, or a number of equal bins over the declared domain",
            do=f"give bins={{'{attribute.name}': [edge, …]}}",
        )
    wanted = given[attribute.name]
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 2:
        return _equal_bins(attribute, wanted)
    if not isinstance(wanted, (list, tuple)) or not wanted:
        raise PlanError(
            f"the bins of '{attribute.name}' are not valid",
            must="a list of edges, or a whole number from 2",
            got=repr(wanted),
        )
    found = tuple(_edge(item, attribute) for item in wanted)
    if any(b <= a for a, b in itertools.pairwise(found)):  # type: ignore[operator]
        raise PlanError(f"the bins of '{attribute.name}' are not valid", must="rising edges")
    return found


def stated_bins(plan: Plan, schema: Schema) -> dict[str, list[float | str]]:
    """The edges that tell measured sensitive values apart, as plain data."""
    found: dict[str, list[float | str]] = {}
    for name in sensitive_names(plan, schema):
        cuts = edges(plan, schema[name])
        if cuts is not None:
            found[name] = [cut if isinstance(cut, float) else cut.isoformat() for cut in cuts]
    return found


def _equal_bins(attribute: Attribute, wanted: int) -> tuple[Edge, ...]:
    if attribute.domain is None:
        raise SchemaError(
            f"the attribute '{attribute.name}' has no domain to divide into bins",
            do="declare its domain, or give the edges of its bins",
        )
    low, high = attribute.domain
    if isinstance(low, Decimal) and isinstance(high, Decimal):
        step = (float(high) - float(low)) / wanted
        return tuple(float(low) + step * i for i in range(1, wanted))
    assert isinstance(low, date)
    assert isinstance(high, date)
    gap = (high - low) / wanted
    return tuple(low + gap * i for i in range(1, wanted))


def _edge(given: Any, attribute: Attribute) -> Edge:
    try:
        if attribute.type is Type.DATE:
            return date.fromisoformat(str(given))
        if attribute.type is Type.DATETIME:
            return datetime.fromisoformat(str(given))
        return float(given)
    except (TypeError, ValueError):
        raise PlanError(
            f"an edge of the bins of '{attribute.name}' is not valid",
            must=f"a value of type {attribute.type.value}",
            got=repr(given),
        ) from None


def _bin(value: Any, cuts: tuple[Edge, ...]) -> int:
    if isinstance(value, datetime) and isinstance(cuts[0], datetime):
        value = value.replace(tzinfo=cuts[0].tzinfo)
    elif not isinstance(value, date):
        value = float(value)
    return sum(value >= cut for cut in cuts)


@dataclass(frozen=True, kw_only=True)
class Sensitive:
    """The sensitive codes of a table's rows: ``codes[row, attribute]``."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]
    sizes: tuple[int, ...]

    def pairs(self, q: NDArray[np.int32], n_q: int) -> tuple[list[NDArray[np.int32]], int]:
        """For every attribute the code of (q, s), all in one numbering; and how many."""
        found: list[NDArray[np.int32]] = []
        total = 0
        for place, size in enumerate(self.sizes):
            pair, n_pairs = combined([q, self.codes[:, place]], [n_q, size])
            found.append((pair + total).astype(np.int32))
            total += n_pairs
        return found, total

    def kept(self, rows: NDArray[np.int64]) -> Sensitive:
        """The same for some of the rows."""
        return Sensitive(names=self.names, codes=self.codes[rows], sizes=self.sizes)


def sensitive_codes(table: pa.Table, schema: Schema, plan: Plan) -> Sensitive:
    """The sensitive values of a prepared table, measured ones by their bins."""
    names = sensitive_names(plan, schema)
    columns: list[NDArray[np.int32]] = []
    sizes: list[int] = []
    for name in names:
        coded = encode(table[name], schema[name], schema.missing_values)
        cuts = edges(plan, schema[name])
        if cuts is None:
            columns.append(coded.codes)
            sizes.append(coded.size)
        else:
            of_code = [0 if v is None else 1 + _bin(v, cuts) for v in coded.values]
            columns.append(np.array(of_code, dtype=np.int32)[coded.codes])
            sizes.append(len(cuts) + 2)
    codes = np.column_stack(columns) if columns else np.empty((len(table), 0), dtype=np.int32)
    return Sensitive(
        names=names, codes=np.ascontiguousarray(codes, dtype=np.int32), sizes=tuple(sizes)
    )


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The largest l that a table allows without suppression, and what sets it."""

    l: int
    share: float
    attribute: str


def limit(sensitive: Sensitive, q: NDArray[np.int32], n_q: int) -> Limit:
    """How far l can go: one over the largest share of a sensitive value at any q."""
    of_q = np.bincount(q, minlength=n_q)
    best: Limit | None = None
    for name, column, size in zip(sensitive.names, sensitive.codes.T, sensitive.sizes, strict=True):
        pair = q.astype(np.int64) * size + column
        found, count = np.unique(pair, return_counts=True)
        base = of_q[found // size]
        bound = int((base // count).min())
        if best is None or bound < best.l:
            best = Limit(l=bound, share=float((count / base).max()), attribute=name)
    assert best is not None
    return best


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
        return np.arange(len(q), dtype=np.int64)
    kept = surviving(sensitive, q, l, randomness.permutation(len(q)))
    lost = rows - len(kept)
    share = plan["most_suppressed"]
    if plan["suppress"] and len(kept) and lost <= share * rows:
        return kept
    # A refusal is an output: it names an attribute and quotes the plan, and counts nothing.
    where = f" among records that agree in {', '.join(beside)}" if beside else ""
    ways = ["lower l", f"coarsen '{bound.attribute}'"]
    ways += [f"take {', '.join(beside)} out of the sensitive column"] if beside else []
    ways.append(
        "raise 'most_suppressed'" if plan["suppress"] else "let records be left out ('suppress')"
    )
    raise InfeasibleError(
        f"no release with l = {l} exists for this table"
        + (" without leaving out too many records" if plan["suppress"] else ""),
        must=f"a share of at most 1/{l} for every value of '{bound.attribute}'{where}",
        got=f"more than the {share:.0%} that 'most_suppressed' allows would be left out"
        if plan["suppress"]
        else "a more frequent value",
        do=", or ".join(ways),
    )


def feasible_rows(
    table: pa.Table, schema: Schema, plan: Plan, randomness: Randomness
) -> tuple[pa.Table, Sensitive, NDArray[np.int64]]:
    """The table with clamped values and without the rows that suppression leaves out."""
    import pyarrow as pa

    from sherd.methods.slicing.clamping import within

    table = within(table, schema)
    n = table.num_rows
    sensitive = sensitive_codes(table, schema, plan)
    nothing = np.zeros(n, dtype=np.int32)
    kept = feasible(sensitive, nothing, 1, plan, rows=n, randomness=randomness)
    if len(kept) < n:
        sensitive, table = sensitive.kept(kept), table.take(pa.array(kept))
    return table, sensitive, kept
