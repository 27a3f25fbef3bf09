"""Small tables to slice, and one way to run a plan on them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from sherd.randomness import Randomness
from sherd.release.method import Outcome, Run
from sherd.release.plan import Plan
from sherd.tables.prepare import prepare
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable


class Made(NamedTuple):
    """A run's outcome and the manifest a bundle would hold."""

    outcome: Outcome
    manifest: dict[str, Any]

    @property
    def data(self) -> pa.Table:
        """The released table called data."""
        return self.outcome.tables["data"]


def _make(table: pa.Table, schema: Schema, *, seed: int = 1, **parameters: Any) -> Made:
    """Run a plan as ``protect`` would, with reproducible randomness."""
    plan = Plan(**parameters)
    plan.guarantee(schema)
    run = Run(randomness=Randomness.seeded(seed))
    outcome = plan.spec.run(prepare(table, schema).table, schema, plan, run)
    manifest = {"plan": plan.as_data(), "schema": schema.as_data(), "facts": dict(outcome.facts)}
    return Made(outcome=outcome, manifest=json.loads(json.dumps(manifest)))


def _schema_of(attributes: dict[str, Any], **more: Any) -> Schema:
    """A schema of plain data."""
    return Schema.from_data({"attributes": attributes, **more})


_PEOPLE = _schema_of(
    {
        "age": {"type": "integer", "domain": ["20", "69"]},
        "sex": {"type": "category", "values": ["F", "M"]},
        "town": {
            "type": "category",
            "taxonomy": [
                ["Ulm", "South", "*"],
                ["Kiel", "North", "*"],
                ["Passau", "South", "*"],
                ["Bremen", "North", "*"],
            ],
        },
        "ill": {"type": "category", "role": "sensitive", "values": ["flu", "cold", "burn", "cut"]},
    }
)


def _people(n: int = 200, seed: int = 5) -> pa.Table:
    """People whose illness depends on their age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 70, n)
    ill = (age // 15 + rng.integers(0, 4, n)) % 4
    return pa.table(
        {
            "age": age,
            "sex": rng.choice(["F", "M"], n),
            "town": rng.choice(["Ulm", "Kiel", "Passau", "Bremen"], n),
            "ill": np.array(["flu", "cold", "burn", "cut"])[ill],
        }
    )


@pytest.fixture(scope="session")
def make() -> Callable[..., Made]:
    """Runs a plan on a table: ``make(table, schema, method=…, l=…)``."""
    return _make


@pytest.fixture(scope="session")
def schema_of() -> Callable[..., Schema]:
    """Makes a schema of plain data: ``schema_of({"age": {…}}, missing=…)``."""
    return _schema_of


@pytest.fixture(scope="session")
def people() -> Callable[..., pa.Table]:
    """Makes tables of people whose illness depends on their age: ``people(n, seed)``."""
    return _people


@pytest.fixture(scope="session")
def people_schema() -> Schema:
    """The schema of ``people``; illness is sensitive."""
    return _PEOPLE
