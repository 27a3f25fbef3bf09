from __future__ import annotations

import math

import numpy as np
import pytest

from sherd.auditing.epsilon.experiment import (
    Experiment,
    frozen_bound,
    lower_bound,
    real_bound,
    worst_case,
)
from sherd.auditing.epsilon.mechanism import Mechanism, _loss, exact_loss, scales, sizes, sums
from sherd.auditing.promise_check import centroids_of, masking_of
from sherd.auditing.verdict.measure import (
    clopper_pearson,
    mean_interval,
    median_interval,
)


def mechanism(method: str, k: int = 3, high: float = 1.0, **more: float) -> Mechanism:
    """A mechanism on [0, high] with ε = 1."""
    return Mechanism(**masking_of({"method": method}), k=k, epsilon=1.0, low=0.0, high=high, **more)  # type: ignore[arg-type]


def test_known_counter_examples() -> None:
    """0,0,0,½,½,½ costs idp-ls 1.5 ε; 1…9 costs idp-cbls 3 ε; dp-um spends exactly ε."""
    halves = np.repeat([0.0, 0.5], 3)
    assert exact_loss(halves, mechanism("idp-ls")) == pytest.approx(1.5)
    assert exact_loss(np.arange(1.0, 10), mechanism("idp-cbls", high=10)) == pytest.approx(3)
    assert exact_loss(halves, mechanism("dp-um")) == pytest.approx(1)


def test_many_clusters_approach_the_limit_of_idp_ls() -> None:
    """The loss of idp-ls comes near (1 + ln 2) ε and never exceeds it."""
    values = np.repeat(np.linspace(0, 0.5, 400), 3)
    found = exact_loss(values, mechanism("idp-ls"))
    assert 1.69 < found <= 1 + math.log(2)


def test_methods_without_clusters_spend_what_they_claim() -> None:
    """Dp and idp mask each value by itself."""
    assert exact_loss(np.array([0.2]), mechanism("dp")) == 1
    assert exact_loss(np.array([0.2]), mechanism("idp")) == 1


def test_a_moving_cluster_without_noise_costs_without_bound() -> None:
    """A cluster that moves but has no noise gives everything away; one that stays, nothing."""
    values = np.array([0.1, 0.2, 0.3, 0.5, 0.5, 0.5])
    assert math.isinf(_loss(values, np.zeros(2), mechanism("dp-um")))
    assert _loss(values, np.array([1.0, 1.0]), mechanism("dp-um")) < 1
    stuck = Experiment(mechanism=mechanism("idp-cbls"), table=np.full(3, 0.5), neighbour=values[3:])
    assert stuck.exact() == 0
    moved = Experiment(mechanism=mechanism("idp-cbls"), table=values[3:], neighbour=np.full(3, 0.6))
    assert math.isinf(moved.exact())


def test_enlarged_scales_cover_their_loss() -> None:
    """The promise `centroids` enlarges the noise until the loss is at most ε."""
    rng = np.random.default_rng(0)
    values = np.sort(rng.random(60))
    wide = mechanism("idp-cbls", k=5, floor=0.001, enlarge=True)
    assert exact_loss(values, wide) == pytest.approx(1)
    assert (scales(values, wide) >= scales(values, mechanism("idp-cbls", k=5))).all()


def test_the_last_cluster_takes_the_remainder() -> None:
    """102 records at k = 5 make 20 clusters, the last with 7."""
    found = sizes(102, 5)
    assert len(found) == 20
    assert found[-1] == 7
    assert sums(np.ones(102), mechanism("dp-um", k=5))[-1] == 7


@pytest.mark.parametrize("method", ["dp-um", "idp-ls", "idp-cbls"])
def test_sums_and_scales_agree_with_the_methods(method: str) -> None:
    """The audit's own account equals the method's finding, though they share no code."""
    import pyarrow as pa

    import sherd
    from sherd.auditing.case.case import Limits
    from sherd.auditing.promise_check import table_loss
    from sherd.auditing.run import _Given, _open

    rng = np.random.default_rng(7)
    table = pa.table({"a": np.rint(rng.gamma(2, 20, 400)), "b": rng.integers(0, 50, 400)})
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "a": {"type": "number", "domain": ["0", "500"], "grid": "0.5"},
                "b": {"type": "integer", "domain": ["0", "60"]},
            }
        }
    )
    more = {} if method == "dp-um" else {"guarantee": "paper"}
    plan = sherd.Plan(method=method, epsilon=1.0, k=5, **more)
    release = sherd.protect(table, schema, plan)
    opened = _open(_Given(original=table, release=release, limits=Limits()), release.manifest)
    (found,) = table_loss(opened.case, plan.as_data())
    said = [f for f in release.findings if f.name == "epsilon with clusters recomputed"]
    if said:
        assert found.value == pytest.approx(float(said[0].value), rel=1e-6)
    else:
        assert found.value <= 1 + 1e-9


def test_bound_is_below_the_truth() -> None:
    """Two Laplace distributions one scale apart: near 1, not above."""
    rng = np.random.default_rng(3)
    found = lower_bound(rng.laplace(size=40_000), 1 + rng.laplace(size=40_000))
    assert 0.85 < found.lower < 1
    assert not found.exceeds(1)
    assert found.exceeds(0.5)
    assert "runs on one table" in found.words()


def test_bound_of_equal_distributions_is_nothing() -> None:
    """What cannot be told apart shows no loss."""
    rng = np.random.default_rng(4)
    assert lower_bound(rng.normal(size=4000), rng.normal(size=4000)).lower < 0.1


def test_constant_scores_show_nothing() -> None:
    """Runs that all look the same show no loss, and break nothing."""
    assert lower_bound(np.zeros(100), np.zeros(100)).lower == 0


@pytest.mark.parametrize("method", ["idp-ls", "idp-cbls"])
@pytest.mark.parametrize("k", [3, 20])
def test_false_claims_are_flagged(method: str, k: int) -> None:
    """idp-ls and idp-cbls as in the papers exceed ε once clusters are recomputed."""
    experiment = worst_case(masking_of({"method": method}), k)
    assert experiment.exact() > 1.49
    assert frozen_bound(experiment, seed=1, runs=40_000).exceeds(1)


@pytest.mark.parametrize(("method", "k"), [("dp-um", 3), ("dp-um", 20), ("dp", 1), ("idp", 1)])
def test_true_claims_are_not_flagged(method: str, k: int) -> None:
    """dp-um, dp and idp spend exactly ε at their worst, and the bound stays below."""
    experiment = worst_case(masking_of({"method": method}), k)
    assert experiment.exact() == pytest.approx(1)
    found = frozen_bound(experiment, seed=1, runs=40_000)
    assert not found.exceeds(1)
    assert found.lower > 0.8


@pytest.mark.parametrize("method", ["idp-ls", "idp-cbls"])
def test_enlarged_noise_keeps_the_promise_with_frozen_scales(method: str) -> None:
    """The promise `centroids` is not refuted under the noise of the actual table."""
    experiment = worst_case(masking_of({"method": method}), 5, enlarge=True, floor=0.001)
    assert experiment.exact() == pytest.approx(1)
    assert not frozen_bound(experiment, seed=2, runs=40_000).exceeds(1)


def test_real_runs_of_the_method_are_measured() -> None:
    """The method itself, run on both tables, is flagged for idp-cbls and not for dp-um."""
    bad = real_bound(
        worst_case(masking_of({"method": "idp-cbls"}), 3),
        centroids_of({"method": "idp-cbls", "k": 3, "guarantee": "paper"}),
        seed=1,
        runs=1200,
    )
    assert bad.exceeds(1)
    plan = {"method": "dp-um", "k": 3, "guarantee": "strict"}
    good = real_bound(
        worst_case(masking_of({"method": "dp-um"}), 3), centroids_of(plan), seed=1, runs=1200
    )
    assert not good.exceeds(1)
    assert good.lower > 0.3


def test_intervals_equal_known_values() -> None:
    """Clopper and Pearson's interval equals SciPy's exact one."""
    from scipy.stats import binomtest

    for hits, trials in ((0, 10), (3, 10), (10, 10), (120, 900)):
        exact = binomtest(hits, trials).proportion_ci(method="exact")
        assert clopper_pearson(hits, trials) == pytest.approx((exact.low, exact.high))
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert mean_interval(np.array([2.0])) == (2.0, 2.0)
    assert median_interval(np.array([1.0, 2.0])) == (1.0, 2.0)
