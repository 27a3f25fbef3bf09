"""Every method on five public tables at one ε: what attackers win, what is kept, what is promised.

    python benchmarks/methods_on_tables.py [--rows 4000] [--only NAME …] [--write]

Ends with 1 where an attack surely wins anything of a release by ``dp-graph``, or its promise fails.
Each release is audited as ``sherd audit`` does it, with fewer trials. ``--write`` puts a table into
``docs/how-to/choose-a-method.md``, between its marks, and the numbers into
``benchmarks/methods_on_tables.json``; a test recomputes some of them. Columns: *found*, what the
best attack surely wins above chance; *pairs off*, how many of 100 records would have to change for
counts of two attributes to be right, beside what a fresh sample would differ by.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "dp-graph"))

from machine import commit, now
from public_tables import load

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.verdict.significance import worst_excess
from sherd.release.method import find
from sherd.tables.schema import Missing

EPSILON, DELTA = 1.0, 1e-9
ROWS = 4_000
STORED = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "choose-a-method.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
TABLES = {
    "Adult": "income",
    "Wine Quality": "color",
    "Nursery": "class",
    "ACS 2018": "marital",
    "Census-Income KDD": "income_class",
}
"""The tables, each with the attribute that is sensitive, or a class, to methods that need one."""

PLANS: dict[str, dict[str, Any]] = {
    "dp-graph": {"delta": DELTA},
    "diffgen": {},
    "dp-um strict": {"k": 50, "guarantee": "strict"},
    "dp": {},
    "dp-um": {"k": 50},
    "idp": {"guarantee": "paper"},
    "idp-ls": {"k": 50, "guarantee": "paper"},
    "idp-cbls": {"k": 50, "guarantee": "paper"},
    "mondrian": {"k": 10},
    "slice": {"l": 2},
    "anatomy": {"l": 2},
}
"""The methods, the best protected first; `arbdistdp` is `diffgen` by parties."""

GROUPED, GROUPED_ROWS = ("mondrian", "slice", "anatomy"), 1_500
"""Methods whose groups are attacked by matching, which takes long; so many records are enough."""

WON = 0.05
"""What an attack may surely win of a release by ``dp-graph``, above chance: chance itself errs."""

LIMITS = Limits(
    attacked=400, modelled=1000, compared=1000, queries=20, pairs=200, triples=2, secrets=3,
    runs=100, rounds=1,
)  # fmt: skip


def table_of(name: str, rows: int) -> tuple[pa.Table, sherd.Schema] | None:
    """So many records of a table at random, complete; None where its file is not there."""
    bundled = {"Adult": "adult", "Wine Quality": "wine", "Nursery": "nursery"}
    if name in bundled:
        table = sherd.datasets.load(bundled[name], complete=True)
        schema = sherd.datasets.schema(bundled[name])
    else:
        found = load(name, None)
        if found is None:
            return None
        table, schema = found.table, found.schema
    order = np.random.default_rng(1).permutation(table.num_rows)[:rows]
    return table.take(pa.array(order)), replace(schema, missing=Missing.REFUSE)


def plan_of(shown: str, target: str) -> sherd.Plan:
    """The plan of a method for a table whose sensitive attribute is this."""
    method = shown.partition(" ")[0]
    given = {"epsilon": EPSILON, "class_attribute": target, "sensitive": [target], **PLANS[shown]}
    known = {one.name for one in find(method).parameters}
    return sherd.Plan(method=method, **{n: value for n, value in given.items() if n in known})


def measured(table: pa.Table, schema: sherd.Schema, plan: sherd.Plan) -> dict[str, Any]:
    """One release and its audit, as numbers."""
    release = sherd.protect(table, schema, plan, ledger=None)
    audit = sherd.audit(table, release, alternatives=False, limits=LIMITS)
    pairs = audit["marginals-2"]
    worst = worst_excess(audit.by_code)
    return {
        "found": None if worst is None else round(worst[1], 4),
        "attack": None if worst is None else worst[0],
        "pairs": round(pairs.value, 4),
        "fresh": round(pairs.baseline or 0.0, 4),
        "promise": audit.verdict.promise,
        "notion": str(audit.guarantee.get("notion")),
    }


def page_table(stored: dict[str, Any]) -> str:
    """The numbers as the page has them."""
    names = list(stored["tables"])
    heads = " | ".join(f"{name}: found, pairs off" for name in names)
    lines = [
        f"| method | promise, tested | {heads} |",
        "|---|---|" + "---|" * len(names),
    ]
    for shown in PLANS:
        cells = [stored["tables"][name]["methods"].get(shown, {}) for name in names]
        promises = {one["promise"] for one in cells if "promise" in one}
        notions = {one["notion"] for one in cells if "notion" in one}
        said = f"{', '.join(sorted(notions))}: {', '.join(sorted(promises))}" if notions else "–"
        shares = [_cell(one) for one in cells]
        lines.append(f"| `{shown}` | {said} | {' | '.join(shares)} |")
    fresh = [f"–, {100 * stored['tables'][name]['fresh']:.1f}" for name in names]
    lines.append(f"| a fresh sample | | {' | '.join(fresh)} |")
    return "\n".join(lines)


def _cell(one: dict[str, Any]) -> str:
    if "pairs" not in one:
        return one.get("refused", "–")
    found = "–" if one["found"] is None else f"{100 * one['found']:.0f} %"
    return f"{found}, {100 * one['pairs']:.1f}"


def measured_table(name: str, table: pa.Table, schema: sherd.Schema) -> dict[str, Any]:
    """All methods on one table; those that refuse it say so."""
    methods: dict[str, Any] = {}
    for shown in PLANS:
        try:
            some = table.slice(0, GROUPED_ROWS) if shown in GROUPED else table
            methods[shown] = measured(some, schema, plan_of(shown, TABLES[name]))
        except sherd.SherdError as error:
            methods[shown] = {"refused": "does not fit", "why": str(error)[:200]}
        print(name, shown, methods[shown], flush=True)
    fresh = [one["fresh"] for one in methods.values() if "fresh" in one]
    return {
        "rows": table.num_rows,
        "attributes": len(schema.protected),
        "fresh": float(np.median(fresh)),
        "commit": commit(),
        "when": now(),
        "methods": methods,
    }


def main() -> int:
    """Measure, print, and write where asked to; tables that are not measured stay as they were."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--only", nargs="*", default=list(TABLES))
    options.add_argument("--write", action="store_true")
    options.add_argument("--stored", type=Path, default=STORED, help="the file of numbers")
    given = options.parse_args()
    known = json.loads(given.stored.read_text())["tables"] if given.stored.exists() else {}
    for name in given.only:
        loaded = table_of(name, given.rows)
        if loaded is None:
            print(f"{name} is not there: set SHERD_DATA", flush=True)
            continue
        known[name] = measured_table(name, *loaded)
    ordered = {name: known[name] for name in TABLES if name in known}
    stored = {"epsilon": EPSILON, "delta": DELTA, "tables": ordered}
    print(page_table(stored))
    if given.write:
        given.stored.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        text = PAGE.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        _, _, tail = rest.partition(END)
        PAGE.write_text(f"{head}{BEGIN}\n{page_table(stored)}\n{END}{tail}", encoding="utf-8")
    drawn = [known[name]["methods"]["dp-graph"] for name in given.only if name in known]
    return int(any(one["promise"] != "holds" or (one["found"] or 0) > WON for one in drawn))


if __name__ == "__main__":
    sys.exit(main())
