from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sherd
from sherd.errors import InfeasibleError, PlanError
from sherd.release.protect import Settings
from sherd.verifying.fragmented_tables import verify

NAMES = tuple("abcdefgh")
SCHEMA = sherd.Schema.from_data({"attributes": {n: {"type": "integer"} for n in NAMES}})


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Table, dict[str, Any], int]:
    """A table, a plan over two to five fragments, and a seed."""
    count = draw(st.integers(2, 5))
    owner = [*range(count), *draw(st.lists(st.integers(0, count - 1), min_size=8 - count,
                                           max_size=8 - count))]  # fmt: skip
    fragments = [[n for n, f in zip(NAMES, owner, strict=True) if f == g] for g in range(count)]
    constraints = []
    for _ in range(draw(st.integers(1, 5))):
        spread = draw(
            st.lists(st.integers(0, count - 1), min_size=2, max_size=min(4, count), unique=True)
        )
        constraints.append(
            sorted({draw(st.sampled_from(fragments[f])) for f in spread for _ in range(2)})
        )
    rows = draw(st.integers(8, 150))
    levels = draw(st.integers(4, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = pa.table({name: rng.integers(0, levels, rows) for name in NAMES})
    parameters = {
        "constraints": {"constraints": constraints},
        "fragments": fragments,
        "looseness": draw(st.integers(1, 9)),
        "similar": draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)),
        "strategy": draw(st.sampled_from(["cells", "nearest"])),
        "suppress": 1.0,
    }
    return table, parameters, draw(st.integers(0, 1000))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_every_released_association_passes_the_verifier(
    case: tuple[pa.Table, dict[str, Any], int],
) -> None:
    """Whatever the table, the constraints and the fragments: what is released is loose."""
    table, parameters, seed = case
    try:
        plan = sherd.Plan(method="fragment", **parameters)
        release = sherd.protect(table, SCHEMA, plan, settings=Settings(seed=seed))
    except (InfeasibleError, PlanError):
        return
    wrong = [c for c in verify(release.tables, release.manifest) if c.passed is False]
    assert wrong == []
    kept = release.tables["association"].num_rows
    assert kept + release.manifest["facts"]["suppressed"] == table.num_rows


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_one_fragment_counts_are_exact(seed: int) -> None:
    """Weighted over two fragments or plain over one, a fragment's counts are the true ones."""
    rng = np.random.default_rng(seed)
    table = pa.table({name: rng.integers(0, 25, 120) for name in NAMES})
    plan = sherd.Plan(
        method="fragment", constraints={"constraints": [["a", "b"]]},
        fragments=[["a", "c", "e", "g"], ["b", "d", "f", "h"]], looseness=4, suppress=1.0,
    )  # fmt: skip
    release = sherd.protect(table, SCHEMA, plan, settings=Settings(seed=seed))
    part = release.tables["fragment-1"].to_pandas()
    exact = release.query("SELECT c, COUNT(*) n FROM release WHERE e < 12 GROUP BY c ORDER BY c")
    true = part[part.e < 12].groupby("c").size()
    assert exact.column("n").to_pylist() == true.tolist()
    # the second fragment is joined in, but does not change what is counted
    weighted = release.query(
        "SELECT c, COUNT(*) n FROM release WHERE e < 12 AND d >= 0 GROUP BY c ORDER BY c"
    )
    assert np.allclose(weighted.column("n").to_numpy(), true.to_numpy())
