"""Synthetic PATIENTS tables after Section 7.1 of the paper.

Seven attributes, two fragments, two constraints; salary depends on education, everything
else is independent. ``gamma`` widens the range of values: low gamma means many tuples alike.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sherd.methods.fragmenting.constraints import Constraints
from sherd.tables.schema import Schema

FRAGMENTS = (("Name", "MarStatus", "Salary"), ("YoB", "Education", "ZIP", "Disease"))
CONSTRAINTS = Constraints(
    constraints=(
        ("Name", "ZIP", "MarStatus", "Disease"),
        ("Name", "YoB", "Education", "MarStatus"),
    )
)
SIMILAR = ("Education", "Salary")
SCHEMA = Schema.from_data(
    {
        "attributes": {
            "Name": {"type": "category"},
            "YoB": {"type": "integer"},
            "Education": {"type": "integer"},
            "ZIP": {"type": "integer"},
            "MarStatus": {"type": "category"},
            "Disease": {"type": "category"},
            "Salary": {"type": "number"},
        }
    }
)


def patients(rows: int, *, gamma: int = 8, seed: int = 0) -> pa.Table:
    """A table of that many patients."""
    rng = np.random.default_rng(seed)
    education = np.clip(rng.normal(gamma, gamma / 3, rows).round(), 0, 2 * gamma).astype(int)
    width = 2**gamma
    return pa.table(
        {
            "Name": [f"name-{i}" for i in rng.integers(0, 2 * width, rows)],
            "YoB": 1970 + rng.normal(0, 2 * gamma, rows).round().astype(int),
            "Education": education,
            "ZIP": 90000 + rng.integers(0, width, rows),
            "MarStatus": rng.choice(["married", "single", "divorced", "widowed"], rows),
            "Disease": [f"disease-{i}" for i in rng.integers(0, 4 * gamma, rows)],
            "Salary": (1000 + 400 * education + rng.gamma(2, 300, rows)).round(2),
        }
    )
