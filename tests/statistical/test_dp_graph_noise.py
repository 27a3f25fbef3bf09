"""``dp-graph`` keeps its promise from end to end, by tests that find planted bugs.

Residuals: false alarms in a million (see ``noise_residuals``), seeds are fixed. The audit of ε
attacks the worst pair of neighbouring tables through everything that asks the data, by the ratio of
likelihoods, which no test beats; its lower bound exceeds the promise with a probability of at most
5 % where the promise holds (Clopper–Pearson, 95 %), comes near it, and is above it where a bug
was planted.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from measured_likelihood import (
    NoisyView,
    log_ratio,
    proved_epsilon,
    proved_rho,
)

import sherd
from sherd.auditing.epsilon.experiment import lower_bound
from sherd.methods.graphical import learning
from sherd.methods.graphical.coarsening import coarsen
from sherd.methods.graphical.dp_graph import code, design_of
from sherd.methods.graphical.measuring import CodedTable, Marginal, Noise, NoisyCounts
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
FEW_ROWS = (
    pa.table({"x": [0, 0, 0, 0, 0, 5], "y": ["a"] * 6}),
    pa.table({"x": [0, 0, 0, 0, 0, 0], "y": ["a"] * 6}),
)


class Remembered:
    """A count source that counts every marginal once."""

    def __init__(self, source: CodedTable) -> None:
        self._source, self.rows = source, source.rows
        self._known: dict[Marginal, Any] = {}

    def histogram(self, marginal: Marginal) -> Any:
        """The exact counts."""
        if marginal not in self._known:
            self._known[marginal] = self._source.histogram(marginal)
        return self._known[marginal]


class Recorded:
    """A chooser that notes how much likelier each choice was with the one table."""

    def __init__(self, tables: tuple[Remembered, Remembered], of: int, source: Randomness) -> None:
        self._made = NoisyChoice(tables[of], source, "gaussian")
        self._other = NoisyChoice(tables[1 - of], source, "gaussian")
        self._sign = 1 if of == 0 else -1
        self.score = 0.0

    def choose(self, candidates: Any, rate: Fraction) -> int:
        """Choose, and add the ratio of the exponential mechanism's two probabilities."""
        place = self._made.choose(candidates, rate)
        chances = []
        for chooser in (self._made, self._other):
            worth = np.array([chooser.utility(one) for one in candidates]) * float(rate) / 4
            chances.append(worth[place] - np.logaddexp.reduce(worth))
        self.score += self._sign * (chances[0] - chances[1])
        return place


def pair(attributes: int) -> tuple[Remembered, Remembered]:
    """The worst neighbours: one record changes in every attribute, and every count is large."""
    one, other = (np.array([0] * (300 + more) + [1] * (300 - more)) for more in (0, 1))
    sizes = [2] * attributes
    return tuple(  # type: ignore[return-value]
        Remembered(CodedTable([codes] * attributes, sizes)) for codes in (one, other)
    )


def attacked(attributes: int, runs: int, **plan: Any) -> tuple[Any, Any, float]:
    """The ratios of runs on both tables, through everything that asks the data; the promise."""
    few = {f"a{i}": {"type": "category", "values": ["a", "b"]} for i in range(attributes)}
    schema = sherd.Schema.from_data({"missing": "refuse", "attributes": few})
    design = design_of(sherd.Plan(method="dp-graph", **plan), schema)
    tables, found = pair(attributes), []
    for of in (0, 1):
        source, scores = Randomness.seeded(of), []
        measurer = NoisyCounts(tables[of], source)
        for _ in range(runs):
            chooser = Recorded(tables, of, source)
            seen = learning.learn(design, measurer, chooser)
            views = (
                NoisyView(
                    counts=one.counts,
                    one=tables[0].histogram(one.request.marginal),
                    other=tables[1].histogram(one.request.marginal),
                    kind=one.request.noise.kind,
                    scale=float(one.request.noise.scale),
                )
                for one in (*seen.fine, *seen.measured)
            )
            scores.append(log_ratio(views) + chooser.score)
        found.append(np.array(scores))
    return found[0], found[1], float(design.total)


@pytest.fixture
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw noise of each scale many at a time: the same sampler, asked less often."""
    right = Noise.draw
    left: dict[Any, Any] = {}

    def draw(self: Noise, randomness: Randomness, n: int) -> Any:
        key = (self, id(randomness))
        have = left.get(key, ())
        if len(have) < n:
            have = right(self, randomness, 10_000)
        left[key] = have[n:]
        return have[:n]

    monkeypatch.setattr(Noise, "draw", draw)


MANY = pytest.param(2, 20_000, 3.0, 0.85, 0.9, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("attributes", "runs", "epsilon", "share", "event"),
    [(1, 3000, 1.0, 0.8, 0.8), (2, 3000, 3.0, 0.6, 0.8), MANY],
)
def test_the_best_attack_proves_most_of_a_pure_promise_and_never_more(
    unfitted: None,
    buffered: None,
    attributes: int,
    runs: int,
    epsilon: float,
    share: float,
    event: float,
) -> None:
    """Every histogram of the release; the event, a share of the largest ratio, is fixed before.

    With more runs a rarer event proves more.
    """
    one, other, total = attacked(attributes, runs, epsilon=epsilon, choice="all")
    assert max(one.max(), -other.min()) <= total + 1e-9  # no single run says more than ε
    proved = proved_epsilon(one, other, least=event * total)
    assert share * total < proved <= total


@pytest.mark.parametrize("choice", ["all", "tree"])
def test_the_best_attack_proves_most_of_a_gaussian_promise_and_never_more(
    unfitted: None, buffered: None, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of ρ, with choices under privacy as well (a tree alone: more needs a fit)."""
    monkeypatch.setattr(learning, "FURTHER", 1e9)
    one, other, total = attacked(3, 1500, epsilon=6.0, delta=1e-9, choice=choice)
    assert 0.6 * total < proved_rho(one, other) <= total


@pytest.mark.parametrize("delta", [None, 1e-9])
def test_halved_noise_is_found(
    delta: float | None, unfitted: None, buffered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sampler that draws half of what is declared breaks the promise, and the attack shows it.

    The attacker knows of the bug, as attackers do: ratios are taken with the noise as it is.
    """
    right = Noise.draw

    def halved(self: Noise, randomness: Randomness, n: int) -> Any:
        return right(dataclasses.replace(self, scale=self.scale / 2), randomness, n)

    monkeypatch.setattr(Noise, "draw", halved)
    if delta is None:
        one, other, total = attacked(1, 1000, epsilon=1.0, choice="all")
        assert proved_epsilon(one, other, least=0.8 * total) > total
    else:
        one, other, total = attacked(2, 600, epsilon=6.0, delta=delta, choice="all")
        assert proved_rho(one, other) > total


def learned(table: pa.Table, randomness: Randomness, **plan: Any) -> learning.Learned:
    """What is learned of a table, before anything is drawn from it."""
    design = design_of(sherd.Plan(method="dp-graph", **plan), FEW)
    coded = code(table, FEW, design)
    chooser = NoisyChoice(coded, randomness, design.kind)
    return learning.learn(design, NoisyCounts(coded, randomness), chooser)


def proved(statistic: Callable[[learning.Learned], float], *, runs: int, **plan: Any) -> float:
    """The largest ε that attacks on the pair of small tables prove, at 95 %."""
    found = []
    for seed, table in enumerate(FEW_ROWS):
        sources = Randomness.seeded(seed).spawn(runs)
        found.append(np.array([statistic(learned(table, one, **plan)) for one in sources]))
    return lower_bound(found[0], found[1]).lower


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
    assert proved(bins, runs=100, epsilon=1.0, choice="all") > 1.0
