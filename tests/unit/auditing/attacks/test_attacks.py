from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sherd.auditing.attacks import ATTACKS
from sherd.auditing.attacks.cell_attacks import recover, unchanged
from sherd.auditing.attacks.insider import attack_of, insider
from sherd.auditing.attacks.linkage_attack import by_distance, with_known
from sherd.auditing.attacks.singling import keys, uniqueness

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.auditing.case.case import Case

GROUPED = ("membership-match", "group-disclosure")
"""Attacks on slices, buckets and classes: test_group_disclosure has them."""

SHARES = [
    a for a in ATTACKS if a.name not in ("uniqueness", *GROUPED) and "clusters" not in a.needs
]
"""Those that a table released as it is, or pure noise, says something about."""


@pytest.mark.parametrize("attack", SHARES, ids=lambda attack: attack.name)
def test_attack_succeeds_on_the_unprotected_table(attack: object, bare: Case) -> None:
    """Every attack comes near its best on a table released as it is.

    Inference and co-cluster claims are bounded by what their rules allow (5 % of the range
    from the nearest record is the record itself here; equal cells are equal values), and a
    predicate on few attributes cannot isolate everybody.
    """
    found = attack.run(bare)[0]  # type: ignore[attr-defined]
    if found.code == "co-cluster":
        # Only the labels have equal cells; they are equal in the original too.
        assert found.parts["c"] == 1
        return
    least = {"singling-out": 0.8, "membership": 0.9}.get(found.code, 0.97)
    assert found.value >= least
    assert found.excess is not None
    assert found.excess >= least - 0.1


@pytest.mark.parametrize("attack", SHARES, ids=lambda attack: attack.name)
def test_attack_is_at_chance_on_pure_noise(attack: object, noise: Case) -> None:
    """No attack beats its baseline on a release that has nothing to do with the table."""
    found = attack.run(noise)[0]  # type: ignore[attr-defined]
    assert found.baseline is not None
    # Three standard deviations of a share of 300 trials, at its largest.
    assert found.value - found.baseline < 3 * np.sqrt(0.25 / 300)
    assert found.low is None or found.low <= found.baseline + 0.02


def test_attacks_explain_themselves() -> None:
    """Every attack says what it knows, does and wins, and yields measures of the catalogue."""
    every = [*ATTACKS, attack_of({"a": ["x0"]})]
    assert len({attack.name for attack in every}) == len(every)
    for attack in every:
        assert attack.knows
        assert attack.does
        assert attack.wins
        assert all(spec.side.value == "risk" for spec in attack.specs)


def test_linkage_by_hand(make_case: Callable[..., Case]) -> None:
    """Three records: one nearest to itself, one tied between two, one nearer to another."""
    names = [f"x{i}" for i in range(5)] + ["c"]
    original = {name: np.zeros(3) for name in names}
    original["x0"] = np.array([0.0, 2.0, 10.0])
    released = {name: column.copy() for name, column in original.items()}
    released["x0"] = np.array([0.1, 1.0, 2.1])
    found = by_distance(make_case(original, released))[0]
    assert found.value == pytest.approx((1 + 0.5 + 0) / 3)
    assert found.baseline == pytest.approx(1 / 3)


def test_linkage_follows_the_row_map(bare: Case) -> None:
    """Shuffled rows are linked as well, and not at all where the map is wrong."""
    order = np.random.default_rng(1).permutation(bare.n)
    released = {name: column[order] for name, column in bare.original.items()}
    right = replace(bare, released=released, order=order)
    wrong = replace(bare, released=released, order=np.roll(order, 1))
    assert by_distance(right)[0].value == 1
    assert by_distance(wrong)[0].value == 0


def test_known_records_teach_which_attributes_to_trust(make_case: Callable[..., Case]) -> None:
    """Where one attribute is noise and the rest exact, knowing pairs makes linkage certain."""
    rng = np.random.default_rng(3)
    original = {f"x{i}": rng.normal(size=800) for i in range(5)} | {"c": np.zeros(800)}
    released = {name: column.copy() for name, column in original.items()}
    released["x0"] = rng.normal(size=800) * 10
    case = make_case(original, released)
    assert with_known(case)[0].value > by_distance(case)[0].value + 0.2
    assert with_known(case)[0].value > 0.95


def test_reconstruction_by_hand() -> None:
    """From a released mean and the other members of the cluster follows the last one."""
    before = np.array([1.0, 2.0, 6.0, 7.0, 8.0, 9.0])
    after = np.array([3.0, 3.0, 3.0, 8.0, 8.0, 8.0])
    assert recover(before, after, np.arange(6)).tolist() == before.tolist()
    # With noise the guess stays between the neighbouring clusters.
    noisy = np.array([5.0, 5.0, 5.0, 8.0, 8.0, 8.0])
    assert recover(before, noisy, np.array([2]))[0] == 7.0


def test_unchanged_by_hand(make_case: Callable[..., Case]) -> None:
    """Equal cells are counted exactly, missing ones not at all."""
    names = [f"x{i}" for i in range(5)] + ["c"]
    original = {name: np.array([1.0, 2.0, 3.0, np.nan]) for name in names}
    original["c"] = np.array([0.0, 1.0, 2.0, np.nan])
    released = {name: np.array([1.0, 9.0, 9.0, np.nan]) for name in names}
    released["c"] = np.array([0.0, 1.0, 1.0, np.nan])
    found = unchanged(make_case(original, released))[0]
    assert found.value == pytest.approx((5 * 1 + 2) / 18)
    assert found.parts["c"] == pytest.approx(2 / 3)
    # By chance: x: P(1)·P(1) = 1/9; c: 1/3·1/3 + 1/3·2/3.
    assert found.baseline == pytest.approx((5 / 9 + 1 / 3) / 6)


def test_groups_by_hand(make_case: Callable[..., Case]) -> None:
    """Prosecutor, marketer and journalist risk from groups of 2, 1 and 1."""
    original = {f"x{i}": np.zeros(4) for i in range(5)} | {"c": np.zeros(4)}
    original["x0"] = np.array([0.0, 0.0, 1.0, 2.0])
    released = {name: column.copy() for name, column in original.items()}
    released["x0"] = np.array([0.0, 0.0, 1.0, 5.0])
    found = {m.code: m.value for m in uniqueness(make_case(original, released))}
    assert found["unique"] == 0.5
    assert found["prosecutor"] == 1.0
    assert found["marketer"] == 0.75
    assert found["journalist"] == pytest.approx((2 * 0.5 + 1 + 0) / 4)


def test_fingerprints_tell_rows_apart() -> None:
    """Rows have equal keys exactly where they are equal; minus zero is zero, missing is equal."""
    columns = {"a": np.array([0.0, -0.0, 1.0, np.nan, -np.nan]), "b": np.array([1.0, 1, 1, 1, 1])}
    found = keys(columns, ["a", "b"])
    assert found[0] == found[1]
    assert found[3] == found[4]
    assert len(set(found.tolist())) == 3


def test_insider_learns_what_the_release_shows(bare: Case, noise: Case) -> None:
    """An owner recovers the others' cells of a bare release, and none beyond a guess of noise."""
    owners = {"a": ["x0", "x1"], "b": ["x2", "x3", "x4", "c"]}
    found = insider(bare, owners)[0]
    assert found.value == 1
    assert set(found.parts) == set(owners)
    assert found.baseline is not None
    assert found.baseline < 0.5
    blind = insider(noise, owners)[0]
    assert blind.baseline is not None
    assert blind.value < blind.baseline + 0.1


def test_aggregator_is_an_owner_without_columns(bare: Case) -> None:
    """Somebody without columns of their own guesses the middle, and reads the release."""
    found = insider(bare, {"aggregator": []})[0]
    assert found.value == 1
    assert found.baseline is not None
    assert found.baseline < 0.3
