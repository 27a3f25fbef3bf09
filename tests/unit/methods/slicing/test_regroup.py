"""Groups of l different values, near each other, and none left over."""

from __future__ import annotations

import numpy as np
import pytest

from sherd.methods.slicing.regroup import grouped, local_groups, merged


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


def test_a_second_attribute_joins_neighbouring_groups() -> None:
    """Groups that are not diverse in a further attribute are joined, all rows if need be."""
    first = np.array([0, 1, 0, 1, 0, 1, 0, 1], dtype=np.int32)
    second = np.array([0, 0, 1, 1, 0, 0, 1, 1], dtype=np.int32)
    group = np.arange(8) // 2
    sizes = np.array([2, 2])
    found = merged(group, np.column_stack([first, second]), sizes, 2)
    assert found.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    odd = np.array([0, 1, 0, 1, 0, 0, 1, 1], dtype=np.int32)
    left_over = merged(group, np.column_stack([first, odd]), sizes, 2)
    assert left_over.tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    apart = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.int32)
    assert set(merged(group, np.column_stack([first, apart]), sizes, 2)) == {0}
