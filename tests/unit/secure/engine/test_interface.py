"""The plain engine, its shares, and the noise made of bits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from agreed import uniform
from scipy.stats import chi2
from word_noise import WordNoise

import sherd
from sherd.errors import PlanError, PolicyError
from sherd.methods.specialising.arbdistdp import Agreement, cells_of, release
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.scores import Budget
from sherd.methods.specialising.shared_oracle import JointOracle
from sherd.randomness import Randomness
from sherd.secure.engine.interface import WORD_BITS, PlainEngine
from sherd.secure.engine.noise_bits import (
    REACH,
    bits_needed,
    delta,
    distance,
    thresholds,
)


def engine(parties: int = 2, seed: int = 0) -> PlainEngine:
    """Seeded parties."""
    return PlainEngine([Randomness.seeded(seed + party) for party in range(parties)])


@pytest.mark.parametrize("parties", [0, 1])
def test_fewer_than_two_parties_are_refused(parties: int) -> None:
    """One party would compute alone, without anything being secret."""
    with pytest.raises(PolicyError, match="at least two"):
        engine(parties)


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_operations_do_what_they_say(parties: int) -> None:
    """Every operation against numpy, negative numbers included."""
    joint = engine(parties)
    x = np.array([[3, -7, 5], [0, 9, 9]])
    a = joint.share(1, lambda: x, (2, 3))
    assert (a.value == x).all()
    assert a.shape == (2, 3)
    assert (joint.add(a, a).value == 2 * x).all()
    assert (joint.add(a, x).value == 2 * x).all()
    assert (joint.scale(a, -3).value == -3 * x).all()
    assert joint.sum(a).value.tolist() == [1, 18]
    assert joint.maximum(a).value.tolist() == [5, 9]
    assert joint.largest(a).value.tolist() == [2, 1]
    assert joint.less(a, 5).value.tolist() == [[1, 1, 0], [1, 0, 0]]
    flat = joint.reshape(a, (6,))
    assert joint.take(flat, 1, 4).value.tolist() == [-7, 5, 0]
    assert joint.join([flat, flat]).shape == (12,)
    assert joint.stack([flat, flat]).value.tolist() == [[v, v] for v in x.ravel().tolist()]
    assert (joint.multiply(a, joint.take(a, 0, 1)).value == x * x[:1]).all()
    bits = joint.share_bits(0, lambda: x % 2, (2, 3))
    assert (joint.multiply(a, bits).value == x * (x % 2)).all()
    assert (joint.inner(a, a).value == x @ x.T).all()
    assert joint.block(a, slice(0, 2), slice(1, 3)).value.tolist() == x[:, 1:].ravel().tolist()
    assert joint.settle(a, "a test") is a
    assert joint.open(a, "a test").tolist() == x.tolist()
    assert [(e.what, e.count) for e in joint.transcript] == [("a test", 6)]


@pytest.mark.parametrize("values", [np.zeros(40_000), np.arange(40_000), np.full(40_000, -5)])
def test_each_partys_shares_are_uniform_whatever_is_shared(values: np.ndarray) -> None:
    """No share tells anything (seeded, false alarms 10^-4 when chosen); the sum does."""
    shares = engine(3, seed=11).share(0, lambda: values.astype(np.int64), (40_000,))
    for part in shares.parts:
        assert uniform(part) > 1e-4
    # The test has power: one share of a sharing with 60-bit masks is found out.
    assert uniform(shares.parts[0] >> np.uint64(4)) < 1e-6
    assert uniform(sum(shares.parts[1:], shares.parts[0])) < 1e-6


@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize("bits", [WORD_BITS, 18])
def test_joint_words_are_uniform_below_their_bound(parties: int, bits: int) -> None:
    """The sum of all parties' words, carries taken off."""
    words = engine(parties, seed=3).random(40_000, bits).value
    assert words.min() >= 0
    assert words.max() < 2**bits
    seen = np.bincount(words >> (bits - 6), minlength=64)
    assert chi2.sf(((seen - 625) ** 2 / 625).sum(), 63) > 1e-4


def test_thresholds_are_the_chances_of_bits() -> None:
    """1/(1 + exp(λ·2^b)), rounded down to 62 bits."""
    for rate in (Fraction(1, 4), Fraction(1, 1040), Fraction(3)):
        for b, limit in enumerate(thresholds(rate)):
            chance = 1 / (1 + math.exp(float(rate) * 2**b))
            assert limit / 2**WORD_BITS == pytest.approx(chance, rel=1e-9, abs=1e-15)
        assert float(rate) * 2 ** bits_needed(rate) >= REACH


def source(seed: int) -> Any:
    """Uniform words in the clear."""
    randomness = Randomness.seeded(seed)
    return lambda n, bits: (randomness.words(n) & np.uint64(2**bits - 1)).view(np.int64)


def geometric_fit(drawn: np.ndarray, rate: float) -> float:
    """Chi-squared fit to the geometric distribution of a rate."""
    far = math.ceil(6 / rate)
    mass = (1 - math.exp(-rate)) * np.exp(-rate * np.arange(far))
    mass = np.append(mass, 1 - mass.sum())
    seen = np.bincount(np.minimum(drawn, far), minlength=far + 1)
    expected = mass * drawn.size
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), far))


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(1, 20), Fraction(2)])
def test_noise_of_bits_is_geometric(rate: Fraction) -> None:
    """The declared rate fits, 30 % more or less does not."""
    drawn = WordNoise(source(5)).geometric(200_000, rate)
    assert geometric_fit(drawn, float(rate)) > 1e-4
    assert geometric_fit(drawn, 0.7 * float(rate)) < 1e-6
    assert geometric_fit(drawn, 1.3 * float(rate)) < 1e-6


def test_joint_noise_is_the_same_noise() -> None:
    """The oracle of parties draws what the words say; its discrete Laplace has two sides."""
    laplace = WordNoise(source(6)).laplace(100_000, Fraction(1, 2))
    assert abs(laplace.mean()) < 0.05
    q = math.exp(-0.5)
    assert laplace.var() == pytest.approx(2 * q / (1 - q) ** 2, rel=0.03)


def test_delta_grows_with_draws_and_epsilon() -> None:
    """Small, and stated."""
    small = distance(10_000, Fraction(1, 100))
    assert 0 < small < 1e-13
    assert delta(1.0, small) == pytest.approx((1 + math.e) * small)


def agreement(utility: str = "max", max_leaves: int = 50) -> Agreement:
    """Two attributes, two classes."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "x": {"type": "integer", "domain": ["0", "9"]},
                "y": {"type": "category", "values": ["a", "b"]},
            }
        }
    )
    return Agreement(
        hierarchies=tuple(Hierarchy.of(a) for a in schema),
        class_name="c",
        class_labels=("n", "y"),
        utility=utility,
        budget=Budget(epsilon=Fraction(1), specialisations=3, numeric=1, sensitivity=1),
        max_leaves=max_leaves,
    )


def test_promise_names_epsilon_and_delta() -> None:
    """Finite bits make a δ, which more leaves enlarge."""
    promised = agreement().notion()
    assert promised.epsilon == 1
    assert 0 < promised.delta < agreement(max_leaves=10**6).notion().delta < 1e-8


def test_what_has_no_joint_form_is_refused() -> None:
    """A utility that engines cannot compute."""
    with pytest.raises(PlanError, match="cannot be computed jointly"):
        JointOracle(
            engine(), {}, [2], np.zeros(0, np.int64), 1, utility="purity",
            budget=agreement().budget,
        )  # fmt: skip


class Watched(PlainEngine):
    """Notes every operation with its shape; places of choices can be given from outside."""

    def __init__(self, sources: list[Randomness], script: list[np.ndarray] | None = None) -> None:
        super().__init__(sources)
        self.log: list[tuple[str, tuple[int, ...]]] = []
        self.script, self.places = script, []  # type: ignore[var-annotated]

    def _again(self, values: Any) -> Any:
        self.log.append(("shared again", values.shape))
        return super()._again(values)

    def share(self, owner: int, own: Any, shape: tuple[int, ...]) -> Any:
        """An input of one party."""
        self.log.append((f"input of {owner}", shape))
        return super().share(owner, own, shape)

    def open(self, a: Any, what: str) -> np.ndarray:
        """What everybody sees."""
        self.log.append((what, a.shape))
        opened = super().open(a, what)
        if what == "places of choices":
            if self.script is not None:
                opened = self.script.pop(0)
            self.places.append(opened)
        return opened


@pytest.mark.parametrize("parties", [2, 3])
def test_what_is_exchanged_does_not_depend_on_the_data(parties: int) -> None:
    """Another table with the same opened choices: the same operations on the same shapes."""
    logs = []
    script = None
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        classes = np.arange(200) % 2  # known to all parties
        codes = [rng.integers(0, 10, 200), rng.integers(0, 2, 200)]
        holder = rng.integers(0, parties, (200, 2))
        watched = Watched([Randomness.seeded(seed + 10 * p) for p in range(parties)], script)
        held = [holder == p for p in range(parties)]
        release(watched, cells_of(codes, held), classes, agreement())
        logs.append(watched.log)
        script = list(watched.places)
    assert logs[0] == logs[1]
    opened = {name for name, _ in logs[0] if "input" not in name} - {"shared again"}
    assert opened == {"whether every cell has one holder", "places of choices", "noisy counts"}
