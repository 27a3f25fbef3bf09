"""Table 1 of wang2020: ten records whose cells two parties hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd

RECORDS = [
    ("Teacher", 35, "Y"),
    ("Clerk", 25, "N"),
    ("Doctor", 36, "Y"),
    ("Teacher", 26, "N"),
    ("Clerk", 25, "N"),
    ("Teacher", 29, "Y"),
    ("Cook", 38, "Y"),
    ("Clerk", 23, "N"),
    ("Doctor", 38, "Y"),
    ("Cook", 37, "Y"),
]
JOB_OF_FIRST = [True, False, False, True, True, False, True, False, False, False]
"""Whose the job is (underlined in the paper: the first party's); the age is the other's …"""

AGE_OF_FIRST = [False, True, True, False, False, True, False, True, True, True]
"""… as the paper prints it: every record has one cell of each party."""


@pytest.fixture
def table1() -> pa.Table:
    """The ten records."""
    jobs, ages, classes = zip(*RECORDS, strict=True)
    return pa.table({"Job": list(jobs), "Age": list(ages), "Class": list(classes)})


@pytest.fixture
def schema1() -> sherd.Schema:
    """Its schema: the taxonomy of Fig. 3, and ages from 1 to 99."""
    job = [
        ["Teacher", "Professional", "ANY_JOB"],
        ["Doctor", "Professional", "ANY_JOB"],
        ["Clerk", "Worker", "ANY_JOB"],
        ["Cook", "Worker", "ANY_JOB"],
    ]
    attributes: dict[str, Any] = {
        "Job": {"type": "category", "taxonomy": job},
        "Age": {"type": "integer", "domain": ["1", "99"]},
        "Class": {"type": "category", "role": "sensitive", "values": ["Y", "N"]},
    }
    return sherd.Schema.from_data({"missing": "refuse", "attributes": attributes})


@pytest.fixture
def held1() -> list[np.ndarray]:
    """For each party, which cells it holds: columns Job and Age."""
    first = np.array([JOB_OF_FIRST, AGE_OF_FIRST]).T
    return [first, ~first]
