"""Choices and counts of top-down specialisation have the declared distributions, with power.

Sources are seeded, so a pass stays a pass; the false-alarm rate was 10^-4 for each test when
its seed was chosen (no seed was tried twice).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, chi2
from word_noise import WordNoise

import sherd
from sherd.auditing.epsilon.experiment import lower_bound as audit_bound
from sherd.methods.specialising.arbdistdp import Agreement, cells_of, release
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.plain_oracle import ExactNoise, PlainOracle
from sherd.methods.specialising.scores import Budget
from sherd.methods.specialising.secure_leaf_counts import PartyCells
from sherd.methods.specialising.shared_oracle import JointOracle
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine

pytestmark = pytest.mark.statistical

UTILITIES = np.array([20, 17, 20, 5, 12])


def permute_and_flip(utilities: np.ndarray, rate: float) -> np.ndarray:
    """The exact distribution of permute-and-flip, by going through all orders' prefixes.

    In a uniform order each candidate is taken with probability exp(rate·(u − largest)).
    """
    accept = np.exp(rate * (utilities - utilities.max()).astype(float))
    n = len(utilities)
    found = np.zeros(n)
    # reached[S]: the chance that exactly the candidates of S were looked at and refused.
    reached = {0: 1.0}
    for size in range(n):
        for seen in [s for s in list(reached) if s.bit_count() == size]:
            for i in range(n):
                if not seen >> i & 1:
                    here = reached[seen] / (n - size)
                    found[i] += here * accept[i]
                    wider = seen | 1 << i
                    reached[wider] = reached.get(wider, 0.0) + here * (1 - accept[i])
    return found


def p_value(seen: np.ndarray, expected: np.ndarray) -> float:
    """Chi-squared goodness of fit."""
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def choices(rate: Fraction, seed: int, n: int = 20_000) -> np.ndarray:
    """How often each candidate was chosen."""
    noise = ExactNoise(Randomness.seeded(seed))
    return np.bincount([noise.largest([UTILITIES], rate)[0] for _ in range(n)], minlength=5)


def test_reference_is_a_distribution() -> None:
    """The reference sums to 1 and agrees with a case that can be done by hand."""
    assert permute_and_flip(UTILITIES, 0.3).sum() == pytest.approx(1)
    better = permute_and_flip(np.array([1, 0]), 0.7)[0]
    assert better == pytest.approx(1 - math.exp(-0.7) / 2)


def test_choices_are_permute_and_flip() -> None:
    """Geometric noise with uniform ties is permute-and-flip at the declared rate."""
    seen = choices(Fraction(1, 5), seed=30)
    assert p_value(seen, permute_and_flip(UTILITIES, 0.2) * seen.sum()) > 1e-4


@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)], ids=str)
def test_a_rate_off_by_thirty_percent_is_found_out(factor: Fraction) -> None:
    """The test above could fail."""
    seen = choices(Fraction(1, 5) * factor, seed=31)
    assert p_value(seen, permute_and_flip(UTILITIES, 0.2) * seen.sum()) < 1e-6


def test_the_exponential_mechanism_would_be_found_out() -> None:
    """The two mechanisms differ by enough to be told apart here."""
    weights = np.exp(0.2 * UTILITIES)
    seen = choices(Fraction(1, 5), seed=32)
    assert p_value(seen, weights / weights.sum() * seen.sum()) < 1e-6


def budget(epsilon: Fraction) -> Budget:
    """A budget of four choices."""
    return Budget(epsilon=epsilon, specialisations=2, numeric=0, sensitivity=1)


def oracle(codes: np.ndarray, classes: np.ndarray, given: Budget, seed: int) -> PlainOracle:
    """One attribute of as many codes as needed, two classes."""
    return PlainOracle(
        [codes], [200_000], classes, 2, utility="max", budget=given,
        noise=ExactNoise(Randomness.seeded(seed)),
    )  # fmt: skip


def laplace_fit(noise: np.ndarray, rate: float) -> float:
    """Chi-squared fit to the discrete Laplace of a rate, tails lumped."""
    far = math.ceil(6 / rate)
    support = np.arange(-far, far + 1)
    q = math.exp(-rate)
    mass = (1 - q) / (1 + q) * q ** np.abs(support)
    tail = (1 - mass.sum()) / 2
    mass[[0, -1]] += tail
    seen = np.bincount(np.clip(noise, -far, far) + far, minlength=support.size)
    return p_value(seen, mass * noise.size)


def test_count_noise_is_discrete_laplace_of_the_declared_rate() -> None:
    """Counts of 400,000 empty leaves and classes, after two choices: rate is what is left."""
    given = budget(Fraction(2))
    nobody = np.zeros(0, np.int64)
    cuts = (tuple(range(200_001)),)
    drawn = oracle(nobody, nobody, given, 33).count(cuts, 2).ravel()
    assert given.count_rate(2) == Fraction(1, 2)
    assert laplace_fit(drawn, 0.5) > 1e-4
    assert laplace_fit(drawn, 0.5 * 0.7) < 1e-6
    assert laplace_fit(drawn, 0.5 * 1.3) < 1e-6


def lower_bound(hits: int, misses: int, n: int) -> float:
    """An epsilon that the two rates of one event prove, at 99.9 % confidence."""
    low = beta.ppf(0.0005, hits, n - hits + 1) if hits else 0.0
    high = beta.ppf(0.9995, misses + 1, n - misses)
    return float(np.log(low / high)) if low > 0 else 0.0


def audited(wrong: Fraction, n: int = 3_000) -> float:
    """What an outsider proves about epsilon from the counts of two neighbouring tables."""
    claimed = budget(Fraction(2))
    actual = budget(Fraction(2) * wrong)
    tables = [np.zeros(10, np.int64), np.array([0] * 9 + [1])]
    hits = []
    for seed, codes in enumerate(tables):
        runs = oracle(codes, codes * 0, actual, 40 + seed)
        drawn = np.stack([runs.count(((0, 1, 200_000),), claimed.choices) for _ in range(n)])
        hits.append(int(((drawn[:, 0, 0] >= 10) & (drawn[:, 1, 0] <= 0)).sum()))
    return lower_bound(hits[0], hits[1], n)


def test_empirical_epsilon_of_the_counts_is_within_the_claim() -> None:
    """Half of epsilon buys the counts; the audit proves most of that and no more."""
    assert 0.5 < audited(Fraction(1)) <= 1


def test_the_audit_would_find_too_little_noise() -> None:
    """Twice the rate, and the same audit exceeds the claim."""
    assert audited(Fraction(2)) > 1


def choice_audit(rate: Fraction, n: int = 5_000) -> float:
    """The same for one choice between two values, one record moved from one to the other."""
    noise = ExactNoise(Randomness.seeded(50))
    results = [
        sum(noise.largest([utilities], rate) == [0] for _ in range(n))
        for utilities in (np.array([8, 7]), np.array([7, 8]))
    ]
    return lower_bound(results[0], results[1], n)


def test_empirical_epsilon_of_a_choice_is_within_the_claim() -> None:
    """A choice costs 2λΔ = epsilon' at most."""
    assert 0.1 < choice_audit(Fraction(1, 2)) <= 1
    assert choice_audit(Fraction(2)) > 1


def released(epsilon: Fraction, neighbour: bool, known: bool, run: int) -> float:
    """One joint release of a worst case, as a score that tells the two tables apart.

    Six records of one class, two attributes, two parties. In the neighbour both cells of one
    record, which the second party holds, are others: one attribute tells more apart then, the
    other less, and the chosen one's counts change by one down and one up. ``known``: the first
    party's view, for which its own random words are nothing new: they are the same in all runs.
    """
    hierarchies = tuple(Hierarchy.of(one) for one in TWO)
    codes = [np.array([0, 0, 0, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1])]
    if neighbour:
        codes = [np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 0])]
    held = np.array([[True, False]] * 5 + [[False, False]])
    agreed = Agreement(
        hierarchies=hierarchies, class_name=None, class_labels=("",), utility="spread",
        budget=Budget(epsilon=epsilon, specialisations=1, numeric=0, sensitivity=1), max_leaves=9,
    )  # fmt: skip
    own = Randomness.seeded(77 if known else 10**6 + 2 * run)
    engine = PlainEngine([own, Randomness.seeded(2 * run + 1 + neighbour * 10**7)])
    found = release(engine, cells_of(codes, [held, ~held]), np.zeros(6, np.int64), agreed)
    first = len(found.specialised.cuts[0]) == 3
    counts = found.counts[:, 0] if first else found.counts[::-1, 0]
    # Log-likelihoods of counts 4 and 2 against 3 and 3, and what the choice adds.
    shift = abs(counts - [3, 3]).sum() - abs(counts - [4, 2]).sum()
    rate = float(agreed.budget.count_rate(1))
    return float(rate * shift * (1 if first else -1) - (1 if first else -1) * float(epsilon) / 4)


TWO = sherd.Schema.from_data(
    {"attributes": {name: {"type": "category", "values": ["0", "1"]} for name in "ab"}}
)


def joint_audit(epsilon: Fraction, known: bool, runs: int) -> float:
    """What the scores of many releases prove about epsilon, at 99.9 % confidence."""
    scores = [
        np.array([released(epsilon, neighbour, known, run) for run in range(runs)])
        for neighbour in (False, True)
    ]
    return audit_bound(scores[0], scores[1], alpha=0.001).lower


@pytest.mark.parametrize("known", [False, True], ids=["outsider", "party"])
def test_empirical_epsilon_of_the_joint_release_is_within_the_claim(known: bool) -> None:
    """Choice and counts together: some of epsilon is proven, to nobody more than all of it."""
    assert 0.3 < joint_audit(Fraction(3), known, 500) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["outsider", "party"])
def test_many_joint_releases_stay_within_the_claim(known: bool) -> None:
    """With more runs, and the audit would find a release that spends three times as much."""
    assert 1 < joint_audit(Fraction(3), known, 4000) <= 3
    assert joint_audit(Fraction(9), known, 4000) > 3


def test_count_noise_of_the_joint_release_is_discrete_laplace() -> None:
    """What parties draw from bits together: the declared rate fits, 30 % off does not."""
    given = budget(Fraction(2))
    engine = PlainEngine([Randomness.seeded(61), Randomness.seeded(62)])
    nobody = np.zeros(0, np.int64)
    nothing = {party: PartyCells(codes=(nobody, nobody)) for party in (0, 1)}
    oracle = JointOracle(engine, nothing, [200, 200], nobody, 2, utility="max", budget=given)
    drawn = oracle.count((tuple(range(201)), tuple(range(201))), 2).ravel()
    assert laplace_fit(drawn, 0.5) > 1e-4
    assert laplace_fit(drawn, 0.5 * 0.7) < 1e-6
    assert laplace_fit(drawn, 0.5 * 1.3) < 1e-6


def joint_choices(rate: Fraction, seed: int, n: int = 20_000) -> np.ndarray:
    """How often each candidate was chosen by parties that draw noise from bits together.

    One call makes n choices: the same group n times.
    """
    sources = [Randomness.seeded(seed + party) for party in (0, 1)]

    def words(count: int, bits: int) -> np.ndarray:
        keep = np.uint64(2**bits - 1)
        total = sum((one.words(count) & keep for one in sources), np.zeros(count, np.uint64))
        return (total & keep).view(np.int64)

    return np.bincount(WordNoise(words).largest([UTILITIES] * n, rate), minlength=5)


def test_joint_choices_are_permute_and_flip() -> None:
    """At the declared rate; 30 % more or less is found out."""
    seen = joint_choices(Fraction(1, 5), seed=70)
    assert p_value(seen, permute_and_flip(UTILITIES, 0.2) * seen.sum()) > 1e-4
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        off = joint_choices(Fraction(1, 5) * factor, seed=71)
        assert p_value(off, permute_and_flip(UTILITIES, 0.2) * off.sum()) < 1e-6
