"""Equal values fall into clusters at random: nothing in a release tells that they are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.engines import Engine, InMemory
from sherd.engines.external_sort import ExternalSort
from sherd.engines.mapped_columns import MappedColumns
from sherd.methods.ranking.distributed_blocks import PackWords, RowBlock, packed, record
from sherd.randomness import Randomness
from sherd.randomness.order import SEED_WORDS, WIDTH, TieBits, tie_width
from sherd.release.method import Run
from sherd.tables.axis import Axis
from sherd.tables.coding import positions

if TYPE_CHECKING:
    from pathlib import Path

ROWS, K = 2000, 100
SCHEMA = sherd.Schema.from_data(
    {"attributes": {name: {"type": "number", "domain": [0, 100]} for name in ("x", "y")}}
)
EQUAL = pa.table({"x": np.full(ROWS, 40.0), "y": np.full(ROWS, 60.0)})
"""Nobody differs from anybody: every cluster holds equal values."""


def _released(run: Run) -> pa.Table:
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=K)
    return plan.spec.run(EQUAL, SCHEMA, plan, run).tables["data"]


def _reach(column: Any) -> int:
    """How far the rows of a cluster lie apart, of the cluster where that is least."""
    cells = np.asarray(column)
    return min(int(np.ptp(np.flatnonzero(cells == cell))) for cell in np.unique(cells))


def _shared(table: pa.Table) -> float:
    """The most that a cluster of one attribute has in common with one of the other."""
    x, y = (np.unique(np.asarray(column), return_inverse=True)[1] for column in table.columns)
    pairs = np.bincount(x * ROWS + y)
    return float(pairs.max() / K)


@pytest.mark.parametrize("name", ["memory", "columns", "duckdb"])
def test_the_order_of_released_rows_does_not_tell_equal_values(name: str, tmp_path: Path) -> None:
    """Rows of a cluster of equal values lie all over the release, on every engine."""
    engine: Engine = InMemory()
    if name != "memory":
        engine = MappedColumns(tmp_path) if name == "columns" else ExternalSort(tmp_path)
    made = _released(Run(randomness=Randomness.from_system(), engine=engine))
    assert min(map(_reach, made.columns)) > 0.7 * ROWS
    assert _shared(made) < 0.3
    engine.close()


def test_ranked_by_place_they_would_be_told() -> None:
    """The same test finds what it is for: a run that keeps the order ranks by it."""
    made = _released(Run(randomness=Randomness.seeded(1), shuffle=False))
    assert min(map(_reach, made.columns)) == K - 1
    assert _shared(made) == 1.0


def test_a_joint_round_keeps_the_order_and_ranks_at_random() -> None:
    """Its order is that of people whom the owners have in common, and it is published."""
    run = Run(randomness=Randomness.keyed(bytes(32)), shuffle=False)
    assert run.fair_ties
    made = _released(run)
    assert min(map(_reach, made.columns)) > 0.7 * ROWS
    assert _shared(made) < 0.3
    again = _released(Run(randomness=Randomness.keyed(bytes(32)), shuffle=False))
    assert again.equals(made), "a restored owner makes the same bytes again"


def _words(seeds: tuple[Any, ...], part: int) -> list[np.ndarray[Any, Any]]:
    axes = tuple(Axis.of(SCHEMA[name]) for name in ("x", "y"))
    codes = pa.table({axis.name: positions(EQUAL[axis.name], axis)[0] for axis in axes})
    packing = PackWords(
        axes=axes,
        bits=12,
        blocks={(at, 0, 0): RowBlock(number=at, start=at * ROWS) for at in (0, 1)},
        splitters=(np.empty(0, np.uint64),) * 2,
        tie_seeds=seeds,
    )
    out = list(packing(iter([record("rows", ROWS, packed(codes), part=part, task=0, span=0)])))
    told = [one for batch in out for one in batch.to_pylist() if one["kind"] == "words"]
    return [np.frombuffer(one["block"], np.uint64) for one in told]


def test_on_a_cluster_a_task_that_is_tried_again_ranks_alike() -> None:
    """By a seed of the driver's; attributes and parts are ranked each by itself."""
    seeds = tuple(Randomness.seeded(s).words(SEED_WORDS) for s in (1, 2))
    first, again, other = _words(seeds, 0), _words(seeds, 0), _words(seeds, 1)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    mask = np.uint64(4095)
    orders = [words & mask for words in (*first, other[0] - np.uint64(ROWS))]
    for order in orders:
        assert abs(np.corrcoef(order.astype(float), np.arange(ROWS))[0, 1]) < 0.15
    for a, b in ((0, 1), (0, 2)):
        assert (orders[a] == orders[b]).mean() < 0.05
    by_place = _words((None, None), 0)
    assert (by_place[0] & mask == np.arange(ROWS)).all()


def test_bits_are_the_same_however_they_are_cut() -> None:
    """So that engines with other blocks make the same seeded release; and they look random."""
    seed = Randomness.seeded(3).words(SEED_WORDS)
    whole = TieBits(seed).take(10_000)
    stream = TieBits(seed)
    pieces = [stream.take(n) for n in (1, 2, 3, 0, 4, 990, 9000)]
    assert (np.concatenate(pieces) == whole).all()
    assert not (TieBits(seed, 1).take(10_000) == whole).all()
    counts = np.bincount(whole >> (WIDTH - 4), minlength=16)
    assert ((counts - 625) ** 2 / 625).sum() < 45  # 15 degrees of freedom: 1 in 10,000


@pytest.mark.parametrize(
    ("steps", "bits", "width"), [(1, 1, 16), (2**30, 20, 13), (2**36 - 1, 28, 0), (2**40, 28, 0)]
)
def test_bits_fit_beside_position_and_place(steps: int, bits: int, width: int) -> None:
    """As many as there is room for, sixteen at most."""
    assert tie_width(steps, bits) == width
