"""Running a plan's method on small tables, many times, through the contract every method has.

The audit never imports a method: it asks the plan for it. A table with many equal attributes,
each with the full share of epsilon, is many runs at once, because attributes are masked
independently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.release.plan import Plan
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.auditing.epsilon.experiment import Centroids

AT_ONCE = 200
_GRID = "0.000001"


def centroids_of(plan: Mapping[str, Any], *, epsilon: float = 1.0) -> Centroids:
    """What runs a plan's method on a column of numbers in [0, 1] with that much epsilon."""
    kept = {key: plan[key] for key in ("method", "k", "guarantee", "min_scale") if key in plan}

    def run(values: NDArray[np.float64], runs: int, seed: int) -> NDArray[np.float64]:
        found = []
        streams = Randomness.seeded(seed).spawn(-(-runs // AT_ONCE))
        for start, stream in zip(range(0, runs, AT_ONCE), streams, strict=True):
            many = min(AT_ONCE, runs - start)
            names = [f"a{i}" for i in range(many)]
            whole = Plan(**kept, epsilon=epsilon * many)
            schema = _schema(names)
            table = pa.table(dict.fromkeys(names, values))
            outcome = whole.spec.run(
                table, schema, whole, Run(randomness=stream, threads=1, shuffle=False)
            )
            found.append(_ordered(outcome.tables["data"], names, values, kept))
        return np.vstack(found)

    return run


def _schema(names: list[str]) -> Schema:
    one = {"type": "number", "domain": ["0", "1"], "grid": _GRID, "missing": "refuse"}
    return Schema.from_data({"attributes": dict.fromkeys(names, one)})


def _ordered(
    data: pa.Table, names: list[str], values: NDArray[np.float64], plan: Mapping[str, Any]
) -> NDArray[np.float64]:
    """The noisy centroids in the order of the clusters, one row a run."""
    if plan.get("guarantee") == "strict":
        parts: NDArray[np.float64] = data.column("value").to_numpy().reshape(len(names), -1)
        return parts
    cells: NDArray[np.float64] = np.vstack([data.column(name).to_numpy() for name in names])
    k = int(plan.get("k", 1))
    # Rows were kept in order and the values are sorted: cluster j starts at row j·k.
    return cells[:, : (len(values) // k) * k : k]
