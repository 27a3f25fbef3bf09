"""Nobody's view of noisy counts says more than it may, and a bug shows in every view it concerns.

Very many runs lie side by side in one histogram: a run has two cells of it and one record, at the
victim, which is in the first cell or in the second. So the code that draws, shares out and masks
noise is that of a release, asked once for all of them, and what a view proves by the ratio of
likelihoods (Clopper-Pearson, 95 %) is known to a few parts in a hundred, of (ε, δ) as of ρ.

Views are those of outsiders, of the aggregator that reads one owner's masked answer, of each
number of colluding owners, and of every party. Power: bugs that leave a view a quarter less noise
than it must face are found in it, whatever the split; the same bug may leave another view with as
much as it was promised, and must not be found there. Seeds are fixed.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from measured_likelihood import proved_epsilon, proved_rho

from sherd.federation.protocol import summing
from sherd.guarantees.concentrated import epsilon_of, rho_of
from sherd.methods.graphical import shared_noise
from sherd.methods.graphical.fragment_numbers import own_counts
from sherd.methods.graphical.measuring import CodedTable, Marginal, Noise, NoisyCounts, Request
from sherd.methods.graphical.row_questions import HistogramQuestion
from sherd.methods.graphical.row_sums import sharing_of
from sherd.methods.graphical.secure_measuring import HolderLayout, Insiders, SecureMeasurer
from sherd.methods.graphical.shared_noise import SharedNoise
from sherd.randomness import Randomness
from sherd.release.summed_rows import RowOwners
from sherd.secure.engine.interface import PlainEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

pytestmark = pytest.mark.statistical

RUNS = 100_000
"""Runs in one histogram."""

EPSILON, DELTA = Fraction(1, 2), Fraction(1, 100)
"""Where many views of (ε, δ) can be told from broken ones by so many runs."""

RHO = rho_of(EPSILON, DELTA)
CELLS = tuple(range(2 * RUNS))
ASKED = Request(
    marginal=Marginal(attributes=(0,), bins=(CELLS,)), noise=Noise.costing("gaussian", RHO)
)
VICTIM = 0
SLACK = 1.25
"""How much more than promised a bug must tell a view for the runs to prove it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """What somebody sees of every run, the deviation they reckon with, and what is promised."""

    seen: Numbers
    deviation: float
    promise: Fraction

    @property
    def ratios(self) -> NDArray[np.float64]:
        """How much likelier, in logarithms, each run is with the record in the first cell."""
        first, second = self.seen.reshape(-1, 2).astype(np.float64).T
        far = first**2 + (second - 1) ** 2
        return (far - (first - 1) ** 2 - second**2) / (2 * self.deviation**2)


class OwnNoise:
    """One party's noise, by the real sampler; what was drawn last is noted."""

    def __init__(self, seed: int, factor: Fraction) -> None:
        self._source, self.factor = Randomness.seeded(seed), factor
        self.noted: Numbers = np.zeros(0, np.int64)

    def draw(self, noise: Noise, n: int) -> Numbers:
        """So many draws, of ``factor`` times the deviation."""
        self.noted = np.zeros(n, np.int64)
        if self.factor:
            less = dataclasses.replace(noise, scale=noise.scale * self.factor)
            self.noted = less.draw(self._source, n)
        return self.noted


@pytest.fixture(autouse=True)
def _noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let ``OwnNoise`` stand where a source of randomness does."""
    right = Noise.draw

    def draw(self: Noise, source: Any, n: int) -> Numbers:
        return source.draw(self, n) if isinstance(source, OwnNoise) else right(self, source, n)

    monkeypatch.setattr(Noise, "draw", draw)
    yield
    shared_noise._least_steps.cache_clear()


def records(cell: int) -> Numbers:
    """The record of each run, in its first or its second cell."""
    return np.arange(RUNS) * 2 + cell


def left(noises: Sequence[OwnNoise], part: Noise) -> float:
    """The deviation of the sum of these parties' noise."""
    square = sum((float(one.factor * part.scale) ** 2 for one in noises), 0.0)
    return max(0.1, math.sqrt(square))


def of_one_owner(cell: int, noises: Sequence[OwnNoise]) -> dict[str, View]:
    """The release of one owner."""
    table = CodedTable([records(cell)], [2 * RUNS])
    (answer,) = NoisyCounts(table, noises[0]).measure([ASKED])  # type: ignore[arg-type]
    deviation = left(noises, ASKED.noise)
    return {"outsiders": View(seen=answer.counts, deviation=deviation, promise=RHO)}


def of_rows(colluders: int) -> Callable[[int, Sequence[OwnNoise]], dict[str, View]]:
    """Owners of rows: the victim has the record, each other owner one record in both cells."""

    def views(cell: int, noises: Sequence[OwnNoise]) -> dict[str, View]:
        owners = len(noises)
        among = RowOwners(owners=owners, colluders=colluders, rows=RUNS * (2 * owners - 1))
        sharing, cells = sharing_of(among), 2 * RUNS
        part = sharing.part(ASKED.noise, cells)
        question = HistogramQuestion(binnings=(CELLS,), marginals=(((0,), ASKED.noise.scale),))
        others = CodedTable([np.arange(2 * RUNS)], [cells])
        tables = [CodedTable([records(cell)], [cells]), *[others] * (owners - 1)]
        told = [
            own_counts(table, among, question, one)  # type: ignore[arg-type]
            for table, one in zip(tables, noises, strict=True)
        ]
        seeds = {str(i): bytes([i + 1]) * 32 for i in range(owners)}
        keys = {name: summing.public_key(seed) for name, seed in seeds.items()}
        masked = [
            summing.masked(numbers, seeds[str(i)], str(i), keys, b"a question")
            for i, numbers in enumerate(told)
        ]
        opened = summing.total(masked) - (owners - 1)
        found = {
            "the aggregator": View(
                seen=np.frombuffer(masked[VICTIM], "<i8"),
                deviation=left(noises[:1], part),
                promise=RHO,
            ),
            "outsiders": View(
                seen=opened,
                deviation=left(noises, part),
                promise=sharing.whole(ASKED.noise, cells).cost,
            ),
        }
        for few in range(1, colluders + 1):
            known = sum((one.noted for one in noises[-few:]), np.zeros(cells, np.int64))
            found[f"{few} colluding"] = View(
                seen=opened - known, deviation=left(noises[:-few], part), promise=RHO
            )
        return found

    return views


def of_parties(*, by_cells: bool) -> Callable[[int, Sequence[OwnNoise]], dict[str, View]]:
    """Parties: the victim has the column, or with another's a cell of it for each run."""

    def views(cell: int, noises: Sequence[OwnNoise]) -> dict[str, View]:
        parties, own = len(noises), records(cell)
        codes = {p: [np.full(RUNS, -1)] * (1 + by_cells) for p in range(parties)}
        codes[VICTIM][0] = own
        if by_cells:
            codes[parties - 1] = [codes[parties - 1][0], records(0)]
        layout = HolderLayout(
            holders=(None if by_cells else VICTIM,),
            sizes=(2 * RUNS,),
            rows=RUNS * (1 + by_cells),
        )
        measurer = SecureMeasurer(
            PlainEngine([Randomness.seeded(p) for p in range(parties)]),
            layout,
            {p: (np.concatenate(one),) for p, one in codes.items()},
            lambda party: noises[party].draw,
        )
        (answer,) = measurer.measure([ASKED])
        opened = answer.counts - by_cells * np.tile([1, 0], RUNS)
        part = SharedNoise(owners=parties, colluders=0).part(ASKED.noise, 2 * RUNS)
        costs = Insiders.of([ASKED], parties)
        found = {
            "outsiders": View(seen=opened, deviation=left(noises, part), promise=costs.outsiders)
        }
        for party in range(1, parties):
            rest = [one for p, one in enumerate(noises) if p != party]
            found[f"party {party}"] = View(
                seen=opened - noises[party].noted,
                deviation=left(rest, part),
                promise=costs.insiders,
            )
        return found

    return views


SPLITS: dict[str, tuple[int, Callable[[int, Sequence[OwnNoise]], dict[str, View]]]] = {
    "one owner": (1, of_one_owner),
    "rows of two, nobody colludes": (2, of_rows(0)),
    "rows of three, one colludes": (3, of_rows(1)),
    "rows of three, two collude": (3, of_rows(2)),
    "rows of four, nobody colludes": (4, of_rows(0)),
    "rows of five, two collude": (5, of_rows(2)),
    "columns of two": (2, of_parties(by_cells=False)),
    "columns of three": (3, of_parties(by_cells=False)),
    "cells of two": (2, of_parties(by_cells=True)),
    "cells of three": (3, of_parties(by_cells=True)),
}


@dataclass(frozen=True, kw_only=True)
class Proved:
    """What a view proves, as shares of what is promised, and the share of ρ that is true."""

    epsilon: float
    rho: float
    true_rho: float


def proved(split: str, factors: Sequence[Fraction], repeated: int = 1) -> dict[str, Proved]:
    """What each view proves where the parties' noise has these factors of its deviation."""
    _, views = SPLITS[split]
    ratios: dict[str, tuple[list[Any], list[Any]]] = {}
    facts: dict[str, View] = {}
    for cell in (0, 1):
        noises = [OwnNoise(100 * cell + p + 1, factor) for p, factor in enumerate(factors)]
        for _ in range(repeated):
            for name, view in views(cell, noises).items():
                ratios.setdefault(name, ([], []))[cell].append(view.ratios)
                facts[name] = dataclasses.replace(view, seen=view.seen[:0])
    judged = {}
    for name, both in ratios.items():
        one, other = (np.concatenate(some) for some in both)
        promise = facts[name].promise
        epsilon = float(epsilon_of(promise, DELTA))
        by_event = proved_epsilon(one, other, least=1.2 * epsilon, delta=float(DELTA))
        judged[name] = Proved(
            epsilon=by_event / epsilon,
            rho=proved_rho(one, other) / float(promise),
            true_rho=1 / (float(promise) * facts[name].deviation ** 2),
        )
    return judged


ALL, HALF, NONE = Fraction(1), Fraction(1, 2), Fraction(0)


def sound(split: str) -> list[Fraction]:
    """Factors without a bug."""
    return [ALL] * SPLITS[split][0]


@pytest.mark.parametrize("split", SPLITS)
def test_no_view_proves_more_than_its_promise(split: str) -> None:
    """Of ρ most of what is true is proved, and never more than is promised, of ε as of ρ.

    A masked answer proves nothing, unless all other owners may collude: then its noise is enough.
    """
    for name, view in proved(split, sound(split)).items():
        assert view.epsilon <= 1, name
        assert view.rho <= 1, name
        if name != "the aggregator":
            assert view.rho > 0.7 * view.true_rho, name
        else:
            assert view.rho < 0.01


def check_broken(split: str, factors: Sequence[Fraction], repeated: int = 1) -> set[str]:
    """Views that a bug tells too much prove it, and others do not; the former's names."""
    told = set()
    for name, view in proved(split, factors, repeated).items():
        if name == "the aggregator":
            continue
        if view.true_rho <= 1:
            assert max(view.rho, view.epsilon) <= 1, name
        elif view.true_rho > SLACK:
            assert view.rho > 1, name
            told.add(name)
            if view.true_rho > 1.8:
                assert view.epsilon > 1, name
    return told


@pytest.mark.parametrize("split", SPLITS)
def test_halved_noise_is_found_in_every_view(split: str) -> None:
    """A sampler that draws half of what is asked for, at all parties: of ε as of ρ."""
    views = set(proved(split, sound(split))) - {"the aggregator"}
    assert check_broken(split, [HALF] * SPLITS[split][0]) == views


@pytest.mark.parametrize("factor", [NONE, HALF], ids=["missing", "halved"])
@pytest.mark.parametrize("split", [one for one in SPLITS if one != "one owner"])
def test_less_noise_of_the_victim_is_found_where_it_is_needed(split: str, factor: Fraction) -> None:
    """One owner or party that adds none, or half: those whom it should stop find it."""
    told = check_broken(split, [factor, *sound(split)[1:]])
    if factor == NONE:
        views = set(proved(split, sound(split))) - {"the aggregator"}
        assert max(views, key=_insiders) in told


def _insiders(view: str) -> tuple[bool, str]:
    """Orders views by how much they know: outsiders come first."""
    return view != "outsiders", view


@pytest.mark.parametrize(
    "split",
    ["rows of three, one colludes", "rows of three, two collude", "rows of five, two collude"],
)
def test_noise_shared_out_to_colluders_too_is_found(
    split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of all owners that are enough only together: colluders face too few of them."""
    monkeypatch.setattr(SharedNoise, "honest", property(lambda self: self.owners))
    shared_noise._least_steps.cache_clear()
    told = check_broken(split, sound(split))
    assert {name for name in told if "colluding" in name}


@pytest.mark.parametrize("split", [one for one in SPLITS if one.startswith("rows")])
def test_missing_masks_are_found_by_the_aggregator(
    split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner's answer without masks has its own part of the noise alone.

    Where all others may collude that part is enough, and the aggregator proves no more than the
    promise: that is what parts of such a size are for.
    """
    monkeypatch.setattr(summing, "masked", lambda numbers, *_: numbers.astype("<i8").tobytes())
    view = proved(split, sound(split))["the aggregator"]
    if view.true_rho <= 1:
        assert view.rho <= 1
    else:
        assert min(view.rho, view.epsilon) > 1


def test_a_party_learns_more_than_outsiders_are_promised() -> None:
    """Its own part of the noise is known to it: so insiders are accounted for apart."""
    for split in ("columns of two", "cells of three"):
        parties = SPLITS[split][0]
        for name, view in proved(split, sound(split)).items():
            if name.startswith("party"):
                assert view.rho * parties / (parties - 1) > 1.15


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_millions_of_runs_come_nearer_and_never_above(split: str) -> None:
    """Three million runs prove 94 % of what is true of ρ."""
    for name, view in proved(split, sound(split), repeated=30).items():
        assert max(view.epsilon, view.rho) <= 1, name
        if name != "the aggregator":
            assert view.rho > 0.94 * view.true_rho, name
