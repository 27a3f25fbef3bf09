from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.auditing.case.case import Case
from sherd.auditing.case.distributions import BARS, distributions
from sherd.auditing.case.open_case import columns_of, scales_of
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from sherd.auditing.verdict.audit_result import Distribution


def drawn(declared: dict[str, Any], before: list[Any], after: list[Any]) -> Distribution:
    """The picture of one attribute."""
    schema = Schema.from_data({"attributes": {"a": declared}})
    tables = [pa.table({"a": values}) for values in (before, after)]
    scales = scales_of(tables[0], schema, False)
    original, released = (columns_of(table, scales, schema) for table in tables)
    case = Case(schema=schema, scales=scales, original=original, released=released, rows=True)
    (found,) = distributions(case)
    return found


@pytest.mark.parametrize(
    ("kind", "domain", "low", "high", "ends"),
    [
        ("integer", ["17", "90"], 17, 90, ("17", "90")),
        ("integer", ["1", "99"], 3, 98, ("1", "99")),
        ("integer", ["10000", "1500000"], 13_769, 1_184_622, ("10,000", "1,200,000")),
        ("integer", ["1", "16"], 1, 16, ("1", "16")),
        ("number", ["0", "1000"], 0.37, 14.91, ("0", "16")),
        ("number", ["0", "1000"], 3.0, 3.0, ("3", "4")),
        ("number", ["0", "3"], 3.0, 3.0, ("3", "4")),
        ("number", ["5", "6"], 0.37, 14.91, ("0", "16")),
        ("number", None, -0.0123, 0.0487, ("-0.02", "0.05")),
    ],
)
def test_numbers_begin_and_end_at_what_can_be_read(
    kind: str, domain: list[str] | None, low: float, high: float, ends: tuple[str, str]
) -> None:
    """Round numbers, or the domain's ends before them; values outside a domain are shown too."""
    declared = {"type": kind, **({"domain": domain} if domain else {})}
    found = drawn(declared, [low, high], [low, low])
    assert found.ends == ends
    assert sum(found.before) == pytest.approx(1)
    assert sum(found.after) == pytest.approx(1)


def test_few_whole_numbers_have_a_bar_each() -> None:
    """Classes between whole numbers would stay empty."""
    found = drawn({"type": "integer", "domain": ["1", "16"]}, list(range(1, 17)), [1] * 16)
    assert found.classes == tuple(str(i) for i in range(1, 17))
    assert found.before == pytest.approx([1 / 16] * 16)
    assert found.after[0] == 1


def test_ordinal_labels_keep_the_order_of_the_schema() -> None:
    """Also rare labels and many of them: none is moved to the end as an other."""
    labels = [f"level {i:02}" for i in range(16)]
    declared = {"type": "ordinal", "values": labels}
    found = drawn(declared, [labels[15], labels[15], labels[0]], [labels[7]] * 3)
    assert found.classes == tuple(labels)
    assert found.ends == ("level 00", "level 15")
    assert found.before[15] == pytest.approx(2 / 3)
    assert found.after[7] == 1
    many = [f"level {i:02}" for i in range(50)]
    found = drawn({"type": "ordinal", "values": many}, [many[0], many[49]], [many[4]] * 2)
    assert len(found.classes) <= BARS
    assert found.classes[0] == "level 00 … level 02"
    assert found.ends == ("level 00", "level 49")
    assert (found.before[0], found.before[-1], found.after[1]) == (0.5, 0.5, 1.0)


def test_rare_categories_are_put_together() -> None:
    """Categories have no order: the rarest of many are one class, and the last."""
    labels = [f"job {i:02}" for i in range(15)]
    cells = list(np.repeat(labels, 3)) + labels[5:]
    found = drawn({"type": "category", "values": labels}, cells, cells)
    assert found.ends == ("job 00", "other")
    assert found.classes[-1] == "other"
    assert sum(found.before) == pytest.approx(1)


def test_dates_and_truth_values() -> None:
    """Dates begin and end with the data, truth values are false and true."""
    days = pa.array([11_000, 11_500], pa.int32()).cast(pa.date32()).to_pylist()
    found = drawn({"type": "date", "domain": ["2000-01-01", "2025-12-31"]}, days, days)
    assert found.ends == ("2000-02-13", "2001-06-27")
    assert drawn({"type": "boolean"}, [True, False], [True, True]).ends == ("false", "true")
