"""Groups of l different values, near each other, and none left over."""

from __future__ import annotations

import numpy as np
import pytest

from sherd.methods.slicing.joint_grouping import joint_groups
from sherd.methods.slicing.local_grouping import grouped, local_groups


def largest_share(group: np.ndarray, values: np.ndarray) -> float:
    """The largest share of one value in any group."""
    return max(
        np.bincount(values[group == g]).max() / (group == g).sum() for g in range(group.max() + 1)
    )


@pytest.mark.parametrize("make", [grouped, local_groups])
@pytest.mark.parametrize(("n", "l", "n_values"), [(7, 2, 3), (100, 3, 5), (1000, 5, 8)])
def test_groups_hold_l_values_and_every_row(make: object, n: int, l: int, n_values: int) -> None:  # noqa: E741
    """Every row has a group, no value fills more than 1/l of it, groups are of l to 2l − 1."""
    rng = np.random.default_rng(n)
    values = rng.integers(0, n_values, n).astype(np.int32)
    values[: n // l] = 0  # the most frequent value is near the limit
    values[n // l :][values[n // l :] == 0] = 1
    if np.bincount(values).max() * l > n:
        values[n // l :] = np.arange(n - n // l) % (n_values - 1) + 1
    group = make(values, n_values, l)  # type: ignore[operator]
    assert group.min() == 0
    assert largest_share(group, values) <= 1 / l
    sizes = np.bincount(group)
    assert sizes.min() >= l
    assert sizes.sum() == n
    assert len(sizes) == n // l


def test_rows_in_order_are_grouped_with_their_neighbours() -> None:
    """Where neighbours have different values, groups are runs of the order."""
    values = np.arange(60, dtype=np.int32) % 3
    assert local_groups(values, 3, 3).tolist() == [i // 3 for i in range(60)]


def test_too_few_values_make_one_group() -> None:
    """With fewer than l values everything stays together."""
    values = np.array([0, 1, 0, 1], dtype=np.int32)
    assert set(grouped(values, 2, 3)) == set(local_groups(values, 2, 3)) == {0}


@pytest.mark.parametrize(("n", "l"), [(60, 2), (3000, 3), (5000, 5)])
def test_groups_differ_in_several_attributes(n: int, l: int) -> None:  # noqa: E741
    """Every attribute is diverse in every group, and nearly all groups have l to 2l − 1 rows."""
    rng = np.random.default_rng(n)
    first = rng.integers(0, 3 * l, n).astype(np.int32)
    first[first == 0] = 1
    first[: int(0.7 * n / l)] = 0  # more frequent than the others
    second = ((first + rng.integers(0, 3, n)) % (3 * l)).astype(np.int32)  # and they depend
    if np.bincount(second).max() * l > n:
        second = rng.permutation(first)
    values = np.column_stack([first, second + 3 * l])
    group = joint_groups(values, 6 * l, l)
    assert largest_share(group, first) <= 1 / l
    assert largest_share(group, second) <= 1 / l
    sizes = np.bincount(group)
    assert sizes.sum() == n
    assert sizes.max() < max(0.1 * n, 4 * l)


def test_what_cannot_differ_ends_in_one_group() -> None:
    """Attributes that go together so that only all rows at once are diverse."""
    first = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.int32)
    values = np.column_stack([first, np.array([2, 2, 3, 3, 2, 2, 3, 3], dtype=np.int32)])
    group = joint_groups(values, 4, 2)
    assert largest_share(group, values[:, 0]) <= 0.5
    assert largest_share(group, values[:, 1]) <= 0.5
    few = joint_groups(np.array([[0, 1]], dtype=np.int32), 2, 2)
    assert few.tolist() == [0]
