"""How measured numbers are compared, and which cells the forests of paper 001 are trained for."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(name="compared")
def _compared(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Numbers with their errors."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("compared")


@pytest.fixture(name="masked")
def _masked(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tables of paper 001."""
    for folder in (BENCHMARKS, BENCHMARKS / "001-masking"):
        monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("masked")


def test_the_examples_of_the_comparisons_are_true(compared: ModuleType) -> None:
    """Benchmarks are not among the folders whose examples pytest collects."""
    found = doctest.testmod(compared)
    assert found.attempted > 10
    assert found.failed == 0


def test_numbers_without_noise_are_compared_as_they_are(compared: ModuleType) -> None:
    """Equal ones are at most so large, but not lower; nothing is left open."""
    one = compared.Measured(value=1.0)
    assert one.at_most(1.0) is True
    assert one.below(1.0) is False
    assert one.between(1.0, 2.0) is True
    assert compared.Measured(value=1.0, error=0.1).between(1.0, 2.0) is None


def test_a_claim_may_allow_less_against_it_than_it_leaves_open(compared: ModuleType) -> None:
    """Nine of ten lower is enough where one is within the noise, not where it is higher."""
    assert compared.Tally(lower=9, within=1).holds(0.9, against=0.05) is True
    assert compared.Tally(lower=9, higher=1).holds(0.9, against=0.05) is False
    assert compared.Tally(lower=8, within=2).holds(0.9, against=0.05) is None


def test_the_masked_class_is_one_more_attribute(masked: ModuleType) -> None:
    """It is masked with the others and may then be another class; the others stay as they are."""
    table = pa.table({"alcohol": np.linspace(8, 14, 40)})
    schema = sherd.Schema.from_data({"attributes": {"alcohol": {"type": "number"}}})
    quality = pa.chunked_array([np.arange(40) % 10])
    wide, wide_schema = masked.with_target("wine", table, schema, quality)
    assert wide.column_names == ["alcohol", "quality"]
    assert list(wide_schema.protected) == ["alcohol", "quality"]
    found = masked.mask(wide, wide_schema, "idp-ls", 0.01, 3, 1.5, Randomness.seeded(1))
    assert found.column("quality").to_pylist() != quality.to_pylist()


def test_the_second_reading_comes_last_and_is_smaller(masked: ModuleType) -> None:
    """So that the numbers of the first do not depend on it, nor the time of a short run."""
    reproduction = importlib.import_module("reproduction")
    for quick, kept, second in ((True, 18, 6), (False, 156, 78)):
        cells = masked.forest_cells("census", reproduction.Setting(quick=quick))
        readings = [cell[0] for cell in cells]
        assert readings == [masked.KEPT] * kept + [masked.MASKED] * second
        assert {cell[1] for cell in cells if cell[0] == masked.MASKED} == {1.5}
