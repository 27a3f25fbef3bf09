"""The map of information loss."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import PlanError, SchemaError
from sherd.release.tune import Cell, best, heat_map, tune
from sherd.tables.schema import Schema

SCHEMA = Schema.from_data({"attributes": {"x": {"type": "number", "domain": ["0", "100"]}}})
TABLE = pa.table({"x": np.linspace(0, 100, 200)})


def _tune(**more: Any) -> list[Cell]:
    given = {"methods": ["dp-um"], "epsilons": [1.0], "ks": [5], "runs": 3, **more}
    return tune(TABLE, SCHEMA, **given)


def _cell(method: str, epsilon: float, k: int | None, loss: float) -> Cell:
    return Cell(
        method=method, guarantee="paper", epsilon=epsilon, k=k, loss=loss, margin=0.1, runs=3,
        variant="v",
    )  # fmt: skip


def test_every_combination_is_tried() -> None:
    """In order; a method without clusters once an epsilon, a k too small for one is left out."""
    seen: list[tuple[str, int, int]] = []
    cells = _tune(
        methods=["dp", "idp-cbls"], epsilons=[0.5, 1.0], ks=[2, 4], threads=2,
        progress=lambda *step: seen.append(step),
    )  # fmt: skip
    assert [(c.method, c.epsilon, c.k) for c in cells] == [
        ("dp", 0.5, None), ("dp", 1.0, None), ("idp-cbls", 0.5, 4), ("idp-cbls", 1.0, 4),
    ]  # fmt: skip
    assert seen[-1] == ("trying", 4, 4)
    assert all(cell.loss > 0 and cell.margin > 0 and cell.runs == 3 for cell in cells)


def test_more_epsilon_loses_less() -> None:
    """By far more than the intervals are wide; the promise defaults to the paper's."""
    low, high = _tune(methods=["idp-ls"], epsilons=[0.1, 100.0], runs=5)
    assert high.loss + high.margin < low.loss - low.margin
    assert low.as_data()["method"] == "idp-ls"


def test_parameters_reach_the_methods_that_take_them() -> None:
    """Frequency orders need categories, others ignore what they do not know."""
    cells = _tune(parameters={"min_scale": 10.0, "unknown": 3}, epsilons=[1000.0])
    assert cells[0].loss > _tune(epsilons=[1000.0])[0].loss * 2


def test_many_runs_use_the_normals_quantile() -> None:
    """Beyond thirty degrees of freedom."""
    assert _tune(runs=40)[0].runs == 40


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"runs": 1}, "at least 2 runs"),
        ({"methods": []}, "nothing to try"),
        ({"epsilons": []}, "nothing to try"),
        ({"ks": []}, "a k that one of the methods accepts"),
        ({"methods": ["idp-cbls"], "ks": [2]}, "a k that one of the methods accepts"),
        ({"methods": ["anatomy"]}, "has no epsilon to tune"),
        ({"methods": ["nothing"]}, "the method is unknown"),
        ({"epsilons": [-1.0]}, "epsilon"),
    ],
)
def test_what_cannot_be_tried_is_refused(more: dict[str, Any], text: str) -> None:
    """Before any work."""
    with pytest.raises(PlanError, match=text):
        _tune(**more)


def test_a_strict_release_has_no_loss_to_measure() -> None:
    """It has no rows; nor is a plan tried that its schema does not allow."""
    strict = Schema.from_data({**SCHEMA.as_data(), "missing": "refuse"})
    with pytest.raises(PlanError, match="no rows whose loss"):
        tune(
            TABLE, strict, methods=["dp-um"], epsilons=[1.0], ks=[5], runs=2,
            parameters={"guarantee": "strict"},
        )  # fmt: skip
    with pytest.raises(SchemaError):
        _tune(parameters={"guarantee": "strict"})


def test_the_best_of_every_method_and_epsilon() -> None:
    """The least loss."""
    cells = [_cell("a", 1.0, 5, 3.0), _cell("a", 1.0, 10, 2.0), _cell("b", 1.0, None, 9.0)]
    assert best(cells) == {("a", 1.0): cells[1], ("b", 1.0): cells[2]}


@pytest.mark.parametrize(
    "cells",
    [
        [_cell("dp", 1.0, None, 2.0)],
        [_cell("dp-um", e, k, e * k) for e in (0.1, 1.0) for k in (5, 50)],
        [_cell("dp-um", 1.0, 5, 0.0), _cell("dp-um", 1.0, 10, 0.0)],
        [_cell("dp", 1.0, None, 5.0), _cell("idp-cbls", 2.0, 3, 0.0)],
    ],
)
def test_a_map_is_drawn(cells: list[Cell]) -> None:
    """Of one method or several, also where nothing is lost."""
    pytest.importorskip("matplotlib")
    picture = io.BytesIO()
    heat_map(cells, picture)
    assert picture.getvalue().startswith(b"\x89PNG")
    assert len(picture.getvalue()) > 5000


def test_the_map_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The true numbers, their axes, and that it is internal; a loss of 0 reads 0."""
    figures = pytest.importorskip("matplotlib.figure")
    drawn: list[Any] = []
    monkeypatch.setattr(figures.Figure, "savefig", lambda self, *_a, **_k: drawn.append(self))
    cells = [_cell("dp", 1.0, None, 5.0), _cell("dp-um", 0.5, 3, 0.0), _cell("dp-um", 1.0, 3, 0.25)]
    heat_map(cells, io.BytesIO())
    (figure,) = drawn
    assert "Internal: not for publication" in figure.get_suptitle()
    plain, clustered = figure.axes[:2]
    assert [t.get_text() for t in clustered.texts] == ["0", "0.25"]
    assert [t.get_text() for t in clustered.get_xticklabels()] == ["0.5", "1"]
    assert clustered.get_ylabel() == "k"
    assert plain.get_ylabel() == "no clusters"
