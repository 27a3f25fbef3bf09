"""The page on very large tables says what follows from the measurements, and nothing else."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


@pytest.fixture(name="very_large")
def _very_large(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What writes the page."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("very_large")


def test_the_page_is_what_the_measurements_lead_to(very_large: ModuleType) -> None:
    """Neither a number nor a word was changed by hand; a new measurement needs a new page."""
    assert very_large.PAGE.read_text(encoding="utf-8") == very_large.page(*very_large.kept()), (
        "run: python benchmarks/very_large.py"
    )


def _number(text: str) -> float:
    power = re.fullmatch(r"10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if power:
        return float(10 ** int(power[1].translate(SUPERSCRIPTS)))
    return float(text.replace(",", ""))


def test_the_sums_on_the_page_come_out(very_large: ModuleType) -> None:
    """Each product is worked out again from the factors that stand there."""
    text = very_large.PAGE.read_text(encoding="utf-8")
    products = re.findall(
        r"([\d.,]+) (ns|µs) × (10[⁰¹²³⁴⁵⁶⁷⁸⁹]+)(?: cells)? × ([\d.]+) = ([\d,]+) s", text
    )
    assert len(products) == 6
    for cell, unit, cells, grown, seconds in products:
        worked_out = _number(cell) * {"ns": 1e-9, "µs": 1e-6}[unit] * _number(cells) * float(grown)
        assert _number(seconds) == pytest.approx(worked_out, rel=0.02)
    spread = re.findall(
        r"([\d,]+) s ÷ \((\d+) × ([\d.]+)\) = ([\d.]+) (seconds|minutes|hours)", text
    )
    assert len(spread) == 2
    for seconds, cores, share, took, unit in spread:
        worked_out = _number(seconds) / int(cores) / float(share)
        seconds_a_unit = {"seconds": 1, "minutes": 60, "hours": 3600}[unit]
        assert float(took) * seconds_a_unit == pytest.approx(worked_out, rel=0.03)
    costs = re.findall(r"(?:(\d+) × )?([\d.]+) h × ([\d.]+) = ([\d.]+) \|", text)
    assert len(costs) == 6
    for cores, hours, price, cost in costs:
        worked_out = int(cores or 1) * float(hours) * float(price)
        assert float(cost) == pytest.approx(worked_out, rel=0.03, abs=0.001)


def test_coefficients_are_those_of_the_largest_runs(very_large: ModuleType) -> None:
    """Those that the project promises, 50 million × 10 and 100 million × 1; of Spark the growth."""
    known = very_large.coefficients(*very_large.kept())
    assert {name: one.rows for name, one in known.items()} == {
        "columns": 50_000_000,
        "duckdb": 100_000_000,
        "spark": 1_000_000,
    }
    assert all(one.exponent >= 1 for one in known.values())


@pytest.mark.parametrize(
    ("seconds", "expected"), [([1.0, 10.0], 1.0), ([1.0, 20.0], 1.301), ([5.0, 6.0], 1.0)]
)
def test_growth_below_the_rows_is_not_hoped_for(
    very_large: ModuleType, seconds: list[float], expected: float
) -> None:
    """A fixed cost makes small tables look slow; it must not make large ones look quick."""
    assert very_large.last_exponent([1, 10], seconds) == pytest.approx(expected, abs=1e-3)


def test_the_examples_are_true(very_large: ModuleType) -> None:
    """Benchmarks are not among the folders whose examples pytest collects."""
    found = doctest.testmod(very_large)
    assert found.attempted >= 4
    assert found.failed == 0
