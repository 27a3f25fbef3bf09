"""Every record's every cell has one holder, or what the owners agreed on happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreed import agreement, uniform
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd.errors import TableError, VerificationError
from sherd.methods.specialising.arbdistdp import cells_of, release
from sherd.randomness import Randomness
from sherd.secure.engine import cell_holders
from sherd.secure.engine.cell_holders import (
    OWN_CELLS,
    Holes,
    Overlaps,
    check_holders,
    settle_overlaps,
)
from sherd.secure.engine.interface import PlainEngine


class Opening(PlainEngine):
    """Keeps what is opened."""

    def __init__(self, parties: int) -> None:
        super().__init__([Randomness.seeded(p) for p in range(parties)])
        self.opened: list[tuple[str, list[int]]] = []

    def open(self, a: Any, what: str) -> np.ndarray:
        """Open and note."""
        found = super().open(a, what)
        self.opened.append((what, found.ravel().tolist()))
        return found


def masks(party: int, n: int) -> np.ndarray:
    """A party's words, the same each time."""
    return Randomness.seeded(100 + party).words(n)


def test_a_hole_and_an_overlap_in_one_attribute_do_not_cancel() -> None:
    """800 records, 100 holes and 100 overlaps, sums right for each attribute: refused."""
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, 10, 800), rng.integers(0, 3, 800)]
    holder = rng.integers(0, 2, (800, 2))
    held = [holder == 0, holder == 1]
    held[0][:100] = held[1][:100] = False
    held[0][100:200] = held[1][100:200] = True
    assert (np.sum(held, axis=(0, 1)) == 800).all()
    engine = Opening(2)
    with pytest.raises(TableError, match="do not make a whole table"):
        release(engine, cells_of(codes, held), np.arange(800) % 2, agreement())
    assert engine.opened == [("whether every cell has one holder", [0])]


@settings(max_examples=60, deadline=None)
@given(
    parties=st.integers(2, 4),
    n=st.integers(1, 140),
    wrong=st.lists(st.tuples(st.integers(0, 279), st.integers(0, 15)), max_size=4),
    holes=st.sampled_from(Holes),
)
def test_one_bit_says_whether_all_cells_have_one_holder(
    parties: int, n: int, wrong: list[tuple[int, int]], holes: Holes
) -> None:
    """For any set of holders of a few cells; nothing but the bit is opened."""
    rng = np.random.default_rng(n)
    held = np.arange(parties)[:, None, None] == rng.integers(0, parties, (n, 2))
    for cell, who in wrong:
        held[:, cell % n, cell % 2] = [who >> p & 1 == 1 for p in range(parties)]
    count = held.sum(axis=0)
    fine = bool((count == 1).all() if holes is Holes.REFUSE else (count <= 1).all())
    codes = [rng.integers(0, 5, n), rng.integers(0, 5, n)]
    cells = {p: one.codes for p, one in cells_of(codes, list(held)).items()}
    engine = Opening(parties)
    if fine:
        check_holders(engine, cells, (n, 2), holes)
    else:
        with pytest.raises(TableError):
            check_holders(engine, cells, (n, 2), holes)
    assert [values for _, values in engine.opened] == [[int(fine)]]


def settled_by_hand(values: np.ndarray, overlaps: Overlaps) -> np.ndarray:
    """For each cell the place of the party whose value counts, −1 where nobody holds it."""
    found = np.full(values.shape[1], -1)
    for cell, column in enumerate(values.T):
        holders = [p for p, value in enumerate(column) if value >= 0]
        if holders and overlaps is Overlaps.FIRST:
            found[cell] = holders[0]
        elif holders:
            found[cell] = max(holders, key=lambda p: (sum(column == column[p]), -p))
    return found


@settings(max_examples=60, deadline=None)
@given(
    parties=st.integers(2, 5),
    n=st.integers(1, 150),
    overlaps=st.sampled_from([Overlaps.FIRST, Overlaps.MAJORITY]),
    seed=st.integers(0, 10**6),
    at_once=st.sampled_from([62, 124, 62 * 2**13]),
)
def test_overlaps_are_settled_as_by_hand(
    parties: int, n: int, overlaps: Overlaps, seed: int, at_once: int
) -> None:
    """Whatever each party holds, in one piece or many: one holder at most, and the right one."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 4, (parties, 2, n)).clip(-1)
    cells = {p: tuple(values[p]) for p in range(parties)}
    engine = Opening(parties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_holders, "CELLS_AT_ONCE", at_once)
        found = settle_overlaps(engine, cells, [4, 4], n, overlaps, masks)
        check_holders(engine, found, (n, 2), Holes.MISSING)
    winner = settled_by_hand(values.reshape(parties, 2 * n), overlaps)
    for p in range(parties):
        expected = np.where(winner == p, values[p].ravel(), -1)
        assert (np.concatenate(found[p]) == expected).all()


def test_what_is_opened_of_a_partys_cells_is_uniform_to_the_others() -> None:
    """Two tables with opposite holders: without the masks, words of either are uniform.

    Seeded; false alarms 10^-4. The test has power: unmasked words are found.
    """
    for full in (False, True):
        engine = Opening(2)
        n = 62 * 3000
        cells = {0: (np.full(n, 1 if full else -1),), 1: (np.ones(n, np.int64),)}
        system = {p: Randomness.seeded(7 + 2 * p + full).words(3100) for p in (0, 1)}

        def own(party: int, k: int, system: Any = system) -> np.ndarray:
            return np.asarray(system[party][:k])

        settle_overlaps(engine, cells, [2], n, Overlaps.FIRST, own)
        words = np.concatenate([values for what, values in engine.opened if what == OWN_CELLS])
        words = words.astype(np.int64).view(np.uint64)
        assert uniform(words) > 1e-4
        mine = np.concatenate([system[p][: words.size // 2] for p in (0, 1)])
        assert uniform(words - mine) < 1e-6


def test_a_journal_of_another_table_is_found() -> None:
    """Other masks, as other cells have, leave bits where there can be none."""
    cells = {0: (np.array([1, 1, -1]),), 1: (np.array([1, -1, 1]),)}
    first = Opening(2)
    settle_overlaps(first, cells, [2], 3, Overlaps.FIRST, masks)

    class Replayed(Opening):
        def open(self, a: Any, what: str) -> np.ndarray:
            super().open(a, what)
            return np.array(first.opened[0][1], np.int64)

    with pytest.raises(VerificationError, match="does not fit this party's table"):
        settle_overlaps(Replayed(2), cells, [2], 3, Overlaps.FIRST, lambda p, n: masks(p + 9, n))


@pytest.mark.parametrize("overlaps", [Overlaps.FIRST, Overlaps.MAJORITY])
def test_a_release_of_settled_cells_is_that_of_the_table_they_make(overlaps: Overlaps) -> None:
    """With holes as missing values and overlaps settled: the counts of the table made by hand."""
    from dataclasses import replace
    from fractions import Fraction

    import sherd
    from sherd.methods.specialising.hierarchy import Hierarchy
    from sherd.methods.specialising.plain_oracle import leaf_counts
    from sherd.methods.specialising.scores import Budget

    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "x": {"type": "integer", "domain": ["0", "9"]},
                "y": {"type": "category", "values": ["a", "b", "c"]},
                "z": {"type": "category", "values": ["a", "b", "c"]},
            }
        }
    )
    hierarchies = tuple(Hierarchy.of(a, keeps_missing=True) for a in schema)
    agreed = replace(
        agreement(),
        hierarchies=hierarchies,
        budget=Budget(epsilon=Fraction(4000), specialisations=4, numeric=1, sensitivity=1),
        overlaps=overlaps,
        holes=Holes.MISSING,
    )
    rng = np.random.default_rng(3)
    n, sizes = 400, [one.size - 1 for one in hierarchies]
    values = np.stack([rng.integers(-size, size, (3, n)).clip(-1) for size in sizes], axis=1)
    cells = {p: tuple(values[p]) for p in range(3)}
    winner = settled_by_hand(values.reshape(3, -1), overlaps)
    flat = values.reshape(3, -1)
    pooled = np.where(winner < 0, np.repeat(sizes, n), flat[winner, np.arange(3 * n)])
    classes = np.arange(n) % 2
    from sherd.methods.specialising.secure_leaf_counts import PartyCells

    held = {p: PartyCells(codes=one) for p, one in cells.items()}
    found = release(Opening(3), held, classes, agreed)
    exact = leaf_counts(list(pooled.reshape(3, n)), found.specialised.cuts, classes, 2)
    assert found.leaves > 4
    assert (found.counts == exact).all()
