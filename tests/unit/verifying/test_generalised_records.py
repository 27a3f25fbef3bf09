"""Re-checking generalised records finds what was changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.release.protect import Settings
from sherd.verifying import verify as verify_release
from sherd.verifying.generalised_records import verify

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": ["17", "90"]},
            "job": {"type": "category", "taxonomy": [["a", "x", "*"], ["b", "x", "*"], ["c", "*"]]},
            "flag": {"type": "boolean"},
            "income": {"type": "category", "role": "sensitive", "values": ["low", "high"]},
        },
    }
)


@pytest.fixture
def release() -> sherd.Release:
    """A small release."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "age": rng.integers(17, 91, 200),
            "job": rng.choice(["a", "b", "c"], 200),
            "flag": rng.integers(0, 2, 200).astype(bool),
            "income": rng.choice(["low", "high"], 200),
        }
    )
    plan = sherd.Plan(method="diffgen", epsilon=5.0, class_attribute="income", h=4)
    made: sherd.Release = sherd.protect(table, SCHEMA, plan, settings=Settings(seed=2))
    return made


def failed(release: sherd.Release, **tables: Any) -> list[str]:
    """The names of the checks that fail after some tables were replaced (None: removed)."""
    given = {k: v for k, v in {**release.tables, **tables}.items() if v is not None}
    return [check.name for check in verify(given, release.manifest) if check.passed is False]


def test_a_release_passes_from_disk(release: sherd.Release, tmp_path: Any) -> None:
    """Every check that can be made passes."""
    checks = verify_release(release.save(tmp_path / "out")).checks
    assert not [check for check in checks if check.passed is False]
    assert "every combination once" in [check.name for check in checks if check.passed]


def test_a_missing_table_is_found(release: sherd.Release) -> None:
    """Both tables belong to a release."""
    assert failed(release, records=None) == ["tables"]


def test_another_column_is_found(release: sherd.Release) -> None:
    """A column the plan does not have."""
    data = release.tables["data"]
    assert failed(release, data=data.append_column("ssn", data.column("count"))) == ["columns"]


def test_a_left_out_combination_is_found(release: sherd.Release) -> None:
    """It would say that nobody is in it."""
    data = release.tables["data"]
    found = failed(release, data=data.slice(1))
    assert "every combination once" in found


@pytest.mark.parametrize(("name", "value"), [("job", "z"), ("age", "33"), ("flag", "maybe")])
def test_a_foreign_label_is_found(release: sherd.Release, name: str, value: str) -> None:
    """Labels are nodes of the taxonomy, or intervals."""
    data = release.tables["data"]
    changed = [value, *data.column(name).to_pylist()[1:]]
    place = data.column_names.index(name)
    assert f"{name}: labels" in failed(
        release, data=data.set_column(place, name, pa.array(changed))
    )


def test_broken_counts_are_found(release: sherd.Release) -> None:
    """Counts are whole numbers."""
    data = release.tables["data"]
    halves = pa.array([0.5] * data.num_rows)
    changed = data.set_column(data.num_columns - 1, "count", halves)
    assert failed(release, data=changed) == ["counts"]


def test_lost_records_are_found(release: sherd.Release) -> None:
    """As many records as the manifest says."""
    assert failed(release, records=release.tables["records"].slice(1)) == ["records"]


def test_records_counted_past_the_noise_are_found(release: sherd.Release) -> None:
    """Records must be the noisy counts, rounded: true counts, or another order, carry more."""
    data, records = release.tables["data"], release.tables["records"]
    even = np.repeat(np.arange(data.num_rows), 200 // data.num_rows + 1)[:200]
    exact = data.drop_columns(["count"]).take(pa.array(even))
    assert failed(release, records=exact) == ["records"]
    assert failed(release, records=records.take(pa.array(np.arange(200)[::-1]))) == ["records"]


@pytest.mark.parametrize("n", [0, 1, 7, 200])
def test_projections_of_any_counts_pass(n: int) -> None:
    """The check, in whole numbers, agrees with the method, in floating point."""
    from sherd.methods.specialising.partition import consistent
    from sherd.verifying.generalised_records import _projected

    rng = np.random.default_rng(n)
    for size in (1, 2, 16, 999):
        for spread in (1, 30, 10**6):
            counts = rng.integers(-spread, spread + 1, size)
            times = consistent(counts, n)
            assert _projected(counts.tolist(), times.tolist())
            if size > 2 and n > 1:
                wrong = times.copy()
                wrong[np.argmax(times)] -= 2
                wrong[np.argmin(counts)] += 2
                assert not _projected(counts.tolist(), wrong.tolist())
