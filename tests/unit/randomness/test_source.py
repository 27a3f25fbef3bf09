"""The one door to random numbers: what can be drawn, its limits and its reproducibility."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sherd.errors import PlanError
from sherd.randomness import Randomness, order, source, vetted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Upper 10^-4 quantiles of chi-squared with 23, 11 and 9 degrees of freedom.
CHI_23, CHI_11, CHI_9 = 57.07, 37.37, 33.72


def chi_squared(counts: NDArray[np.int64]) -> float:
    """Pearson's statistic against equal frequencies."""
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


# Sources


def test_system_source_never_repeats() -> None:
    """Two draws of the operating system's entropy differ, and it is not seeded."""
    system = Randomness.from_system()
    assert not system.is_seeded
    assert not np.intersect1d(system.words(1000), system.words(1000)).size
    one, two = system.spawn(2)
    assert not np.intersect1d(one.words(1000), two.words(1000)).size


def test_system_source_repeats_nothing_in_a_new_process() -> None:
    """No state is kept that another process would start from as well."""
    code = "from sherd.randomness import Randomness; print(Randomness.from_system().words(2))"
    said = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(said) == 2


def test_importing_the_door_does_not_import_opendp() -> None:
    """OpenDP's slow import waits until its sampler is used; many draws never need it."""
    code = (
        "from sherd.randomness import Randomness as R, vetted\n"
        "R.from_system().discrete_laplace(3, 1, 10_000); print(vetted.imported())\n"
        "R.from_system().discrete_laplace(3, 1, 10); print(vetted.imported())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["False", "True"]


def test_words_can_be_changed_in_place() -> None:
    """The caller owns the words, from either source."""
    for made in (Randomness.from_system(), Randomness.seeded(1)):
        words = made.words(4)
        words[:] = 0
        assert not words.any()


def test_seeded_source_is_reproducible() -> None:
    """The same seed gives the same draws of every kind; another seed gives others."""

    def everything(seed: int) -> list[list[int]]:
        made = Randomness.seeded(seed)
        groups = np.array([0, 1] * 20)
        return [
            made.words(5).tolist(),
            made.below(1000, 5).tolist(),
            made.permutation(20).tolist(),
            made.permutation_within(groups).tolist(),
            made.discrete_laplace(1000, 3, 20).tolist(),
            made.geometric(1000, 3, 20).tolist(),
            made.bernoulli_exp(1, 2, 64).tolist(),
        ]

    assert everything(4) == everything(4)
    assert all(a != b for a, b in zip(everything(4), everything(5), strict=True))


def test_children_do_not_depend_on_what_else_is_drawn() -> None:
    """A child's numbers are the same whatever parent and siblings drew, in any order."""
    first = Randomness.seeded(9).spawn(3)
    parent = Randomness.seeded(9)
    parent.words(1000)
    second = parent.spawn(3)
    forward = [child.words(4).tolist() for child in first]
    backward = [child.words(4).tolist() for child in reversed(second)][::-1]
    assert forward == backward
    assert len({tuple(words) for words in forward}) == 3
    assert parent.spawn(1)[0].words(4).tolist() not in forward
    assert all(child.is_seeded for child in first)


def test_threads_share_a_source_without_repeating_a_word() -> None:
    """Eight threads drawing at once get disjoint words, and all of the stream."""
    shared = Randomness.seeded(2)
    barrier = threading.Barrier(8)

    def take(_: int) -> NDArray[np.uint64]:
        barrier.wait()
        return np.concatenate([shared.words(100) for _ in range(50)])

    with ThreadPoolExecutor(8) as pool:
        taken = np.concatenate(list(pool.map(take, range(8))))
    assert set(taken.tolist()) == set(Randomness.seeded(2).words(8 * 50 * 100).tolist())


def test_threads_draw_noise_at_once() -> None:
    """Children drawn in threads equal the same children drawn in turn."""
    with ThreadPoolExecutor(4) as pool:
        parallel = list(
            pool.map(
                lambda child: child.discrete_laplace(10**6, 1, 50_000).sum(),
                Randomness.seeded(6).spawn(4),
            )
        )
    serial = [c.discrete_laplace(10**6, 1, 50_000).sum() for c in Randomness.seeded(6).spawn(4)]
    assert parallel == serial


# Bounded numbers


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**62 + 1, 2**63 - 25, 2**63])
def test_below_stays_below(bound: int) -> None:
    """No number reaches its bound, and large bounds use their whole range."""
    drawn = Randomness.seeded(3).below(bound, 20_000)
    assert int(drawn.max()) < bound
    assert int(drawn.max()) >= bound * 0.99 - 1
    assert int(drawn.min()) <= bound * 0.01


@pytest.mark.parametrize("bound", [10, 2**62 + 2**61])
def test_below_is_uniform(bound: int) -> None:
    """Ten equal parts of the range are hit equally often, also where 2^64 is no multiple.

    At 3·2^61 taking the remainder of a word would hit the lower part half as often again.
    """
    drawn = Randomness.seeded(3).below(bound, 100_000)
    part = drawn if bound == 10 else drawn // np.uint64(bound // 10 + 1)
    assert chi_squared(np.bincount(part.astype(np.int64), minlength=10)) < CHI_9


def test_below_redraws_what_would_be_biased() -> None:
    """A word whose product falls in the surplus is refused: bound 3 refuses word 0 only."""
    given = [0, 0, 2**63]

    class Chosen(Randomness):
        """Gives the chosen words in turn."""

        __slots__ = ()

        def words(self, n: int, threads: int = 1) -> NDArray[np.uint64]:
            """The next words."""
            del threads
            return np.array([given.pop(0) for _ in range(n)], dtype=np.uint64)

    assert Chosen(None).below(3).tolist() == [1]
    assert given == []


def test_below_takes_a_bound_for_each() -> None:
    """Each element has its own bound."""
    bounds = np.array([1, 2, 5, 2**63] * 5000, dtype=np.uint64)
    drawn = Randomness.seeded(8).below(bounds)
    assert (drawn < bounds).all()
    assert set(drawn[2::4].tolist()) == {0, 1, 2, 3, 4}


# Permutations


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000, 65_536, 65_537])
def test_permutation_holds_every_row_once(n: int) -> None:
    """Every row occurs exactly once."""
    assert sorted(Randomness.seeded(1).permutation(n).tolist()) == list(range(n))


def test_permutations_of_four_are_uniform() -> None:
    """All 24 orders of four rows come equally often."""
    made = Randomness.seeded(12)
    seen = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(12_000):
        seen[tuple(made.permutation(4).tolist())] += 1
    assert chi_squared(np.array(list(seen.values()))) < CHI_23


def test_permutation_settles_equal_keys_by_further_bits() -> None:
    """Rows with equal keys are ordered by fresh words, drawn again where those tie too."""
    given = [[0, 0, 2**63, 0], [7, 7, 9], [3, 2, 1]]
    shuffled = order.permutation(lambda _: np.array(given.pop(0), dtype=np.uint64), 4)
    assert shuffled.tolist() == [3, 1, 0, 2]
    assert given == []


def test_permutation_keeps_separate_runs_apart() -> None:
    """Two runs of equal keys next to each other do not mix."""
    given = [[0, 8, 0, 8], [2, 1, 1, 2]]
    shuffled = order.permutation(lambda _: np.array(given.pop(0), dtype=np.uint64), 4)
    assert shuffled.tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000, order.BLOCK, order.BLOCK + 1, 3 * order.BLOCK])
def test_shuffle_is_a_permutation(n: int, threads: int) -> None:
    """Every row has one place and every place one row, whatever the blocks."""
    rows = Randomness.from_system().shuffle(n, threads)
    assert rows.dtype == np.uint32
    assert np.array_equal(np.sort(rows), np.arange(n))
    assert np.array_equal(order.inverse(rows)[rows], np.arange(n))


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_shuffle_does_not_depend_on_the_number_of_threads(threads: int) -> None:
    """Ranges of keys that are sorted apart come out as if sorted together."""
    n = order.BLOCK + 17
    alone = Randomness.seeded(5).shuffle(n)
    assert np.array_equal(Randomness.seeded(5).shuffle(n, threads), alone)


def test_shuffles_of_four_are_uniform() -> None:
    """All 24 orders of four rows come equally often."""
    made = Randomness.seeded(13)
    seen = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(12_000):
        seen[tuple(made.shuffle(4).tolist())] += 1
    assert chi_squared(np.array(list(seen.values()))) < CHI_23


def test_shuffle_settles_equal_keys_by_further_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a permutation does, and where equal keys fall into different blocks as well."""
    monkeypatch.setattr(order, "BLOCK", 2)
    # Two keys of 32 bits a word: rows 0, 1, 3 and 4 have the key 5, row 2 has 4.
    given = [[5 << 32 | 5, 5 << 32 | 4, 5], [4, 4, 2, 1], [4, 3, 2, 1]]
    rows = order.shuffle(lambda _: np.array(given.pop(0), np.uint64), 5, 2)
    assert rows.tolist() == [2, 4, 3, 1, 0]
    assert given == []


@pytest.mark.parametrize("offset", [0, -5, 2**62])
def test_permutation_within_moves_rows_inside_their_group(offset: int) -> None:
    """Rows stay in their group, wherever its rows lie and whatever its number."""
    groups = np.random.default_rng(1).integers(0, 50, 5000) + offset
    moved = Randomness.seeded(1).permutation_within(groups)
    assert sorted(moved.tolist()) == list(range(5000))
    assert (groups[moved] == groups).all()
    assert (moved != np.arange(5000)).mean() > 0.9


def test_permutation_within_is_uniform_and_independent() -> None:
    """Two groups of two and three rows, mixed: all 12 combinations come equally often."""
    made = Randomness.seeded(12)
    groups = np.array([1, 0, 1, 0, 1])
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        moved = tuple(made.permutation_within(groups).tolist())
        seen[moved] = seen.get(moved, 0) + 1
    assert len(seen) == 12
    assert chi_squared(np.array(list(seen.values()))) < CHI_11


def test_permutation_within_nothing() -> None:
    """No rows, no permutation."""
    assert Randomness.seeded(1).permutation_within(np.empty(0, dtype=np.int64)).size == 0


# Noise


@pytest.mark.parametrize("seeded", [True, False])
def test_zero_scale_gives_zero(seeded: bool) -> None:
    """A numerator of 0 adds nothing, alone or among others, by every engine."""
    made = Randomness.seeded(1) if seeded else Randomness.from_system()
    assert not made.discrete_laplace(0, 7, 1000).any()
    mixed = made.discrete_laplace(np.array([0, 10**12] * 500), 1)
    assert not mixed[::2].any()
    assert mixed[1::2].all()
    assert not made.geometric(0, 7, 1000).any()
    if not seeded:
        assert not made.discrete_laplace(0, 7, 10, engine="opendp").any()


def test_each_element_has_its_own_scale() -> None:
    """Mean absolute noise follows each element's scale, within five standard errors."""
    scales = np.array([10**3, 10**6, 10**9, 10**12])
    drawn = Randomness.seeded(5).discrete_laplace(np.tile(scales, 20_000), 10)
    ratio = np.abs(drawn).reshape(-1, 4).mean(axis=0) / (scales / 10)
    assert np.abs(ratio - 1).max() < 5 / np.sqrt(20_000)


def test_scale_is_reduced_before_it_is_judged() -> None:
    """A common factor neither changes the draws nor counts against the limit."""
    factor = 10**15
    small = Randomness.seeded(5).discrete_laplace(3, 7, 100)
    large = Randomness.seeded(5).discrete_laplace(3 * factor, 7 * factor, 100)
    huge = Randomness.seeded(5).discrete_laplace(3 * 2**100, 7 * 2**100, 100)
    assert small.tolist() == large.tolist() == huge.tolist()
    assert Randomness.seeded(5).discrete_laplace(np.full(100, 3), 7).tolist() == small.tolist()
    array = np.array([3, 6] * 50)
    assert (
        Randomness.seeded(5).discrete_laplace(array, 7).tolist()
        == Randomness.seeded(5).discrete_laplace(array * factor, 7 * factor).tolist()
    )


def test_sizes() -> None:
    """One draw without a size; as many as asked with one; none for an empty array."""
    made = Randomness.seeded(5)
    assert made.discrete_laplace(3, 1).shape == (1,)
    assert made.discrete_laplace(3, 1, 0).shape == (0,)
    assert made.discrete_laplace(np.empty(0, dtype=np.int64), 1).shape == (0,)
    forced = Randomness.from_system().discrete_laplace(3, 1, 0, engine="opendp")
    assert forced.shape == (0,)
    assert made.below(3).shape == (1,)
    assert made.below(np.empty(0, dtype=np.uint64)).shape == (0,)
    assert made.bernoulli_exp(np.array([1, 2]), 3, size=2).shape == (2,)


def test_largest_scale_stays_within_its_bound() -> None:
    """At the limit of the scale no draw comes near the end of the 64-bit range."""
    drawn = Randomness.seeded(5).discrete_laplace(2**56, 1, 100_000)
    assert int(np.abs(drawn).max()) < 2**56 * 40
    assert abs(np.abs(drawn).mean() / 2**56 - 1) < 5 / np.sqrt(100_000)


def test_bernoulli_exp_by_element() -> None:
    """exp(0) always, exp(−big) never, and exp(−1/2) in between within five errors."""
    made = Randomness.seeded(5)
    numerators = np.array([0, 10**9, 1] * 30_000)
    hits = made.bernoulli_exp(numerators, 2).reshape(-1, 3).mean(axis=0)
    assert hits[0] == 1
    assert hits[1] == 0
    assert abs(hits[2] - np.exp(-0.5)) < 5 * 0.5 / np.sqrt(30_000)


# Engines


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Fraction, int]]:
    """What OpenDP's sampler is asked for, which then answers with ones."""
    calls: list[tuple[Fraction, int]] = []

    def answer(scale: Fraction, n: int) -> NDArray[np.int64]:
        calls.append((scale, n))
        return np.ones(n, dtype=np.int64)

    monkeypatch.setattr(vetted, "discrete_laplace", answer)
    return calls


@pytest.mark.parametrize(
    ("imported", "n", "expected"),
    [
        (False, 0, False),
        (False, 1, True),
        (False, 200, True),
        (False, 201, False),
        (True, 1000, True),
        (True, 1001, False),
    ],
)
def test_auto_takes_opendp_for_few_draws(
    imported: bool,
    n: int,
    expected: bool,
    asked: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few draws of one scale go to OpenDP; more of them once it is imported."""
    monkeypatch.setattr(vetted, "imported", lambda: imported)
    Randomness.from_system().discrete_laplace(6, 4, n)
    Randomness.from_system().discrete_laplace(np.full(n, 6), 4)
    assert asked == ([(Fraction(3, 2), n)] * 2 if expected else [])


def test_auto_takes_the_vector_for_scales_by_element_and_seeds(asked: list[Any]) -> None:
    """Several scales, a scale of 0 or a seed never go to OpenDP unasked."""
    Randomness.from_system().discrete_laplace(np.array([3, 4]), 1)
    Randomness.seeded(1).discrete_laplace(3, 1)
    Randomness.from_system().discrete_laplace(0, 1)
    Randomness.from_system().discrete_laplace(3, 1, engine="vector")
    assert asked == []


def test_opendp_can_be_forced_for_scales_by_element(asked: list[Any]) -> None:
    """Each distinct scale is one call, and each draw lands on its own row."""
    Randomness.from_system().discrete_laplace(np.array([3, 4, 3]), 2, engine="opendp")
    assert asked == [(Fraction(3, 2), 2), (Fraction(2), 1)]


def test_opendp_draws() -> None:
    """OpenDP's sampler answers with as many numbers, about as large as the scale."""
    drawn = Randomness.from_system().discrete_laplace(10**6, 1, 400, engine="opendp")
    assert drawn.shape == (400,)
    assert 0.6 < np.abs(drawn).mean() / 10**6 < 1.5  # eight standard errors and more
    assert vetted.imported()


@pytest.mark.parametrize(
    "scale", [Fraction(1, 10), Fraction(1, 3), Fraction(2**53 + 1), Fraction(5)]
)
def test_opendp_scale_is_never_below_the_declared(scale: Fraction) -> None:
    """The float handed to OpenDP is the scale or just above it."""
    given = Fraction(vetted.float_from_above(scale))
    assert scale <= given <= scale * (1 + Fraction(1, 2**52))


# Limits

S = Randomness.seeded(1)
DICE: Any = "dice"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Randomness.seeded(-1), "the seed is negative"),
        (lambda: S.below(0), "a bound does not fit"),
        (lambda: S.below(2**63 + 1), "a bound does not fit"),
        (lambda: S.below(np.array([3, 0], dtype=np.uint64)), "a bound does not fit"),
        (lambda: S.below(np.array([2**63 + 1], dtype=np.uint64)), "a bound does not fit"),
        (lambda: S.below(3, -1), "the size is negative"),
        (lambda: S.below(np.ones((2, 2), dtype=np.uint64)), "wrong shape"),
        (lambda: S.permutation(-1), "length of a permutation is negative"),
        (lambda: S.shuffle(-1), "length of a shuffle does not fit"),
        (lambda: S.discrete_laplace(2**56 + 1, 1), "the noise scale is not valid"),
        (lambda: S.discrete_laplace(10**30, 1), "the noise scale is not valid"),
        (lambda: S.discrete_laplace(1, 2**63), "the noise scale is not valid"),
        (lambda: S.discrete_laplace(np.array([2**62, 1]), 3), "the noise scale is not valid"),
        (lambda: S.discrete_laplace(1, 0), "the denominator is too small"),
        (lambda: S.discrete_laplace(-1, 1), "a scale is negative"),
        (lambda: S.discrete_laplace(np.array([4, -2]), 2), "a scale is negative"),
        (lambda: S.discrete_laplace(np.array([0.5]), 2), "numerators are not whole"),
        (lambda: S.discrete_laplace(np.array([1, 2]), 2, 3), "size and array differ"),
        (lambda: S.discrete_laplace(1, 1, engine=DICE), "the engine is unknown"),
        (lambda: S.discrete_laplace(1, 1, engine="opendp"), "cannot steer OpenDP"),
        (lambda: S.geometric(2**56 + 1, 1), "the noise scale is not valid"),
        (lambda: S.bernoulli_exp(1, 2**56 + 1), "the denominator does not fit"),
        (lambda: S.bernoulli_exp(1, 0), "the denominator does not fit"),
        (lambda: S.bernoulli_exp(2**63, 1), "a numerator does not fit"),
        (lambda: S.bernoulli_exp(-1, 1), "a numerator does not fit"),
        (lambda: S.bernoulli_exp(np.array([-1]), 1), "a probability exceeds 1"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], says: str) -> None:
    """Every limit raises with a message that names it, and nothing wraps silently."""
    with pytest.raises(PlanError, match=says):
        call()


def test_thresholds_are_ordered() -> None:
    """An imported OpenDP is used for at least as many draws as one that is not."""
    assert 0 < source.FEW <= source.FEW_IMPORTED
