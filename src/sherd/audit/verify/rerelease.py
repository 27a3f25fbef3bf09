"""Re-checking two releases of a table that changed, as somebody who holds both sees them.

Values that are gone and values that are new can be told apart from those that stay, in
every fragment. So the three parts are checked as if each had been released by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.audit.verify.check import Check
from sherd.audit.verify.fragments import (
    constraint_checks,
    group_checks,
    is_implied,
    read_layout,
)
from sherd.audit.verify.looseness import value_codes

if TYPE_CHECKING:
    from collections.abc import Mapping


def verify_together(
    old: Mapping[str, pa.Table], new: Mapping[str, pa.Table], manifest: Mapping[str, Any]
) -> list[Check]:
    """The looseness of what stays, what is gone and what is new between two releases."""
    if read_layout(old) is None or read_layout(new) is None or set(old) != set(new):
        return [Check(name="files", passed=False, detail="the releases hold different tables")]
    parts: dict[str, dict[str, pa.Table]] = {"stays": {}, "gone": {}, "new": {}}
    for name in old:
        if old[name].schema.names != new[name].schema.names:
            return [Check(name="files", passed=False, detail=f"{name} has other columns")]
        stays_old, stays_new = _matched(old[name], new[name])
        parts["stays"][name] = old[name].filter(pa.array(stays_old))
        parts["gone"][name] = old[name].filter(pa.array(~stays_old))
        parts["new"][name] = new[name].filter(pa.array(~stays_new))
    checks = [
        Check(
            name="groups are kept",
            passed=parts["stays"]["fragment-1"].num_rows > 0,
            detail="tuples that stay keep their groups"
            if parts["stays"]["fragment-1"].num_rows
            else "no tuple keeps its group: two groupings of the same tuples can be intersected",
        )
    ]
    k = int(manifest["plan"]["looseness"])
    constraints = [tuple(c) for c in manifest["plan"]["constraints"]["constraints"]]
    for part, tables in parts.items():
        if not any(table.num_rows for table in tables.values()):
            continue
        layout = read_layout(tables)
        assert layout is not None, "the parts have the columns of the whole"
        found = group_checks(layout, {})
        if all(check.passed for check in found):
            found += [
                check
                for c in constraints
                for check in constraint_checks(layout, c, k, implied=is_implied(c, constraints))
            ]
        checks += [
            Check(name=f"what {part}: {c.name}", passed=c.passed, detail=c.detail) for c in found
        ]
    return checks


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
