from __future__ import annotations

from pathlib import Path

from measures_reference import reference

from sherd.auditing.catalogue import CATALOGUE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measures.md"


def test_every_measure_and_attack_is_documented() -> None:
    """The reference page is what the catalogue says now."""
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_every_measure_is_defined_in_full() -> None:
    """No measure lacks a definition, a range, a meaning; codes are unique by construction."""
    for code, spec in CATALOGUE.items():
        assert spec.code == code
        assert spec.definition
        assert spec.range
        assert spec.meaning
        assert not spec.meaning.endswith(".")
