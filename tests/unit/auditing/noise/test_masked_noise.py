"""What is looked at in released noise."""

from __future__ import annotations

import numpy as np
import pytest

from sherd.auditing.noise import masked_noise
from sherd.auditing.noise.noise_test import NoisyColumn, Pairs


def test_rows_and_clusters_look_at_the_same() -> None:
    """Equal values of several clusters, some without noise: what a release shows is simulated."""
    present = np.array([0.0] * 25 + [3, 3, 4, 7, 9])
    sizes = np.full(6, 5)
    column = NoisyColumn(
        name="loss",
        sums=present.reshape(6, 5).sum(axis=1),
        sizes=sizes,
        scales=np.array([0.0, 0, 0, 20, 40, 60]),
    )
    values, expected, weights, pairs = masked_noise._paired(present, column)
    cluster = np.repeat(np.arange(6), sizes)
    place = np.searchsorted(values, present)
    rows = Pairs(place, expected[place], weights[place], np.ones(len(place)))
    released = np.array([0.0, 0, 0, 5, -11, 30])
    assert rows.shape(released[cluster] - expected[place]) == pytest.approx(
        pairs.shape(released[pairs.cluster] - pairs.centre), rel=1e-9
    )
