"""``sherd protect`` without a method: three lines, what fits first."""

from __future__ import annotations

import re

import pytest

import sherd
from sherd.cli import run
from sherd.cli.method_options import explain_choice
from sherd.release.method import find

SUGGESTED = find("dp-graph").traits.suggestion
assert SUGGESTED is not None
LEAST_ROWS = SUGGESTED.least_rows

NUMBERS = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {
            "x": {"type": "integer", "domain": ["0", "9"]},
            "y": {"type": "integer", "domain": ["0", "9"]},
        },
    }
)
TEXT = sherd.Schema.from_data({"attributes": {"note": {"type": "text"}}})


def first(schema: sherd.Schema, rows: int | None) -> str:
    """The method that is named first."""
    lines = explain_choice(schema, rows).splitlines()
    assert len(lines) == 3
    named = re.findall(r"-m ([\w-]+)", lines[0])
    assert len(named) == 1
    return str(named[0])


def test_what_fits_is_named_first() -> None:
    """Records for tables that are large enough, distributions for small ones, else true values."""
    assert first(NUMBERS, None) == first(NUMBERS, LEAST_ROWS) == "dp-graph"
    assert first(NUMBERS, LEAST_ROWS - 1) == "dp-um"
    assert first(TEXT, LEAST_ROWS) not in ("dp-graph", "dp-um")


@pytest.mark.parametrize("name", ["adult", "wine", "nursery"])
def test_the_first_choice_runs_as_it_is_written(name: str) -> None:
    """The options that are named make a plan for the schema."""
    schema = sherd.datasets.schema(name)
    assert first(schema, 10_000) == "dp-graph"
    sherd.Plan(method="dp-graph", epsilon=1.0, delta=1e-9).check(schema)


def test_the_command_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage as before, with the choice explained."""
    assert run(["protect", ":nursery", "-e", "1"]) == 2
    said = capsys.readouterr().err
    assert "Missing option '-m' / '--method'." in said
    assert "begin with -m dp-graph -e 1 --delta 1e-9" in said
    assert "12,960 records" in said
