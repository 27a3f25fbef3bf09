"""Re-checking two releases of a table that changed, as somebody who holds both sees them.

Values that are gone and values that are new can be told apart from those that stay, in
every fragment. There are two ways in which that can be harmless.

Where every old group stays as it was or is gone as a whole, in each fragment by itself, and
the association is the old one with empty places where groups are gone, then all that is left
can be computed from the old release and from which groups are gone: it adds nothing about
which members of two groups belong together. Then the old release must be loose, and what is
new must be loose by itself. Whether that holds also for somebody who knows from elsewhere *who*
was deleted is said separately: it does where what is gone is loose by itself.

Otherwise what stays, what is gone and what is new are checked as if each had been released
by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.check import Check
from sherd.verifying.fragmented_tables import (
    ReleasedFragments,
    constraint_checks,
    group_checks,
    is_implied,
    read_layout,
)
from sherd.verifying.row_groups import value_codes
from sherd.verifying.sealed_tables import TABLE as SEALED_TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    Tables = Mapping[str, pa.Table]

WHO = "somebody who knows who was deleted"


def verify_together(old: Tables, new: Tables, manifest: Mapping[str, Any]) -> list[Check]:
    """The looseness of what two releases show together."""
    # ciphertext has a key and an order of its own in every release
    old, new = ({n: t for n, t in tables.items() if n != SEALED_TABLE} for tables in (old, new))
    before, after = read_layout(old), read_layout(new)
    if before is None or after is None or set(old) != set(new):
        return [Check.failed("files", "the releases hold different tables")]
    for name in old:
        if old[name].schema.names != new[name].schema.names:
            return [Check.failed("files", f"{name} has other columns")]
    parts: dict[str, dict[str, pa.Table]] = {"stays": {}, "gone": {}, "new": {}}
    for name in old:
        stays_old, stays_new = _matched(old[name], new[name])
        parts["stays"][name] = old[name].filter(pa.array(stays_old))
        parts["gone"][name] = old[name].filter(pa.array(~stays_old))
        parts["new"][name] = new[name].filter(pa.array(~stays_new))
    kept = any(parts["stays"][f"fragment-{f + 1}"].num_rows for f in range(len(before.fragments)))
    checks = [
        Check.of(
            "groups are kept",
            kept,
            "tuples that stay keep their groups",
            "no tuple keeps its group: two groupings of the same tuples can be intersected",
        )
    ]
    fresh = _follows(before, after)
    if fresh is None:
        return [
            *checks,
            *(c for part, tables in parts.items() for c in _loose(part, tables, manifest)),
        ]
    gone = _loose("gone", parts["gone"], manifest)
    known = all(check.passed is not False for check in gone)
    return [
        *checks,
        Check(
            name="groups stay or go whole",
            passed=True,
            detail="what is left of the old release follows from it and from which groups went",
        ),
        *_loose("was", dict(old), manifest),
        *_loose("new", fresh, manifest),
        *(gone if known else ()),
        Check(
            name=WHO,
            passed=True if known else None,
            detail="learns no more: what is gone is loose by itself"
            if known
            else "is not covered: only the groups of deleted tuples went, not all that they "
            "are associated with, so to them a deleted tuple is hidden within its group only",
        ),
    ]


def _loose(part: str, tables: Tables, manifest: Mapping[str, Any]) -> list[Check]:
    """Every check of a part of a release, as if it had been released by itself."""
    if not any(table.num_rows for table in tables.values()):
        return []
    layout = read_layout(tables)
    assert layout is not None, "the parts have the columns of the whole"
    k = int(manifest["plan"]["looseness"])
    constraints = [tuple(c) for c in manifest["plan"]["constraints"]["constraints"]]
    checks = group_checks(layout, {})
    if all(check.passed for check in checks):
        checks += [
            check
            for c in constraints
            for check in constraint_checks(layout, c, k, implied=is_implied(c, constraints))
        ]
    return [Check(name=f"what {part}: {c.name}", passed=c.passed, detail=c.detail) for c in checks]


def _follows(old: ReleasedFragments, new: ReleasedFragments) -> dict[str, pa.Table] | None:
    """What is new, where the rest of a release follows from the old one; None where not."""
    if any(len(names) != 1 for names in (*old.groups, *new.groups)):
        return None
    left: dict[str, pa.Array] = {}
    known: dict[str, pa.Array] = {}
    fresh: dict[str, pa.Table] = {}
    for f, (was, now) in enumerate(zip(old.fragments, new.fragments, strict=True)):
        column = old.groups[f][0]
        known[column] = pc.unique(was.column(column))
        in_old = pc.is_in(now.column(column), known[column])
        stays = now.filter(in_old)
        left[column] = pc.unique(stays.column(column))
        if not _same(was.filter(pc.is_in(was.column(column), left[column])), stays):
            return None
        fresh[f"fragment-{f + 1}"] = now.filter(pc.invert(in_old))
    for (name, was), (_, now) in zip(old.associations, new.associations, strict=True):
        blank = pa.table(
            {c: _emptied(was.column(c), pc.is_in(was.column(c), left[c])) for c in was.column_names}
        )
        mine = np.zeros(now.num_rows, np.bool_)
        theirs = np.zeros(now.num_rows, np.bool_)
        for c in now.column_names:
            shown = now.column(c).is_valid().to_numpy()
            is_old = pc.is_in(now.column(c), known[c]).to_numpy() & shown
            mine |= is_old
            theirs |= shown & ~is_old
        if (mine & theirs).any() or not _same(_shown(blank), now.filter(pa.array(~theirs))):
            return None
        fresh[name] = now.filter(pa.array(theirs))
    return fresh


def _emptied(column: pa.ChunkedArray, kept: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(kept, column, pa.scalar(None, column.type))


def _shown(association: pa.Table) -> pa.Table:
    """Without the rows all of whose places are empty."""
    shown = np.zeros(association.num_rows, np.bool_)
    for column in association.columns:
        shown |= column.is_valid().to_numpy()
    return association.filter(pa.array(shown))


def _same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables hold the same rows, each as often."""
    if left.num_rows != right.num_rows:
        return False
    mine, theirs = _matched(left, right)
    return bool(mine.all() and theirs.all())


def _matched(old: pa.Table, new: pa.Table) -> tuple[Any, Any]:
    """Which rows of two tables match each other, values and groups alike, each row once."""
    both = pa.concat_tables([old, new], promote_options="permissive")
    codes = value_codes(both, both.column_names)
    mine, theirs = codes[: old.num_rows], codes[old.num_rows :]
    distinct = int(codes.max(initial=-1)) + 1
    common = np.minimum(
        np.bincount(mine, minlength=distinct), np.bincount(theirs, minlength=distinct)
    )
    return _first(mine, common), _first(theirs, common)


def _first(codes: Any, allowed: Any) -> Any:
    """The first ``allowed[code]`` rows of every code."""
    order = np.argsort(codes, kind="stable")
    count = np.bincount(codes, minlength=len(allowed))
    start = np.cumsum(count) - count
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes)) - start[codes[order]]
    return rank < allowed[codes]
