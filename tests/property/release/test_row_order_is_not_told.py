"""Where a record lies in a release does not depend on where it lay in the input.

Every method that releases rows is run many times on a small table and on the same rows in the
opposite order, with random numbers of its own each time. The place at which one record comes out is
compared by a chi-square test of two samples. The false-alarm rate of each test is one in a million;
a method that keeps the order is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2_contingency

import sherd
from sherd.release.protect import Settings

ROWS, RUNS, PARTS = 12, 45, 4
ALARM = 1e-6
SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "tag": {"type": "integer", "role": "insensitive"},
            "age": {"type": "integer", "domain": [0, 99]},
            "ill": {"type": "category", "role": "sensitive", "values": ["flu", "cold", "cut"]},
        }
    }
)
PLANS: dict[str, dict[str, Any]] = {
    "dp": {"epsilon": 1.0},
    "idp": {"epsilon": 1.0},
    "dp-um": {"epsilon": 1.0, "k": 3},
    "idp-ls": {"epsilon": 1.0, "k": 3, "guarantee": "paper"},
    "idp-cbls": {"epsilon": 1.0, "k": 3, "guarantee": "centroids"},
    "slice": {"l": 2},
    "mondrian": {"k": 3},
    "anatomy": {"l": 2},
    "fragment": {
        "constraints": {"constraints": [["age", "ill"]]},
        "fragments": [["tag", "age"], ["ill"]],
        "looseness": 2,
        "suppress": 0.5,
    },
}


def _rows() -> dict[str, list[Any]]:
    return {
        "tag": list(range(ROWS)),
        "age": [8 * i for i in range(ROWS)],
        "ill": [["flu", "cold", "cut"][i % 3] for i in range(ROWS)],
    }


def _places(method: str, cells: dict[str, list[Any]], **settings: Any) -> list[int]:
    """In which part of its table the first record comes out, over many runs."""
    plan, table = sherd.Plan(method=method, **PLANS[method]), pa.table(cells)
    found = []
    for seed in range(RUNS):
        chosen = Settings(seed=seed, threads=1, **settings)
        made = sherd.protect(table, SCHEMA, plan, settings=chosen, ledger=None)
        tags = next(t["tag"].to_pylist() for t in made.tables.values() if "tag" in t.column_names)
        if 0 in tags:
            found.append(tags.index(0) * PARTS // len(tags))
    return found


def _chance(first: list[int], second: list[int]) -> float:
    """How likely two samples differ so much where they are of one distribution."""
    counts = np.array([np.bincount(one, minlength=PARTS) for one in (first, second)])
    return float(chi2_contingency(counts[:, counts.sum(axis=0) > 0]).pvalue)


@pytest.mark.parametrize("method", PLANS)
def test_the_order_of_the_input_is_not_told_by_the_order_of_the_release(method: str) -> None:
    """Alike in distribution, and not one distribution that has no spread."""
    turned = {name: column[::-1] for name, column in _rows().items()}
    first, second = _places(method, _rows()), _places(method, turned)
    assert _chance(first, second) > ALARM
    assert len(set(first)) > 1


def test_a_kept_order_is_found() -> None:
    """The test has the power to tell that rows were not shuffled."""
    turned = {name: column[::-1] for name, column in _rows().items()}
    first = _places("dp", _rows(), keep_order=True)
    assert _chance(first, _places("dp", turned, keep_order=True)) < ALARM
