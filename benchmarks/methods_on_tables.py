"""Every method on five public tables at one ε: what attackers win, what is kept, what is promised.

    python benchmarks/methods_on_tables.py [--rows 4000] [--only NAME …] [--methods NAME …] \
        [--write]

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
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "dp-graph"))

from machine import commit, now
from public_tables import load

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.verdict.significance import worst_excess
from sherd.methods.specialising import diffgen
from sherd.methods.specialising.arbdistdp import agreement, cells_of, release
from sherd.randomness import Randomness
from sherd.release.manifest import manifest_of
from sherd.release.method import find
from sherd.release.protect import Settings
from sherd.secure.engine.interface import PlainEngine
from sherd.tables.schema import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    "arbdistdp": {},
    "dp-um strict": {"k": 50, "guarantee": "strict"},
    "dp": {},
    "dp-um": {"k": 50},
    "idp": {"guarantee": "paper"},
    "idp-ls": {"k": 50, "guarantee": "paper"},
    "idp-cbls": {"k": 50, "guarantee": "paper"},
    "mondrian": {"k": 10},
    "slice": {"l": 2},
    "anatomy": {"l": 2},
    "fragment": {"looseness": 2},
}
"""The methods, the best protected first."""

GROUPED, GROUPED_ROWS = ("mondrian", "slice", "anatomy", "fragment"), 1_500
"""Methods whose groups are attacked by matching, which takes long; so many records are enough."""

WON = 0.01
"""What an attack may surely win of a release by ``dp-graph``, above chance: chance itself errs."""

LIMITS = Limits(
    attacked=2000, modelled=1000, compared=1000, queries=20, pairs=200, triples=2, secrets=3,
    runs=100, rounds=1,
)  # fmt: skip
FEWER = replace(LIMITS, attacked=400)
"""For grouped releases. Of so few people, one attack in some forty wins a percent by chance."""


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


def plan_of(shown: str, target: str, hidden: tuple[str, str] = ("", "")) -> sherd.Plan:
    """The plan of a method for a table whose sensitive attribute is this.

    ``hidden`` are two attributes that must not be seen to go together, where a method hides that.
    """
    method = shown.partition(" ")[0]
    given = {
        "epsilon": EPSILON,
        "class_attribute": target,
        "sensitive": [target],
        "constraints": {"constraints": [list(hidden)]},
        **PLANS[shown],
    }
    known = {one.name for one in find(method).parameters}
    return sherd.Plan(method=method, **{n: value for n, value in given.items() if n in known})


def rarest(table: pa.Table, schema: sherd.Schema) -> tuple[str, str]:
    """The two attributes whose most frequent values are the rarest."""
    most = {n: max(pc.value_counts(table[n]).field("counts").to_pylist()) for n in schema.protected}
    first, second, *_ = sorted(most, key=lambda name: (most[name], name))
    return first, second


def by_parties(table: pa.Table, schema: sherd.Schema, plan: sherd.Plan) -> sherd.Release:
    """What two parties with half of the cells each release together, both in this process."""
    chosen = diffgen.settings(plan, schema)
    codes, classes = diffgen.encode(table, schema, chosen)
    first = np.random.default_rng(1).random((table.num_rows, len(codes))) < 0.5
    engine = PlainEngine([Randomness.from_system() for _ in range(2)])
    agreed = agreement(plan, chosen, table.num_rows)
    found = release(engine, cells_of(codes, [first, ~first]), classes, agreed)
    manifest = manifest_of(schema, plan, plan.guarantee(schema), Settings(), None)
    tables = {"data": found.weighted(), "records": found.expanded(table.num_rows)}
    facts = {
        **diffgen.facts(found, schema, plan, table.num_rows),
        "parties": ["one", "other"], "computing": ["one", "other"], "protocol": "CHEETAH",
        "linkage": "known", "run": "0" * 64, "opened": [],
    }  # fmt: skip
    return sherd.Release(tables=tables, manifest={**manifest, "facts": facts})


def measured(table: pa.Table, schema: sherd.Schema, plan: sherd.Plan) -> dict[str, Any]:
    """One release and its audit, as numbers; what parties make is attacked beside a hold-out."""
    holdout = None
    if plan.method == "arbdistdp":  # an audit cannot have parties release half a table again
        cut = table.num_rows * 2 // 3
        table, holdout = table.slice(0, cut), table.slice(cut)
        made = by_parties(table, schema, plan)
    else:
        made = sherd.protect(table, schema, plan, ledger=None)
    limits = FEWER if plan.method in GROUPED else LIMITS
    audit = sherd.audit(table, made, holdout=holdout, alternatives=False, limits=limits)
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


def measured_table(
    name: str, table: pa.Table, schema: sherd.Schema, chosen: Sequence[str]
) -> dict[str, Any]:
    """Some methods on one table; those that refuse it say so."""
    methods: dict[str, Any] = {}
    for shown in chosen:
        try:
            some = table.slice(0, GROUPED_ROWS) if shown in GROUPED else table
            plan = plan_of(shown, TABLES[name], rarest(some, schema))
            methods[shown] = measured(some, schema, plan)
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


def with_methods(table: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """A table's numbers with those of some methods anew, which say when they were measured."""
    when = {"commit": found["commit"], "when": found["when"]}
    anew = {shown: {**one, **when} for shown, one in found["methods"].items()}
    return {**table, "methods": {**table["methods"], **anew}}


def main() -> int:
    """Measure, print, and write where asked to; tables that are not measured stay as they were."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--only", nargs="*", default=list(TABLES))
    options.add_argument("--methods", nargs="*", default=list(PLANS), choices=list(PLANS))
    options.add_argument("--write", action="store_true")
    options.add_argument("--stored", type=Path, default=STORED, help="the file of numbers")
    given = options.parse_args()
    known = json.loads(given.stored.read_text())["tables"] if given.stored.exists() else {}
    for name in given.only:
        loaded = table_of(name, given.rows)
        if loaded is None:
            print(f"{name} is not there: set SHERD_DATA", flush=True)
            continue
        found = measured_table(name, *loaded, given.methods)
        if (
            name in known
            and known[name]["rows"] == found["rows"]
            and len(given.methods) < len(PLANS)
        ):
            known[name] = with_methods(known[name], found)
        else:
            known[name] = found
    ordered = {name: known[name] for name in TABLES if name in known}
    stored = {"epsilon": EPSILON, "delta": DELTA, "tables": ordered}
    print(page_table(stored))
    if given.write:
        given.stored.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        text = PAGE.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        _, _, tail = rest.partition(END)
        PAGE.write_text(f"{head}{BEGIN}\n{page_table(stored)}\n{END}{tail}", encoding="utf-8")
    every = (known[name]["methods"] for name in given.only if name in known)
    drawn = [one["dp-graph"] for one in every if "dp-graph" in one]
    return int(any(one["promise"] != "holds" or (one["found"] or 0) > WON for one in drawn))


if __name__ == "__main__":
    sys.exit(main())
