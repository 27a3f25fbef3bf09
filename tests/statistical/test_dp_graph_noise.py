"""``dp-graph`` keeps its promise from end to end, by tests that find planted bugs.

Residuals: false alarms in a million (see ``noise_residuals``), seeds are fixed. The audit of ε
attacks two neighbouring tables through the whole pipeline; its lower bound exceeds the promise
with a probability of at most 5 % where the promise holds (Clopper–Pearson, 95 %), and is far
above it where a bug was planted.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.epsilon.bound import lower_bound
from sherd.methods.graphical import learning
from sherd.methods.graphical.coarsening import coarsen
from sherd.methods.graphical.dp_graph import code, design_of
from sherd.methods.graphical.measuring import CodedTable, Noise, NoisyCounts
from sherd.methods.graphical.model_document import document
from sherd.methods.graphical.private_choice import NoisyChoice
from sherd.randomness import Randomness
from sherd.verifying.noise_residuals import Residuals, residuals

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.statistical

NURSERY = sherd.datasets.load("nursery")
SCHEMA = sherd.datasets.schema("nursery")


def of_a_release(delta: float | None, **more: Any) -> Residuals:
    """The residuals of a seeded release of Nursery."""
    plan = sherd.Plan(method="dp-graph", epsilon=3.0, delta=delta, choice="all", **more)
    design = design_of(plan, SCHEMA)
    source, randomness = code(NURSERY, SCHEMA, design), Randomness.seeded(5)
    found = learning.learn(design, NoisyCounts(source, randomness), None)
    return residuals(NURSERY, SCHEMA, document(found))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit a few steps only: what is tested here comes before the fit."""
    monkeypatch.setattr("sherd.methods.graphical.fitting.MOST_WORK", 2e4)


@pytest.fixture
def unfitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the fit, which is given noisy numbers only, to have time for many runs."""
    monkeypatch.setattr(learning, "fit_model", lambda *_: None)


@pytest.mark.parametrize("delta", [None, 1e-9])
def test_measurements_are_true_counts_with_the_declared_noise(delta: float | None) -> None:
    """Residuals of every measured count, in all."""
    assert of_a_release(delta).check().passed


@pytest.mark.parametrize("delta", [None, 1e-9])
@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)], ids=str)
def test_noise_off_by_thirty_percent_is_found(
    delta: float | None, factor: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sampler that draws less or more than is declared."""
    right = Noise.draw

    def wrong(self: Noise, randomness: Randomness, n: int) -> Any:
        return right(dataclasses.replace(self, scale=self.scale * factor), randomness, n)

    monkeypatch.setattr(Noise, "draw", wrong)
    assert not of_a_release(delta).check().passed


FEW = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {
            "x": {"type": "integer", "domain": ["0", "5"]},
            "y": {"type": "category", "values": ["a", "b"]},
        },
    }
)
ONE = pa.table({"x": [0] * 300 + [5] * 300, "y": ["a"] * 300 + ["b"] * 300})
OTHER = pa.table({"x": [0] * 301 + [5] * 299, "y": ["a"] * 301 + ["b"] * 299})
FEW_ROWS = (
    pa.table({"x": [0, 0, 0, 0, 0, 5], "y": ["a"] * 6}),
    pa.table({"x": [0, 0, 0, 0, 0, 0], "y": ["a"] * 6}),
)
RUNS = 2000


def learned(table: pa.Table, randomness: Randomness, **plan: Any) -> learning.Learned:
    """What is learned of a table, before anything is drawn from it."""
    design = design_of(sherd.Plan(method="dp-graph", **plan), FEW)
    coded = code(table, FEW, design)
    chooser = NoisyChoice(coded, randomness, design.kind)
    return learning.learn(design, NoisyCounts(coded, randomness), chooser)


def proved(
    statistic: Callable[[learning.Learned], float],
    *,
    tables: tuple[pa.Table, pa.Table] = (ONE, OTHER),
    runs: int = RUNS,
    **plan: Any,
) -> float:
    """The largest ε that attacks on the pair of tables prove, at 95 %."""
    found = []
    for seed, table in enumerate(tables):
        sources = Randomness.seeded(seed).spawn(runs)
        found.append(np.array([statistic(learned(table, one, **plan)) for one in sources]))
    return lower_bound(found[0], found[1]).lower


CODED = [
    CodedTable([np.array(t["x"]), (np.array(t["y"]) == "b").astype(np.int64)], [6, 2])
    for t in (ONE, OTHER)
]


def likelihood(one: learning.Learned) -> float:
    """How much likelier all that was measured is with one table than with the other."""
    score = 0.0
    for measured in (*one.fine, *one.measured):
        scale = float(measured.request.noise.scale)
        power = 1 if measured.request.noise.kind == "laplace" else 2
        far, near = (
            np.abs(measured.counts - table.histogram(measured.request.marginal)) ** power
            for table in reversed(CODED)
        )
        score += float((far - near).sum()) / (scale if power == 1 else 2 * scale**2)
    return score


def test_attacks_never_prove_more_than_the_promise(unfitted: None) -> None:
    """The best attack on everything measured, pure ε = 1: it proves something, never more."""
    assert 0.1 < proved(likelihood, epsilon=1.0, choice="all") <= 1.0


def test_bins_from_exact_counts_are_found(monkeypatch: pytest.MonkeyPatch, unfitted: None) -> None:
    """Bins that depend on true counts tell the two tables apart by themselves."""
    exact: dict[int, Any] = {}

    def peeked(design: Any, fine: Any, rows: int) -> Any:
        return tuple(
            coarsen(exact[a], 0.1, grid, rows=rows, kinds=np.zeros(grid.size, np.int64))
            for a, grid in enumerate(design.grids)
        )

    monkeypatch.setattr(learning, "bins_of", peeked)
    right = CodedTable.histogram

    def remembered(self: CodedTable, marginal: Any) -> Any:
        found = right(self, marginal)
        if len(marginal.attributes) == 1:
            exact[marginal.attributes[0]] = found
        return found

    monkeypatch.setattr(CodedTable, "histogram", remembered)
    bins = lambda one: float(one.binnings[0].size)  # noqa: E731 - a statistic
    assert proved(bins, tables=FEW_ROWS, runs=100, epsilon=1.0, choice="all") > 1.0
