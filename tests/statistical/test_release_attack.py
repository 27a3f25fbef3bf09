"""Releases of ``dp-graph`` as they leave, attacked by the definition of differential privacy.

For two neighbouring tables and every event S, P(S | one) ≤ e^ε·P(S | other) + δ. Whole releases are
made of both, from ``sherd.protect`` on, with the fit and the drawing that other tests leave out.
Everything that is seen of a release is a number or a text: noisy counts, bins, choices, drawn
values, their order, types, sizes. The event is the best that half of the releases show; the other
half judges it (Clopper–Pearson, 95 %). Nothing of the audit takes part. Seeds are fixed.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import beta

import sherd
from sherd.methods.graphical import learning
from sherd.methods.graphical.coarsening import coarsen
from sherd.methods.graphical.measuring import CodedTable, Noise
from sherd.release.protect import Settings

pytestmark = pytest.mark.statistical

View = dict[str, float | str]
LABELS = {"type": "category", "values": ["a", "b"]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Two neighbouring tables, as how many records have the first label in every attribute."""

    attributes: int
    rows: int
    firsts: tuple[int, int]
    plan: dict[str, Any]
    person: bool = False

    @property
    def schema(self) -> sherd.Schema:
        """Labels only; where a person may have several rows, whose each is."""
        names: dict[str, Any] = {f"a{i}": LABELS for i in range(self.attributes)}
        more: dict[str, Any] = {}
        if self.person:
            names["id"] = {"type": "category", "role": "identifier"}
            more = {"unit": "id", "rows_per_unit": self.firsts[1] - self.firsts[0]}
        return sherd.Schema.from_data({"missing": "refuse", "attributes": names, **more})

    @property
    def promise(self) -> tuple[float, float]:
        """ε and δ."""
        plan = sherd.Plan(method="dp-graph", **self.plan)
        told: dict[str, Any] = dict(plan.guarantee(self.schema).as_data())
        return told["epsilon"], told["delta"]

    def table(self, of: int) -> pa.Table:
        """One of the two."""
        first = self.firsts[of]
        labels = ["a"] * first + ["b"] * (self.rows - first)
        columns = {f"a{i}": labels for i in range(self.attributes)}
        if self.person:  # those in which the tables differ are one person's
            low, high = self.firsts
            columns["id"] = ["x" if low <= i < high else str(i) for i in range(self.rows)]
        return pa.table(columns)

    def views(self, of: int, runs: int, factor: float = 1.0) -> list[View]:
        """What is seen of so many releases."""
        table, schema = self.table(of), self.schema
        plan = sherd.Plan(method="dp-graph", **self.plan)
        return [
            self.view(
                sherd.protect(table, schema, plan, ledger=None, settings=Settings(seed=seed)),
                factor,
            )
            for seed in range(of * runs, (of + 1) * runs)
        ]

    def view(self, release: sherd.Release, factor: float) -> View:
        """Everything of a release, and the ratio of likelihoods of its counts."""
        model = json.loads(json.dumps(release.documents["model"]))
        drawn = release.table.to_pylist()
        seen: View = {
            "ratio": sum(self._ratio(model, one, factor) for one in self._counted(model)),
            "bins": str([one["bins"] for one in model["attributes"]]),
            "chosen": str([one["attributes"] for one in model["marginals"]]),
            "form": f"{release.table.schema} {len(drawn)} {sorted(release.manifest['facts'])}",
            "first": str(drawn[0]),
            "changes": sum(one != next_ for one, next_ in itertools.pairwise(drawn)),
            "length": len(json.dumps(model)),
        }
        for name in release.table.column_names:
            seen[f"drawn {name}"] = sum(row[name] == "a" for row in drawn)
        for one in model["fine"]:
            seen[f"counted {one['attributes']}"] = one["counts"][0]
        return seen

    @staticmethod
    def _counted(model: dict[str, Any]) -> list[dict[str, Any]]:
        bins = {one["name"]: one["bins"] for one in model["attributes"]}
        whole = [one for one in model["marginals"] if all(max(bins[n]) for n in one["attributes"])]
        return [*model["fine"], *whole]  # a marginal of merged labels is left out

    def _ratio(self, model: dict[str, Any], one: dict[str, Any], factor: float) -> float:
        """The log of P(counts | second table) / P(counts | first); labels go together in both."""
        noisy, scale = np.ravel(one["counts"]), factor * float(Fraction(one["scale"]))
        losses = []
        for first in self.firsts:
            exact = np.zeros(len(noisy))
            exact[[0, -1]] = first, self.rows - first
            away = np.abs(noisy - exact) / scale
            losses.append(float((away if model["noise"] == "laplace" else away**2 / 2).sum()))
        return losses[0] - losses[1]


Event = tuple[str, float | str, bool, bool]
"""A name, a value, whether at least (else at most) that, and whether the tables change places."""


def held(views: list[View], event: Event) -> int:
    """In how many views an event happened; a text must be the same."""
    name, at, above, _ = event
    if isinstance(at, str):
        return sum((one.get(name) == at) == above for one in views)
    return sum((one[name] >= at) if above else (one[name] <= at) for one in views)  # type: ignore[operator]


def proved(
    views: tuple[list[View], list[View]], event: Event, delta: float, alpha: float = 0.05
) -> float:
    """The ε that an event proves, at 95 %."""
    (one, n), (other, m) = ((held(some, event), len(some)) for some in views)
    if event[3]:
        (one, n), (other, m) = (other, m), (one, n)
    low = float(beta.ppf(alpha / 2, other, m - other + 1)) if other else 0.0
    high = float(beta.ppf(1 - alpha / 2, one + 1, n - one)) if one < n else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf


def attacked(pair: Pair, runs: int, factor: float = 1.0) -> float:
    """The ε that the best event of every other release proves by the releases between."""
    every = [pair.views(of, runs, factor) for of in (0, 1)]
    learning_half = (every[0][::2], every[1][::2])
    events: list[Event] = []
    for name in every[0][0]:
        values = [one[name] for one in itertools.chain(*learning_half) if name in one]
        cuts: list[Any] = sorted(set(values), key=str if isinstance(values[0], str) else None)
        if len(cuts) > 40 and not isinstance(values[0], str):
            cuts = np.quantile(np.array(values, float), np.linspace(0, 1, 40)).tolist()
        events += itertools.product([name], cuts[:40], [True, False], [True, False])
    _, delta = pair.promise
    # Of many events some look good by chance: one is chosen that stands out, by 99.9 %.
    best = max(events, key=lambda event: proved(learning_half, event, delta, alpha=0.001))
    return proved((every[0][1::2], every[1][1::2]), best, delta)


PURE = Pair(attributes=1, rows=40, firsts=(20, 21), plan={"epsilon": 1.0})
PAIRS = {
    "pure": PURE,
    "gaussian": Pair(
        attributes=2,
        rows=60,
        firsts=(30, 31),
        plan={"epsilon": 2.0, "delta": 0.1, "choice": "all"},
    ),
    "person": Pair(
        attributes=2,
        rows=200,
        firsts=(100, 103),
        plan={"epsilon": 0.7, "delta": 0.1, "choice": "all"},
        person=True,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_no_event_is_more_likely_than_promised(name: str) -> None:
    """One record of pure ε and of (ε, δ), a person of three rows; the attack does find a part."""
    assert 0.1 < attacked(PAIRS[name], 400) <= PAIRS[name].promise[0]


BROKEN = {
    "pure": PURE,
    "gaussian": dataclasses.replace(PURE, plan={"epsilon": 1.0, "delta": 0.2}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_halved_noise_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that draws half of what is stated; attackers know of it.

    Of one attribute: all of the budget is in one histogram, and a release takes little time.
    """
    right = Noise.draw

    def halved(self: Noise, randomness: Any, n: int) -> Any:
        return right(dataclasses.replace(self, scale=self.scale / 2), randomness, n)

    monkeypatch.setattr(Noise, "draw", halved)
    pair = BROKEN[name]
    assert attacked(pair, 1000, factor=0.5) > pair.promise[0]


def test_bins_from_exact_counts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record alone with its label: whether the label has a bin tells of it."""
    exact: dict[int, Any] = {}
    right = CodedTable.histogram

    def noted(self: CodedTable, marginal: Any) -> Any:
        counts = right(self, marginal)
        if len(marginal.attributes) == 1:
            exact[marginal.attributes[0]] = counts
        return counts

    def peeked(design: Any, _: Any, rows: int) -> Any:
        nothing = np.zeros(2, np.int64)
        return tuple(
            coarsen(exact[a], 0.1, grid, rows=rows, kinds=nothing)
            for a, grid in enumerate(design.grids)
        )

    monkeypatch.setattr(CodedTable, "histogram", noted)
    monkeypatch.setattr(learning, "bins_of", peeked)
    alone = Pair(attributes=2, rows=6, firsts=(5, 6), plan={"epsilon": 2.0})
    assert attacked(alone, 120) > 2.0
