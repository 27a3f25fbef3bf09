"""Small cases to audit, made by hand: no method takes part unless a test asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from sherd.auditing.case.case import Case, Columns, Control, Limits
from sherd.tables.number_scale import Scale
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SCHEMA = Schema.from_data(
    {
        "attributes": {
            **{f"x{i}": {"type": "number", "domain": ["-10", "10"]} for i in range(5)},
            "c": {"type": "category", "values": ["p", "q", "r", "s"], "role": "sensitive"},
        }
    }
)
SCALES = {a.name: Scale(attribute=a, labels=a.labels if a.type.labelled else None) for a in SCHEMA}


def people(n: int, seed: int = 0) -> Columns:
    """Records whose attributes depend on each other."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=n)
    found = {f"x{i}": shared + rng.normal(size=n) for i in range(5)}
    found["c"] = np.clip(np.rint(1.5 + shared), 0, 3)
    return found


def case_of(
    original: Columns,
    released: Columns,
    *,
    order: NDArray[np.int64] | None = None,
    outsiders: Columns | None = None,
    **more: object,
) -> Case:
    """A case whose release is given; row i of one side is row i of the other unless said."""
    n = len(original["c"])
    control = None
    if outsiders is not None:
        control = Control(members=original, outsiders=outsiders, released=released, shadow=False)
    return Case(
        schema=SCHEMA,
        scales=SCALES,
        original=original,
        released=released,
        order=np.arange(n) if order is None else order,
        control=control,
        limits=Limits(attacked=600, queries=60, triples=5),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def bare() -> Case:
    """A table released as it is, with people who took no part."""
    table = people(600)
    copy = {name: column.copy() for name, column in table.items()}
    return case_of(table, copy, outsiders=people(600, seed=9))


@pytest.fixture
def noise() -> Case:
    """A release that has nothing to do with the table: other people of the same kind."""
    return case_of(people(600), people(600, seed=5), outsiders=people(600, seed=9))


@pytest.fixture
def make_case() -> Callable[..., Case]:
    """Cases of any original and release."""
    return case_of
