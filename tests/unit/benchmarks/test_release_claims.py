"""How the claims of paper 000 are judged, on cells made up for the purpose."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
LOSS = "sigma, outside"
GIVEN = {"loss": LOSS}
EPSILONS = (0.01, 0.1, 0.5, 1.0)
KS = (1, 50, 250, 1000)


@pytest.fixture(name="judges")
def _judges(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The judges of paper 000."""
    for folder in (BENCHMARKS, BENCHMARKS / "000-joint-release"):
        monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("fragmented_claims")


def cells(
    loss: Callable[[float, int], float],
    *,
    error: float = 0.001,
    scenario: str = "centralised",
    method: str = "idp-ls",
) -> list[dict[str, Any]]:
    """A cell for every (ε, k); the error is a share of the loss."""
    return [
        {
            "data": "made up",
            "scenario": scenario,
            "method": method,
            "domain": "[0, 2·max]",
            "epsilon": epsilon,
            "k": k,
            LOSS: loss(epsilon, k),
            f"standard error, {LOSS}": error * loss(epsilon, k),
        }
        for epsilon, k in itertools.product(EPSILONS, KS)
    ]


def falling(epsilon: float, k: int) -> float:
    """A loss that falls with ε and k; plain iDP (k = 1) hardly falls with ε."""
    return 1 / (1 + epsilon) / k if k > 1 else 1.2 - 0.05 * epsilon


def scaled(factor: float) -> Callable[[float, int], float]:
    """The same, a number of times."""
    return lambda epsilon, k: factor * falling(epsilon, k)


def test_a_pattern_needs_steps_that_fall_beyond_the_noise(judges: ModuleType) -> None:
    """A rise refutes it, steps within the noise leave it open."""
    given = {**GIVEN, "falls": 0.9, "rises": 0.05}
    assert judges.pattern(cells(falling), **given)[1] is True
    rising = cells(lambda e, k: falling(e, k) * (5 if k == 1000 else 1))
    ours, held = judges.pattern(rising, **given)
    assert held is False
    assert "a step up in k: lower in 4, within noise in 0, higher in 4 of 8 (by up to 25%)" in ours
    assert judges.pattern(cells(falling, error=1.0), **given)[1] is None


def test_ranking_must_help_in_every_cell(judges: ModuleType) -> None:
    """Clusters against plain iDP of the same ε, on both datasets."""
    given = {**GIVEN, "share": 1.0}
    good = cells(falling)
    assert judges.ranking_helps(good, good, **given)[1] is True
    worse = cells(lambda _e, k: 2.0 if k > 1 else 1.0)
    assert judges.ranking_helps(good, worse, **given)[1] is False
    assert judges.ranking_helps(good, cells(falling, error=1.0), **given)[1] is None


def test_plain_idp_may_fall_by_the_tolerance(judges: ModuleType) -> None:
    """From ε = 0.1 to 1, on either dataset."""
    good = cells(falling)
    steep = cells(lambda e, _k: 1 / (1 + e))
    assert judges.plain_idp(good, good, fall=0.1, **GIVEN)[1] is True
    assert judges.plain_idp(good, steep, fall=0.1, **GIVEN)[1] is False
    assert judges.plain_idp(good, cells(falling, error=0.1), fall=0.1, **GIVEN)[1] is None


def test_a_method_wins_only_where_it_is_told_apart(judges: ModuleType) -> None:
    """Cells within the noise are not counted as won."""
    given = {**GIVEN, "share": 0.95}
    dp = cells(falling, method="dp-um")
    for factor, error, held in ((0.8, 0.001, True), (1.2, 0.001, False), (0.999, 0.01, None)):
        own = cells(scaled(factor), error=error)
        assert judges.local_wins(own + dp, **given)[1] is held


def horizontal(
    small: float, large: float, *, order: str = "local", error: float = 0.001
) -> list[dict[str, Any]]:
    """Horizontal cells above the baseline by a share for k up to 250 and another above."""
    return cells(
        lambda e, k: falling(e, k) * (1 + (small if k <= 250 else large)),
        scenario=f"horizontal, {order} order",
        error=error,
    )


def test_small_k_differ_little_and_less_than_large_k(judges: ModuleType) -> None:
    """A tenth of the baseline is the limit; what is alike for all k is not what the paper says."""
    given = {**GIVEN, "order": "local order", "share": 0.1}
    base = cells(falling)
    for small, large, error, held in (
        (0.05, 1.0, 0.001, True),
        (0.28, 1.0, 0.001, False),
        (0.05, 0.02, 0.001, False),
        (0.09, 1.0, 0.05, None),
    ):
        rows = base + horizontal(small, large, error=error)
        assert judges.horizontal_small_k(rows, **given)[1] is held


def test_large_k_lose_more_than_small_k_and_than_the_baseline(judges: ModuleType) -> None:
    """One alone is not enough."""
    given = {**GIVEN, "order": "local order"}
    base = cells(falling)
    for small, large, error, held in (
        (0.0, 0.5, 0.001, True),
        (0.5, 0.2, 0.001, False),
        (-0.5, -0.2, 0.001, False),
        (0.0, 0.01, 0.05, None),
    ):
        rows = base + horizontal(small, large, error=error)
        assert judges.horizontal_grows(rows, **given)[1] is held


def test_local_orders_are_held_against_agreed_ones(judges: ModuleType) -> None:
    """By more than four standard errors."""
    base = cells(falling)
    for local, error, held in ((0.5, 0.001, True), (0.1, 0.001, False), (0.5, 0.3, None)):
        rows = base + horizontal(0.0, local, error=error)
        rows += horizontal(0.0, 0.3, order="agreed", error=error)
        assert judges.local_order_hurts(rows, **GIVEN)[1] is held


def vertical(
    share: Callable[[float, int], float], *, error: float = 0.001, name: str = "vertical, equal"
) -> list[dict[str, Any]]:
    """Vertical cells above the baseline by a share."""
    return cells(lambda e, k: falling(e, k) * (1 + share(e, k)), scenario=name, error=error)


def test_vertical_differs_by_a_stated_number(judges: ModuleType) -> None:
    """The largest difference is held against it; noise alone does not refute it."""
    given = {**GIVEN, "shares": "equal", "difference": 0.001}
    base = cells(falling)
    for share, error, held in ((0.01, 0.001, True), (0.2, 0.001, False), (0.2, 0.1, None)):
        rows = base + cells(scaled(1 + share), scenario="vertical, equal", error=error)
        assert judges.vertical_equals(rows, **given)[1] is held


def test_vertical_must_not_depend_on_k(judges: ModuleType) -> None:
    """However far it is from the baseline; runs too noisy say nothing."""
    given = {**GIVEN, "shares": "equal", "share": 0.05}
    base = cells(falling)
    assert judges.vertical_any_k(base + vertical(lambda _e, _k: 0.3), **given)[1] is True
    by_k = vertical(lambda _e, k: k / 1000)
    assert judges.vertical_any_k(base + by_k, **given)[1] is False
    noisy = vertical(lambda _e, _k: 0.0, error=0.2)
    assert judges.vertical_any_k(base + noisy, **given)[1] is None


def wine(horizontal_share: float, vertical_share: float, error: float = 0.001) -> Any:
    """Wine: the baseline and both fragmentations, each above it by a share."""
    base = cells(falling, error=error)
    rows = horizontal(horizontal_share, horizontal_share, error=error)
    return base + rows + vertical(lambda _e, _k: vertical_share, error=error)


def test_wine_is_held_against_the_baseline_and_within_itself(judges: ModuleType) -> None:
    """Cream cells, slight differences at large ε, and both fragmentations alike."""
    given = {**GIVEN, "shares": "equal"}
    for rows, cream, close, alike in (
        (wine(0.0, 0.0), True, True, True),
        (wine(0.0, 0.2), False, False, False),
        (wine(0.2, 0.2), False, False, True),
        (wine(-0.02, 0.0), True, True, True),
        (wine(0.0, 0.1, error=0.3), None, None, None),
    ):
        assert judges.mostly_cream(rows, seen=0.15, **given)[1] is cream
        assert judges.wine_close(rows, share=0.1, **given)[1] is close
        assert judges.wine_alike(rows, share=0.1, **given)[1] is alike


def test_numbers_of_wine_depend_on_the_scale_of_the_loss(judges: ModuleType) -> None:
    """In the thousands, and differences below 300 of losses that large."""
    given = {**GIVEN, "shares": "equal", "difference": 300}
    scaled = [{**r, LOSS: 1e6 * r[LOSS]} for r in wine(0.0, 0.01)]
    assert judges.thousands(scaled, least=1000, most=10000, **GIVEN)[1] is True
    assert judges.thousands(wine(0.0, 0.05), least=1000, most=10000, **GIVEN)[1] is False
    assert judges.below_300(scaled, **given)[1] is True
    apart = [{**r, LOSS: 1e6 * r[LOSS]} for r in wine(0.0, 0.5)]
    assert judges.below_300(apart, **given)[1] is False
    assert judges.below_300(wine(0.0, 0.05), **given)[1] is False


def test_similar_in_the_conclusions_means_cell_by_cell(judges: ModuleType) -> None:
    """Both datasets and fragmentations; one that differs is enough."""
    given = {**GIVEN, "order": "local order", "shares": "equal", "share": 0.1, "cells": 0.95}
    assert judges.all_similar(wine(0.0, 0.0), wine(0.0, 0.0), **given)[1] is True
    assert judges.all_similar(wine(0.3, 0.0), wine(0.0, 0.0), **given)[1] is False
    assert judges.all_similar(wine(0.0, 0.0), wine(0.0, 0.0, error=0.2), **given)[1] is None


def test_differences_are_drawn_against_the_cell_of_the_same_epsilon_and_k(
    judges: ModuleType,
) -> None:
    """The base itself is left out."""
    rows = judges.differences(wine(0.5, 0.0), "scenario", "centralised", LOSS)
    assert len(rows) == 2 * len(EPSILONS) * len(KS)
    row = next(r for r in rows if r["scenario"].startswith("horizontal") and r["k"] == 50)
    assert row["difference"] == pytest.approx(0.5 * falling(row["epsilon"], 50))
