"""The paper's example over eight patients: Figure 7's three queries, answered as it does.

The relation of Figure 1(a) and the groups of Figure 6 are those the unit tests use.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reproduction import Rows

FRAGMENTS = (
    ("Edu", "ZIP", "Race", "InsCompany"),
    ("Job", "MarStatus", "Disease", "Salary", "InsAmount"),
)
QUERIES = {
    "q_ns": ("Edu", "InsAmount"),
    "q_as": ("InsCompany", "Salary"),
    "q_os": ("Race", "Salary"),
}


def _patients() -> Any:
    place = Path(__file__).parents[2] / "tests" / "unit" / "methods" / "fragmenting" / "patients.py"
    spec = importlib.util.spec_from_file_location("patients_of_figure_1", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figure_7() -> Rows:
    """Every cell of Figure 7: over the association, over the relation, and without groups."""
    from sherd.methods.fragmenting.query import answer

    given = _patients()
    tables = given.released(FRAGMENTS, given.FIGURE_6)
    manifest = given.manifest(FRAGMENTS, 4)
    frame = given.PATIENTS.to_pandas()
    rows: Rows = []
    for name, (by, of) in QUERIES.items():
        sql = f"SELECT {by}, AVG({of}) FROM release GROUP BY {by}"  # noqa: S608 - our own words
        found = answer(tables, manifest, sql).table
        ours = dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))
        real = frame.groupby(by)[of].mean()
        rows += [
            {
                "query": name,
                "by": by,
                "of": of,
                "value": value,
                "with": float(ours[value]),
                "real": float(real[value]),
                "without": float(frame[of].mean()),
            }
            for value in real.index
        ]
    return rows
