from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sherd.auditing.case.record_drawing import CountQuery, Range
from sherd.auditing.utility.cell_loss import cell_losses, suppressed
from sherd.auditing.utility.moments import (
    Classes,
    association_matrix,
    associations,
    cramers_v,
    edges_of,
    histogram,
    marginals,
    moments,
    total_variation,
)
from sherd.auditing.utility.queries import queries
from sherd.auditing.utility.trained_models import macro_f, models, propensity

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.auditing.case.case import Case


def test_losses_equal_numpy(noise: Case) -> None:
    """Mean SSE and IL1s equal plain sums over a matrix, and shuffling gives its baseline."""
    names = noise.protected
    before, after = (
        np.column_stack([side[n] for n in names]) for side in (noise.original, noise.released)
    )
    scaled = (after - before) / before.std(axis=0)
    sse, il1s = cell_losses(noise)
    assert sse.value == pytest.approx((scaled**2).sum(axis=1).mean() / len(names) ** 2)
    assert il1s.value == pytest.approx(np.abs(scaled).mean() / np.sqrt(2))
    assert sse.baseline == pytest.approx(2 / len(names))
    assert "(1/l)·sqrt(Σ (d/σ)²)" in sse.basis


def test_suppressed_cells_are_counted(bare: Case) -> None:
    """Cells that the release lost count, those missing before do not."""
    released = {name: column.copy() for name, column in bare.released.items()}
    released["x0"][:60] = np.nan
    found = suppressed(replace(bare, released=released))[0]
    assert found.parts["x0"] == pytest.approx(0.1)
    assert found.value == pytest.approx(0.1 / 6)


def test_total_variation_of_labels_by_hand(make_case: Callable[..., Case]) -> None:
    """Labels p, p, q, r against p, q, q, q differ by a half."""
    original = {f"x{i}": np.zeros(4) for i in range(5)} | {"c": np.array([0.0, 0, 1, 2])}
    released = {f"x{i}": np.zeros(4) for i in range(5)} | {"c": np.array([0.0, 1, 1, 1])}
    one, two, three = marginals(make_case(original, released))
    assert one.parts["c"] == 0.5
    assert one.value == pytest.approx(0.5 / 6)
    assert two.parts["x0 × c"] == 0.5
    assert three.sampled
    assert len(three.parts) == 5


def test_distances_are_zero_for_the_table_itself(bare: Case) -> None:
    """A copy is at distance 0 of everything, fresh people are not."""
    zero = [*marginals(bare), *moments(bare), *associations(bare)[0], *queries(bare)]
    assert all(m.value == 0 for m in zero)


def test_fresh_people_are_as_far_as_the_yardstick(noise: Case) -> None:
    """Other people of the same kind are about as far away as one half from the other."""
    for measure in marginals(noise):
        assert measure.baseline is not None
        assert measure.value < measure.baseline


def test_classes_cover_every_number() -> None:
    """Few values stay apart, many are cut evenly, none are all missing."""
    assert edges_of(np.array([np.nan]), 10).size == 0
    assert edges_of(np.arange(3.0), 10).tolist() == [0.5, 1.5]
    cut = edges_of(np.arange(1000.0), 10)
    counts = np.bincount(np.searchsorted(cut, np.arange(1000.0)))
    assert counts.min() >= 99


def test_rare_labels_share_a_class(make_case: Callable[..., Case]) -> None:
    """Joint histograms are shares that add up to 1, with missing cells in a class of their own."""
    original = {f"x{i}": np.arange(4.0) for i in range(5)} | {"c": np.array([0, 1, np.nan, 3.0])}
    case = make_case(original, original)
    classes = Classes(case)
    coded = classes.code(original)
    assert coded["c"].tolist() == [1, 2, 0, 4]
    joint = histogram(coded, classes.sizes, ("x0", "c"))
    assert joint.sum() == pytest.approx(1)
    assert total_variation(joint, joint) == 0


def test_associations_equal_numpy_and_scipy(noise: Case) -> None:
    """Pearson's correlation equals NumPy's, Cramér's V SciPy's."""
    from scipy.stats.contingency import association

    found = association_matrix(noise, noise.original, Classes(noise))
    expected = np.corrcoef(noise.original["x0"], noise.original["x1"])[0, 1]
    assert found[0, 1] == pytest.approx(expected)
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 30, size=(4, 3))
    assert cramers_v(counts / counts.sum()) == pytest.approx(association(counts, method="cramer"))
    assert cramers_v(np.array([[1.0, 0.0]])) == 0


def test_cells_missing_together_are_no_association(make_case: Callable[..., Case]) -> None:
    """Associations are those of the records that have both values."""
    rng = np.random.default_rng(0)
    whole = {f"x{i}": rng.normal(size=900) for i in range(5)} | {
        "c": rng.integers(0, 4, 900).astype(np.float64)
    }
    gone = np.arange(900) < 300
    holes = {name: values.copy() for name, values in whole.items()}
    for values in holes.values():
        values[gone] = np.nan
    rest = {name: values[~gone] for name, values in whole.items()}
    case = make_case(whole, holes)
    classes = Classes(case)
    found = association_matrix(case, holes, classes)
    assert found == pytest.approx(association_matrix(case, rest, classes))
    assert np.abs(found - np.eye(len(found))).max() < 0.3


def test_moments_by_hand(make_case: Callable[..., Case]) -> None:
    """Shifted by one standard deviation, and spread four times as wide in variance."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=2000)
    x = (x - x.mean()) / x.std()
    original = {f"x{i}": x for i in range(5)} | {"c": np.zeros(2000)}
    released = {f"x{i}": 2 * x + 1 for i in range(5)} | {"c": np.zeros(2000)}
    found = {m.code: m for m in moments(make_case(original, released))}
    assert found["means"].parts["x0"] == pytest.approx(1)
    assert found["variances"].parts["x0"] == pytest.approx(2)
    assert found["quantiles"].parts["c"] == 0


def test_queries_of_independent_columns_match_the_blind_answer(noise: Case) -> None:
    """Columns shuffled by themselves answer as if attributes were independent."""
    rng = np.random.default_rng(4)
    released = {n: c[rng.permutation(len(c))] for n, c in noise.original.items()}
    found = queries(replace(noise, released=released))[0]
    assert found.baseline is not None
    assert found.value == pytest.approx(found.baseline, rel=0.35)
    assert found.value > 0.1


def test_queries_of_other_releases_go_through_their_own_count(noise: Case) -> None:
    """Where a release is not made of rows, its own count answers, with real values."""

    class Empty:
        """Answers every query with nothing."""

        asked: list[CountQuery]

        def __init__(self) -> None:
            self.asked = []

        def draw(self, randomness: object, n_draws: int) -> object:
            """Never drawn from here."""

        def count(self, query: CountQuery) -> float:
            """Nothing at all."""
            self.asked.append(query)
            return 0.0

    source = Empty()
    found = queries(replace(noise, rows=False, drawable=source))[0]  # type: ignore[arg-type]
    assert found.value == 1
    conditions = [c for query in source.asked for c in query.where.items()]
    assert any(isinstance(c, Range) for _, c in conditions)
    assert all(c.of <= {"p", "q", "r", "s"} for name, c in conditions if name == "c")  # type: ignore[union-attr]


def test_propensity_tells_noise_from_data(noise: Case, bare: Case) -> None:
    """Fresh people cannot be told apart; a shifted release can."""
    fresh = {m.code: m.value for m in propensity(noise)}
    assert fresh["distinguishable"] == pytest.approx(0.5, abs=0.08)
    shifted = {name: column + 3 for name, column in bare.released.items()}
    far = {m.code: m.value for m in propensity(replace(bare, released=shifted))}
    assert far["distinguishable"] > 0.9
    assert far["pmse"] > 4 * fresh["pmse"]


def test_models_learn_from_the_release(bare: Case) -> None:
    """A copy trains as good a model as the original; shuffled targets train a bad one."""
    good = {m.code: m for m in models(replace(bare, target="c"))}
    assert good["forest-accuracy"].value == pytest.approx(
        good["forest-accuracy"].baseline, abs=0.05
    )
    rng = np.random.default_rng(0)
    released = {**bare.released, "c": rng.permutation(bare.released["c"])}
    bad = {m.code: m for m in models(replace(bare, released=released, target="c"))}
    for code in ("forest-accuracy", "forest-f", "tree-accuracy", "tree-f"):
        assert bad[code].value < good[code].value - 0.1


def test_numbers_are_predicted_as_numbers(bare: Case) -> None:
    """A target of many numbers is explained, in shares of its variance."""
    found = models(replace(bare, target="x0"))
    assert [m.code for m in found] == ["forest-r2"]
    assert found[0].baseline is not None
    assert found[0].value == pytest.approx(found[0].baseline, abs=0.1)
    assert 0 < found[0].value < 1


def test_macro_f_equals_scikit_learn() -> None:
    """The F-measure equals the library's on random labels."""
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(1)
    truth, guess = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    expected = f1_score(truth, guess, average="macro")
    assert macro_f(truth, guess) == pytest.approx(expected)
