"""The measured epsilon over many seeds: power where a claim is false, level where it is true."""

from __future__ import annotations

import pytest

from sherd.auditing.epsilon.experiment import frozen_bound, real_bound, worst_case
from sherd.auditing.promise_check import centroids_of, masking_of
from sherd.auditing.verdict.measure import lower_bound

pytestmark = pytest.mark.statistical

SEEDS = 400
ALPHA = 0.05


@pytest.mark.parametrize("method", ["dp-um", "dp", "idp"])
def test_false_alarms_are_no_more_frequent_than_stated(method: str) -> None:
    """At the stated level of 5 %, true claims are refuted in at most 5 % of the audits.

    The test itself fails by chance with probability at most 1e-6: it asks whether the rate
    is significantly above 5 %.
    """
    experiment = worst_case(masking_of({"method": method}), 3)
    alarms = sum(
        frozen_bound(experiment, seed=seed, runs=4_000, alpha=ALPHA).exceeds(1)
        for seed in range(SEEDS)
    )
    assert lower_bound(alarms, SEEDS, alpha=1e-6) <= ALPHA


@pytest.mark.parametrize("method", ["idp-ls", "idp-cbls"])
def test_false_claims_are_found_with_every_seed(method: str) -> None:
    """With the audit's own number of runs no seed misses them."""
    experiment = worst_case(masking_of({"method": method}), 5)
    assert all(
        frozen_bound(experiment, seed=seed, runs=40_000, alpha=ALPHA / 2).exceeds(1)
        for seed in range(40)
    )


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["paper", "strict"])
def test_real_runs_of_dp_um_are_never_flagged(guarantee: str) -> None:
    """The method itself over many seeds: no more alarms than stated (here: none expected)."""
    run = centroids_of({"method": "dp-um", "k": 3, "guarantee": guarantee})
    experiment = worst_case(masking_of({"method": "dp-um"}), 3)
    alarms = sum(
        real_bound(experiment, run, seed=seed, runs=1_000, alpha=ALPHA).exceeds(1)
        for seed in range(40)
    )
    assert lower_bound(alarms, 40, alpha=1e-6) <= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("method", ["idp-ls", "idp-cbls"])
def test_real_runs_of_the_papers_methods_are_always_flagged(method: str) -> None:
    """The methods themselves, with the audit's own number of runs."""
    run = centroids_of({"method": method, "k": 3, "guarantee": "paper"})
    experiment = worst_case(masking_of({"method": method}), 3)
    assert all(
        real_bound(experiment, run, seed=seed, runs=3_000, alpha=ALPHA / 2).exceeds(1)
        for seed in range(6)
    )
