"""Cluster analysis on generalised records: where leaves stand, and how clusters are judged."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from types import ModuleType

pytest.importorskip("sklearn")
FILE = Path(__file__).parents[3] / "benchmarks" / "002-arbdistdp" / "clustering.py"


@pytest.fixture(scope="module")
def clustering() -> ModuleType:
    """The experiment."""
    spec = importlib.util.spec_from_file_location("clustering", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_records_are_at_most_one_apart_in_every_attribute(clustering: ModuleType) -> None:
    """Numbers by their place in the domain, labels by indicators."""
    numbers = clustering._records(True, 5, np.array([0, 2, 4]))
    assert numbers.ravel().tolist() == [0, 0.5, 1]
    labels = clustering._records(False, 3, np.array([0, 2]))
    assert np.linalg.norm(labels[0] - labels[1]) == pytest.approx(1)


def test_clusters_are_judged_by_their_records(clustering: ModuleType) -> None:
    """The right clusters cost nothing more; one cluster of all costs what it costs."""
    rng = np.random.default_rng(0)
    records = np.vstack([rng.normal(m, 0.1, (50, 2)) for m in (0, 5, 10)])
    alike = np.ones(len(records))
    original = clustering.centres(records, alike, 3, 0)
    same = clustering.judged(clustering.centres(records, alike, 3, 7), original, records)
    assert same == pytest.approx((1, 1, 1))
    one = clustering.judged(clustering.centres(records, alike, 1, 0), original, records)
    assert one[1] > 100
    assert one[2] == 0
    moved = clustering.centres(records, alike, 3, 0)
    moved.cluster_centers_ = moved.cluster_centers_ + 0.5
    judged = clustering.judged(moved, original, records)
    assert judged[0] > 2
    assert judged[1:] == pytest.approx((1, 1))
