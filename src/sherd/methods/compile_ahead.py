"""Compile every kernel before somebody waits for it: ``python -m sherd.methods.compile_ahead``.

Small tables are protected in every way that reaches a kernel, and what was compiled on the way
is kept in the package (see ``KernelStore``). ``make setup`` and ``make wheel`` do it; run it
yourself after installing from source, or where another version of Numba was installed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.methods.compiled import AHEAD, SHIPPED, level, tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.release.plan import Plan

ROWS = 400
"""Rows of the small tables."""


def small_table(rows: int = ROWS) -> Any:
    """A made-up table with numbers, categories and two sensitive attributes."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(1)
    towns, jobs = np.array(list("abcdefgh")), np.array([f"job {i}" for i in range(40)])
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "hours": rng.integers(1, 80, rows),
            "town": towns[rng.integers(0, 8, rows)],
            "job": jobs[rng.integers(0, 40, rows)],
            "illness": towns[np.arange(rows) % 8],
            "wage": rng.integers(0, 1000, rows),
        }
    )


def schema() -> Any:
    """The small tables' schema."""
    from sherd.tables.schema import Schema

    return Schema.from_data(
        {
            "attributes": {
                "age": {"type": "integer", "domain": [18, 90]},
                "hours": {"type": "integer", "domain": [0, 80]},
                "town": {"type": "category", "values": list("abcdefgh")},
                "job": {"type": "category", "values": [f"job {i}" for i in range(40)]},
                "illness": {"type": "category", "values": list("abcdefgh"), "role": "sensitive"},
                "wage": {"type": "integer", "domain": [0, 1000]},
            }
        }
    )


def plans() -> Iterator[Plan]:
    """Plans that together reach every kernel, in every form in which it is called."""
    from sherd.release.plan import Plan

    secret = {"sensitive": ["illness"]}
    two = {"sensitive": ["illness", "wage"], "bins": {"wage": 6}}
    yield Plan(method="slice", l=3, **secret)
    yield Plan(method="slice", l=2, **two)
    yield Plan(method="slice", l=3, scope="records", **secret)
    yield Plan(method="slice", l=2, scope="records", **two)
    yield Plan(method="slice", l=3, regroup=True, min_frequency=5, **secret)
    yield Plan(method="slice", l=3, suppress=True, scope="records", beta=0, **secret)
    for boxes in ("tight", "cells"):
        yield Plan(method="mondrian", k=5, boxes=boxes, **secret)
        yield Plan(method="mondrian", k=5, l=3, boxes=boxes, **secret)
        yield Plan(method="mondrian", k=5, l=2, boxes=boxes, **two)
    yield Plan(method="anatomy", l=3, **secret)
    yield Plan(method="anatomy", l=2, **two)
    for constraints in ([["age", "town"]], [["age", "town"], ["age", "hours", "job"]]):
        for strategy in ("cells", "nearest"):
            yield Plan(
                method="fragment",
                constraints={"constraints": constraints},
                looseness=4,
                strategy=strategy,
                suppress=0.9,
            )


def exercise() -> int:
    """Protect a small table by every plan; how many there were."""
    from sherd.release.protect import Settings, protect

    table, declared, done = small_table(), schema(), 0
    for done, plan in enumerate(plans(), 1):  # noqa: B007 - the last number is the answer
        protect(table, declared, plan, ledger=None, settings=Settings(seed=1))
    return done


def main(folder: str | None = None) -> None:
    """Fill the store, by default the package's own."""
    chosen = level()
    if chosen is None:
        sys.stdout.write("no kernels are compiled ahead for this kind of machine\n")
        return
    target = SHIPPED if folder is None else Path(folder)
    # Numba reads these when it is imported, which nothing above has done.
    os.environ |= {"NUMBA_CPU_NAME": chosen.name, "NUMBA_CPU_FEATURES": ""}
    os.environ[AHEAD] = str(target)
    shutil.rmtree(target / tag(), ignore_errors=True)
    exercise()
    kept = len(list((target / tag()).iterdir()))
    sys.stdout.write(f"compiled {kept} kernels ahead for {tag()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
