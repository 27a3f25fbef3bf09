"""The peers of ranking do the work that ours does."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest


@pytest.mark.parametrize("peer", ["pandas", "polars", "DuckDB"])
def test_a_peer_masks_every_column_by_clusters(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is there, with one value a cluster in every column, in the declared range."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    ranking = importlib.import_module("ranking")
    monkeypatch.setattr(ranking, "K", 10)
    table, _schema = ranking.make(205)
    out = ranking.PEERS[peer](table)
    if not isinstance(out, pa.Table):
        out = pa.table({name: np.asarray(out[name]) for name in out.columns})
    assert out.column_names == table.column_names
    assert out.num_rows == 205
    for name in out.column_names:
        found, sizes = np.unique(np.asarray(out.column(name)), return_counts=True)
        assert -50 <= found[0] <= found[-1] <= 150
        assert all(size % 10 in (0, 5) for size in sizes), "a cluster was torn apart"
        at_ends = sizes[np.isin(found, (-50, 150))] // 10
        assert len(found) + sum(at_ends - 1) == 20
