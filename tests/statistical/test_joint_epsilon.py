"""Joint ``dp-graph`` keeps its promise in the eyes of outsiders and of every insider.

As in ``test_dp_graph_noise`` the worst pair of neighbours is attacked through everything that asks
the data, by the ratio of likelihoods. Each run is looked at by several eyes: outsiders see the
opened numbers, insiders the same less the noise that they drew themselves. What the runs prove of ρ
(Clopper–Pearson, 95 %) must come near the promise for those eyes and never exceed it; where a bug
was planted it must exceed it, in the eyes of those who know of the bug. Seeds are fixed.

The fit is left out: it is given opened numbers only. Masks and shares are those of other tests
(``test_sum_rounds``, ``test_secure_equals_plain``): nobody sees anything of them but sums.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from measured_likelihood import NoisyView, log_ratio, proved_rho

import sherd
from sherd.methods.graphical import learning
from sherd.methods.graphical.dp_graph import code, design_of
from sherd.methods.graphical.fragment_numbers import own_codes, own_counts
from sherd.methods.graphical.joint_cells import (
    held_cells,
    holders_of,
    insiders_cost,
    learn_jointly,
)
from sherd.methods.graphical.measuring import Noise
from sherd.methods.graphical.row_sums import learn_from_sums, next_question
from sherd.methods.graphical.shared_noise import SharedNoise
from sherd.randomness import Randomness
from sherd.release.summed_rows import RowOwners
from sherd.secure.engine.interface import PlainEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Eyes = frozenset[int]

pytestmark = pytest.mark.statistical

ATTRIBUTES = 5
"""As many as let each part of the noise be large enough to be shared out as it was asked for."""

SCHEMA = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {
            f"a{i}": {"type": "category", "values": ["a", "b"]} for i in range(ATTRIBUTES)
        },
    }
)
DESIGN = design_of(sherd.Plan(method="dp-graph", epsilon=11.0, delta=1e-9, choice="all"), SCHEMA)
ROWS, EVERY = 240, range(ATTRIBUTES)
OUTSIDE: Eyes = frozenset()
VICTIM = 0
"""The owner or party that holds the record in which the two tables differ."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the fit; let ``OwnNoise`` stand where a source of randomness does."""
    monkeypatch.setattr(learning, "fit_model", lambda *_: None)
    right = Noise.draw

    def draw(self: Noise, source: Any, n: int) -> Numbers:
        return source.draw(self, n) if isinstance(source, OwnNoise) else right(self, source, n)

    monkeypatch.setattr(Noise, "draw", draw)


class OwnNoise:
    """One party's noise: the real sampler, asked for many draws at once; what was drawn is noted.

    ``factor`` is a planted bug: the noise has so many times the deviation that it should have.
    """

    def __init__(self, seed: int, factor: Fraction = Fraction(1)) -> None:
        self._source, self._factor = Randomness.seeded(seed), factor
        self._left: dict[Noise, Numbers] = {}
        self._noted: list[Numbers] = []

    def draw(self, noise: Noise, n: int) -> Numbers:
        """So many draws."""
        have = self._left.get(noise, np.zeros(0, np.int64))
        if len(have) < n and not self._factor:
            have = np.zeros(n, np.int64)
        elif len(have) < n:
            have = dataclasses.replace(noise, scale=noise.scale * self._factor).draw(
                self._source, 5000
            )
        self._left[noise] = have[n:]
        self._noted.append(have[:n])
        return have[:n]

    def noted(self) -> Numbers:
        """All draws since this was last asked."""
        found, self._noted = np.concatenate(self._noted), []
        return found


def neighbours(changed: Sequence[int]) -> tuple[pa.Table, pa.Table]:
    """Two tables that differ in some attributes of the first record; every count is large."""
    one = {f"a{i}": ["a"] * (ROWS // 2) + ["b"] * (ROWS // 2) for i in EVERY}
    other = {f"a{i}": ["b" if i in changed else "a", *one[f"a{i}"][1:]] for i in EVERY}
    return pa.table(one), pa.table(other)


def counted_once(table: pa.Table) -> Any:
    """A table's exact counts, each histogram counted once however often it is asked for."""
    coded = code(table, SCHEMA, DESIGN)
    coded.histogram = functools.cache(coded.histogram)  # type: ignore[method-assign]
    return coded


@dataclass(frozen=True, kw_only=True)
class Split:
    """How the records lie: who learns what of a table, who looks, and what they are promised.

    ``eyes`` are the sets of parties that may put together what they know; none of them for
    outsiders. ``part`` is the deviation of one party's part of stated noise on so many counts.
    """

    parties: int
    eyes: Sequence[Eyes]
    tables: tuple[pa.Table, pa.Table]
    learned: Callable[[pa.Table, list[OwnNoise]], Callable[[], learning.Learned]]
    promise: Callable[[learning.Learned, Eyes], Fraction]
    part: Callable[[Noise, int], float]


def by_rows(owners: int, colluders: int) -> Split:
    """Records dealt out to owners, the first of which has the record that differs."""
    among = RowOwners(owners=owners, colluders=colluders, rows=ROWS)

    def learned(table: pa.Table, noises: list[OwnNoise]) -> Callable[[], learning.Learned]:
        parts = [counted_once(table.take(pa.array(range(i, ROWS, owners)))) for i in range(owners)]

        def once() -> learning.Learned:
            answered: list[Any] = []
            while (question := next_question(DESIGN, among, answered)) is not None:
                told = [
                    own_counts(part, among, question, noise)  # type: ignore[arg-type]
                    for part, noise in zip(parts, noises, strict=True)
                ]
                answered.append((question, np.sum(told, axis=0)))
            return learn_from_sums(DESIGN, among, answered)

        return once

    together = [frozenset(range(owners - few, owners)) for few in range(colluders + 1)]
    return Split(
        parties=owners,
        eyes=together,
        tables=neighbours(EVERY),
        learned=learned,
        promise=lambda found, eyes: DESIGN.total if eyes else found.spent,
        part=lambda stated, _: float(stated.scale) / math.sqrt(owners),
    )


def by_parties(holder: NDArray[np.int64], changed: Sequence[int]) -> Split:
    """Cells at the parties that the matrix names; the records differ in what the victim holds."""
    parties = int(holder.max()) + 1

    def learned(table: pa.Table, noises: list[OwnNoise]) -> Callable[[], learning.Learned]:
        cells = [
            pa.table(
                {
                    name: pa.array(table[name].to_pylist(), pa.string(), mask=holder[:, a] != p)
                    for a, name in enumerate(table.column_names)
                }
            )
            for p in range(parties)
        ]
        codes = [own_codes(one, SCHEMA, DESIGN) for one in cells]
        holders = holders_of([held_cells(one) for one in codes], DESIGN)

        def once() -> learning.Learned:
            engine = PlainEngine([Randomness.seeded(p) for p in range(parties)])
            mine = dict(enumerate(codes))
            draws = lambda party: noises[party].draw  # noqa: E731 - as the parties' programs do
            return learn_jointly(engine, DESIGN, holders, ROWS, mine, draws, parties)

        return once

    sharing = SharedNoise(owners=parties, colluders=0)
    return Split(
        parties=parties,
        eyes=[OUTSIDE, *(frozenset({p}) for p in range(parties) if p != VICTIM)],
        tables=neighbours(changed),
        learned=learned,
        promise=lambda found, eyes: insiders_cost(found, parties) if eyes else found.spent,
        part=lambda stated, cells: float(sharing.part(stated, cells).scale),
    )


def by_columns() -> Split:
    """One attribute at the second party, which looks; the others at the victim."""
    last = ATTRIBUTES - 1
    return by_parties(np.tile([VICTIM] * last + [1], (ROWS, 1)), changed=range(last))


def by_cells(parties: int) -> Split:
    """Every cell at one of the parties, those of the first record at the victim."""
    holder = np.random.default_rng(3).integers(0, parties, (ROWS, ATTRIBUTES))
    holder[0] = VICTIM
    return by_parties(holder, changed=EVERY)


LEAST = 0.1
"""The deviation that an attacker reckons with where no noise is left."""

SPLITS: dict[str, Callable[[], Split]] = {
    "rows, all but one collude": lambda: by_rows(3, 2),
    "columns of two": by_columns,
    "cells of two": lambda: by_cells(2),
}
MORE: dict[str, Callable[[], Split]] = {
    "rows, nobody colludes": lambda: by_rows(2, 0),
    "rows, one colludes": lambda: by_rows(3, 1),
    "rows, two of five collude": lambda: by_rows(5, 2),
    "cells of three": lambda: by_cells(3),
}


def proved(
    split: Split, runs: int, factors: Sequence[Fraction] | None = None, known: Eyes = frozenset()
) -> dict[Eyes, tuple[float, float]]:
    """For everybody who looks: the ρ that is proved, and the ρ that is promised.

    With planted bugs: ``factors`` of the parties' noise, or parties whose noise is ``known`` to
    all insiders. Attackers know of them, as attackers do.
    """
    factors = factors or [Fraction(1)] * split.parties
    sources = [counted_once(table) for table in split.tables]
    scores: dict[Eyes, tuple[list[float], list[float]]] = {e: ([], []) for e in split.eyes}
    promised: dict[Eyes, float] = {}
    for of, table in enumerate(split.tables):
        noises = [OwnNoise(100 * of + p, factor) for p, factor in enumerate(factors)]
        once = split.learned(table, noises)
        for _ in range(runs):
            found = once()
            noted = [one.noted() for one in noises]
            for eyes, both in scores.items():
                taken_off = eyes | known if eyes else eyes
                off = sum((noted[p] for p in taken_off), np.zeros_like(noted[0]))
                left = [float(f) ** 2 for p, f in enumerate(factors) if p not in taken_off]
                views = _views(split, found, off, math.sqrt(sum(left)), sources)
                both[of].append(log_ratio(views))
                promised[eyes] = float(split.promise(found, eyes))
    return {
        eyes: (proved_rho(np.array(one), np.array(other)), promised[eyes])
        for eyes, (one, other) in scores.items()
    }


def _views(
    split: Split, found: learning.Learned, off: Numbers, deviation: float, sources: Sequence[Any]
) -> list[NoisyView]:
    """What somebody sees of each histogram who takes off noise; of the rest, the deviation."""
    views, at = [], 0
    for one in (*found.fine, *found.measured):
        marginal, cells = one.request.marginal, one.request.marginal.cells
        views.append(
            NoisyView(
                counts=one.counts.ravel() - off[at : at + cells],
                one=sources[0].histogram(marginal).ravel(),
                other=sources[1].histogram(marginal).ravel(),
                kind="gaussian",
                scale=max(LEAST, deviation * split.part(one.request.noise, cells)),
            )
        )
        at += cells
    return views


@pytest.mark.parametrize("name", SPLITS)
def test_nobody_is_told_more_than_the_promise_unless_noise_is_known(name: str) -> None:
    """Outsiders, every party, as many owners as may collude: the attack is near and never above.

    Noise of the victim's that insiders know, as if it were drawn from what everybody in the round
    knows, is found by all of them together, and by no outsider.
    """
    split = SPLITS[name]()
    found = proved(split, 250)
    for eyes, (rho, promise) in found.items():
        assert 0 < rho <= promise, eyes
    rho, promise = found[split.eyes[-1]]
    assert rho > 0.4 * promise
    leaked = proved(split, 60, known=frozenset({VICTIM}))
    assert leaked[OUTSIDE][0] <= leaked[OUTSIDE][1]
    assert leaked[split.eyes[-1]][0] > leaked[split.eyes[-1]][1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SPLITS, *MORE])
def test_many_runs_come_nearer(name: str) -> None:
    """The same, and owners of whom fewer collude, with 4,000 runs."""
    split = {**SPLITS, **MORE}[name]()
    found = proved(split, 4000)
    assert all(0 < rho <= promise for rho, promise in found.values())
    for eyes in (split.eyes[0], split.eyes[-1]):
        assert found[eyes][0] > NEAR.get(name, 0.75) * found[eyes][1], eyes


NEAR = {"cells of three": 0.4}
"""Where parts of noise are rounded up to the least that may be shared out, there is more of it."""

NONE, HALF, ALL = Fraction(0), Fraction(1, 2), Fraction(1)


@pytest.mark.parametrize("name", SPLITS)
def test_halved_noise_is_found_by_everybody(name: str) -> None:
    """A sampler that draws half of what is asked for, at all parties."""
    split = SPLITS[name]()
    for eyes, (rho, promise) in proved(split, 150, [HALF] * split.parties).items():
        if len(eyes) != 1 or split.parties == 2:  # one of two that may collude has room to spare
            assert rho > promise, eyes


@pytest.mark.parametrize("name", SPLITS)
def test_missing_noise_of_the_victim_is_found_by_those_whom_it_should_stop(name: str) -> None:
    """One owner or party that adds none; the others know what they added themselves."""
    split = SPLITS[name]()
    found = proved(split, 60, [NONE, *[ALL] * (split.parties - 1)])
    rho, promise = found[split.eyes[-1]]
    assert rho > promise


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLITS)
def test_outsiders_find_missing_noise_too(name: str) -> None:
    """There is less noise in all than is stated."""
    split = SPLITS[name]()
    rho, promise = proved(split, 3000, [NONE, *[ALL] * (split.parties - 1)])[OUTSIDE]
    assert rho > promise
