from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import InternalError
from sherd.methods.fragmenting import soundness
from sherd.methods.fragmenting.association import Search, associate, empty_state, problem_shape
from sherd.methods.fragmenting.constraints import Constraints
from sherd.methods.fragmenting.soundness import sound
from sherd.randomness import Randomness
from sherd.tables.schema import Schema

from .patients import FIGURE_4, PATIENTS, RULES, SEVEN, THREE, group_of, schema


def with_places(groupings: tuple[tuple[set[int], ...], ...]) -> int:
    """How often properties are broken by a grouping of PATIENTS."""
    shape = problem_shape(PATIENTS, RULES, THREE, (2, 2, 2))
    state = empty_state(shape)
    for f, groups in enumerate(groupings):
        state.place[:, f] = group_of(groups)
    return int(sound(shape, state))


def test_figure_4_has_every_property() -> None:
    """The paper's own grouping is heterogeneous at all three levels."""
    assert with_places(FIGURE_4) == 0


@pytest.mark.parametrize(
    ("fragment", "groups"),
    [
        (2, ({2, 7}, {1, 4}, {3, 6}, {5, 8})),  # figure 5(a): Diabetes twice in a group
        (0, ({1, 4}, {2, 3}, {5, 6}, {7, 8})),  # figure 5(b): two groups meet twice
        (2, ({1, 4}, {5, 8}, {2, 6}, {3, 7})),  # the same groups, other names: still fine
    ],
)
def test_figure_5_is_caught(fragment: int, groups: tuple[set[int], ...]) -> None:
    """Violations of group and association heterogeneity are counted; renaming is none."""
    changed: list[tuple[set[int], ...]] = [*FIGURE_4]
    changed[fragment] = groups
    renamed = {frozenset(g) for g in groups} == {frozenset(g) for g in FIGURE_4[fragment]}
    assert (with_places(tuple(changed)) == 0) is renamed


def test_figure_4_can_be_found() -> None:
    """Eight patients, three fragments, k = 4: a 4-loose association of all of them is found."""
    made = associate(
        PATIENTS, schema(*SEVEN), RULES, THREE, (2, 2, 2), randomness=Randomness.seeded(1)
    )
    assert made.suppressed <= 4
    best = min(
        associate(
            PATIENTS, schema(*SEVEN), RULES, THREE, (2, 2, 2), randomness=Randomness.seeded(seed)
        ).suppressed
        for seed in range(8)
    )
    assert best == 0


def random_table(rows: int, levels: int, seed: int) -> pa.Table:
    """Six attributes with as many levels."""
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.integers(0, levels, rows) for name in "abcdef"})


WIDE = Constraints(constraints=(("a", "c", "e"), ("b", "d"), ("c", "f")))
FRAGMENTS = (("a", "b"), ("c", "d"), ("e", "f"))
SCHEMA = Schema.from_data({"attributes": {name: {"type": "integer"} for name in "abcdef"}})


@pytest.mark.parametrize("strategy", ["cells", "nearest"])
def test_both_strategies_place_nearly_everything(strategy: str) -> None:
    """With room enough, ours leaves out one tuple in a hundred at most, the published one five."""
    table = random_table(3000, 40, 1)
    made = associate(
        table, SCHEMA, WIDE, FRAGMENTS, (3, 3, 3), similar=("a", "f"),
        search=Search(strategy=strategy), randomness=Randomness.seeded(4),  # type: ignore[arg-type]
    )  # fmt: skip
    assert made.suppressed <= (30 if strategy == "cells" else 150)
    assert made.place.shape == (3, 3000)
    assert len(made.kept) == 3000 - made.suppressed
    for f in range(3):
        sizes = np.bincount(made.place[f, made.kept])
        assert sizes[sizes > 0].min() >= 3
        assert sizes.max() <= 6


def test_a_seed_repeats_a_run() -> None:
    """The same seed gives the same groups, another seed others."""
    table = random_table(500, 30, 2)
    first, again, other = (
        associate(table, SCHEMA, WIDE, FRAGMENTS, (2, 2, 2), randomness=Randomness.seeded(seed))
        for seed in (7, 7, 8)
    )
    assert (first.place == again.place).all()
    assert (first.place != other.place).any()


def test_window_trades_speed_for_nearness() -> None:
    """A wider window keeps tuples nearer to the groups they would best go to."""
    rng = np.random.default_rng(0)
    rows = 4000
    table = pa.table({"x": rng.normal(size=rows), "y": rng.integers(0, 12, rows)})
    given = Schema.from_data({"attributes": {"x": {"type": "number"}, "y": {"type": "integer"}}})
    rules = Constraints(constraints=(("x", "y"),))
    spread = []
    for window in (0, 200):
        made = associate(
            table, given, rules, (("x",), ("y",)), (3, 1), similar=("x",),
            search=Search(strategy="nearest", window=window, probes=400),
            randomness=Randomness.seeded(1),
        )  # fmt: skip
        x = table.column("x").to_numpy()[made.kept]
        groups = made.place[0, made.kept]
        mean = np.bincount(groups, weights=x) / np.maximum(1, np.bincount(groups))
        spread.append(float(np.abs(x - mean[groups]).mean()))
    assert spread[1] < spread[0] / 3


def test_blocks_are_associated_for_themselves() -> None:
    """With blocks, the graph of associated groups falls apart into pieces of that size."""
    table = random_table(1200, 60, 3)
    rules = Constraints(constraints=(("a", "c"),))
    made = associate(
        table, SCHEMA, rules, (("a", "b"), ("c", "d")), (2, 2), block=300,
        randomness=Randomness.seeded(2),
    )  # fmt: skip
    piece = np.arange(1200)
    for _ in range(40):
        for f in range(2):
            inside = made.place[f] >= 0
            least = np.full(made.groups[f], 1200)
            np.minimum.at(least, made.place[f, inside], piece[inside])
            piece[inside] = least[made.place[f, inside]]
    assert np.unique(piece[made.kept], return_counts=True)[1].max() <= 300


def test_pairs_without_a_constraint_meet_once() -> None:
    """Association heterogeneity holds between fragments no constraint joins directly."""
    table = random_table(600, 50, 5)
    rules = Constraints(constraints=(("a", "c", "e"),))
    made = associate(
        table, SCHEMA, rules, (("a",), ("c",), ("e",)), (3, 3, 3), randomness=Randomness.seeded(1)
    )
    for i, j in itertools.combinations(range(3), 2):
        pairs = made.place[i, made.kept].astype(np.int64) * 1000 + made.place[j, made.kept]
        assert len(np.unique(pairs)) == len(pairs)


def test_what_is_not_loose_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in placement would be caught before anything is returned."""
    monkeypatch.setattr(soundness, "sound", lambda *_: 3)
    with pytest.raises(InternalError, match="3"):
        associate(
            random_table(50, 30, 1), SCHEMA, WIDE, FRAGMENTS, (2, 2, 2),
            randomness=Randomness.seeded(1),
        )  # fmt: skip


def test_missing_values_are_values() -> None:
    """Two tuples without a value are alike: they do not share a group."""
    table = pa.table({"a": [None, None, None, None, 1, 2, 3, 4], "b": list(range(8))})
    given = Schema.from_data({"attributes": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
    rules = Constraints(constraints=(("a", "b"),))
    made = associate(table, given, rules, (("a",), ("b",)), (2, 1), randomness=Randomness.seeded(1))
    placed = [g for g in made.place[0, :4] if g >= 0]
    assert len(set(placed)) == len(placed)


def test_what_is_near_in_memory_is_decided_after_cells() -> None:
    """Large cells follow the first fragment's order by stretches; no tuple leaves its cell."""
    from sherd.methods.fragmenting.preferred_groups import _keep_near

    rows, small = 30_000, 1000
    draw = np.random.default_rng(4)
    first, order = draw.permutation(rows), draw.permutation(rows)
    before = order.copy()
    _keep_near(order, np.asarray([0, small]), first)
    assert (order[:small] == before[:small]).all()
    assert sorted(order[small:]) == sorted(before[small:])
    position = np.empty(rows, np.int64)
    position[first] = np.arange(rows)
    stretch = position[order[small:]] // 4096
    assert (np.diff(stretch) >= 0).all()
    within = [position[order[small:]][stretch == s] for s in range(7)]
    assert all((np.diff(part) < 0).any() for part in within), "by chance within a stretch"


@pytest.mark.parametrize(("rows", "values"), [(120, 4), (2000, 4), (600, 6)])
def test_a_table_without_room_to_spare_is_placed_whole(rows: int, values: int) -> None:
    """Values that fill 1/k of the tuples each: whatever a group reaches has every one of them."""
    draw = np.random.default_rng(rows)
    ages = draw.integers(0, 101, rows)
    ills = draw.permutation(rows) % values
    table = pa.table({"age": ages, "ill": [f"ill-{i}" for i in ills]})
    fields = {"age": {"type": "integer"}, "ill": {"type": "category"}}
    made = associate(
        table, Schema.from_data({"attributes": fields}), Constraints(constraints=(("age", "ill"),)),
        (("age",), ("ill",)), (2, values // 2), allowed=0.05, randomness=Randomness.seeded(2),
    )  # fmt: skip
    assert made.suppressed == 0
    for own, other, seen in ((0, 1, ills), (1, 0, ages)):
        for group in set(made.place[own].tolist()):
            beside = made.place[other][made.place[own] == group].tolist()
            reached = [seen[t] for g in beside for t in np.flatnonzero(made.place[other] == g)]
            assert len(reached) == len(set(reached)) >= values


def test_blocks_leave_out_what_completes_none() -> None:
    """Five tuples of four illnesses are a block and one left over; three make no block at all."""
    from sherd.methods.fragmenting.closed_blocks import closed_blocks

    for ills, placed in ((["a", "b", "c", "d", "d"], 4), (["a", "b", "c"], 0)):
        table = pa.table({"age": list(range(len(ills))), "ill": ills})
        shape = problem_shape(
            table, Constraints(constraints=(("age", "ill"),)), (("age",), ("ill",)), (2, 2)
        )
        place = closed_blocks(shape, Randomness.seeded(1))
        assert int((place >= 0).all(axis=1).sum()) == placed
    table = pa.table({"age": [1, 1, 2, 3], "ill": ["a", "b", "c", "d"]})
    shape = problem_shape(
        table, Constraints(constraints=(("age", "ill"),)), (("age",), ("ill",)), (2, 2)
    )
    assert (closed_blocks(shape, Randomness.seeded(1)) < 0).all(), "two are of the same age"
