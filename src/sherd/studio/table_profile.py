"""Summaries of a table for its steward's eyes: distributions, what is missing, what looks wrong.

A problem comes with a fix where the schema can express one: keys of the attribute to set.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.canonical_form import is_text
from sherd.tables.guess import LISTED, MARKS

if TYPE_CHECKING:
    from sherd.studio.table_survey import Survey

BARS = 20
_ZIP = re.compile(r"(?i)(zip|plz|postal|postcode|post_code|fips|cap$)")
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def profile_of(survey: Survey) -> dict[str, Any]:
    """What the studio keeps of a survey; ``columns`` in the table's order."""
    sample = survey.sample
    assert sample is not None
    columns = [_column(name, sample[name], survey) for name in sample.column_names]
    problems = [p for name in sample.column_names for p in _problems(name, sample[name], survey)]
    return {
        "rows": survey.rows,
        "sampled": survey.sampled,
        "columns": columns,
        "problems": problems,
    }


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _column(name: str, column: pa.ChunkedArray, survey: Survey) -> dict[str, Any]:
    column = _plain(column)
    present = column.drop_null()
    shown: dict[str, Any] = {
        "name": name,
        "read_as": "text" if is_text(column.type) else str(column.type),
        "missing": survey.missing[name],
        "distinct": 0,
    }
    if not len(present) or pa.types.is_nested(column.type):
        return {**shown, "bars": [], "ends": ["", ""]}
    shown["distinct"] = pc.count_distinct(present).as_py()
    if _measured(column.type) and shown["distinct"] > BARS:
        return {**shown, **_histogram(present)}
    counts = pc.value_counts(present.cast(pa.string()).combine_chunks())
    pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    if _measured(column.type):
        ordered = sorted(pairs, key=lambda pair: (len(pair[0]), pair[0]))
    else:
        ordered = sorted(pairs, key=lambda pair: -pair[1])
    bars = [[label[:60], count] for label, count in ordered[:BARS]]
    rest = sum(count for _, count in ordered[BARS:])
    if rest:
        bars.append([f"{len(ordered) - BARS} others", rest])
    return {**shown, "bars": bars, "ends": [bars[0][0], bars[-1][0]]}


def _measured(kind: pa.DataType) -> bool:
    test = pa.types
    return bool(
        test.is_integer(kind) or test.is_floating(kind) or test.is_decimal(kind)
        or test.is_date(kind) or test.is_timestamp(kind)
    )  # fmt: skip


def _histogram(present: pa.ChunkedArray) -> dict[str, Any]:
    import numpy as np

    both = pc.min_max(present)
    ends = [str(both["min"].as_py()), str(both["max"].as_py())]
    kind = present.type
    if pa.types.is_date32(kind):
        present = present.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        present = present.cast(pa.int64())
    values = np.asarray(present.cast(pa.float64(), safe=False))
    values = values[np.isfinite(values)]
    if not len(values):
        return {"bars": [], "ends": ends}
    counts, edges = np.histogram(values, bins=BARS)
    if not pa.types.is_temporal(kind):
        labels = [f"{a:.6g} to {b:.6g}" for a, b in itertools.pairwise(edges)]
    else:
        labels = [f"part {place + 1} of {BARS}" for place in range(BARS)]
    bars = [[label, int(count)] for label, count in zip(labels, counts, strict=True)]
    return {"bars": bars, "ends": ends}


def _problem(name: str, text: str, fix: str = "", **settings: Any) -> dict[str, Any]:
    return {"attribute": name, "text": text, "fix": fix, "set": settings}


def _problems(name: str, column: pa.ChunkedArray, survey: Survey) -> list[dict[str, Any]]:
    column = _plain(column)
    present = column.drop_null()
    if not len(present):
        return [_problem(name, "Every cell is missing.", "Leave it out", role="identifier")]
    if pa.types.is_nested(column.type):
        text = "Its cells are lists or structures, which no method can protect."
        return [_problem(name, text, "Leave it out", role="identifier")]
    if is_text(column.type):
        return _text_problems(name, present.cast(pa.string()))
    problems = []
    if name in survey.counted:
        text = "It counts the rows: no two have the same number, and none is left out."
        problems.append(_problem(name, text, "Leave it out", role="identifier"))
    if pa.types.is_integer(column.type) and _lost_zeros(name, present):
        text = (
            "This looks like a code (a postcode, perhaps) that lost its leading zeros: most "
            "numbers have the same number of digits, some have one less."
        )
        problems.append(_problem(name, text, "Treat it as a label, not a number", type="category"))
    if pc.count_distinct(present).as_py() == 1:
        problems.append(_problem(name, "All cells are the same: it tells nothing."))
    return problems


def _lost_zeros(name: str, present: pa.ChunkedArray) -> bool:
    if pc.min(present).as_py() <= 0:
        return False
    digits = pc.utf8_length(present.cast(pa.string()))
    longest = pc.max(digits).as_py()
    share = pc.mean(pc.equal(digits, longest).cast(pa.float64())).as_py()
    one_less = pc.any(pc.equal(digits, longest - 1)).as_py()
    few = pc.all(pc.greater_equal(digits, longest - 2)).as_py()
    return bool(_ZIP.search(name) and longest >= 4 and one_less and few and share > 0.5)


def _text_problems(name: str, present: pa.ChunkedArray) -> list[dict[str, Any]]:
    problems = []
    distinct = pc.unique(present)
    numeric = pc.match_substring_regex(distinct, _NUMBER)
    share = pc.mean(numeric.cast(pa.float64())).as_py()
    odd = [text for text in distinct.filter(pc.invert(numeric)).to_pylist() if text not in MARKS]
    zeros = pc.any(pc.match_substring_regex(distinct, r"^[+-]?0\d")).as_py()
    if 0.8 < share < 1 and odd and not zeros:
        text = f"Mixed types: numbers, but for {len(odd)} other texts such as “{odd[0][:40]}”."
        fix = "Read it as a number and these texts as missing" if len(odd) <= 20 else ""
        problems.append(_problem(name, text, fix, type="number", missing_values=odd[:20]))
    elif len(distinct) > LISTED and share < 1:
        text = f"{len(distinct)} different texts: too many to be categories."
        problems.append(_problem(name, text, "Leave it out", role="identifier"))
    if len(distinct) == 1:
        problems.append(_problem(name, "All cells are the same: it tells nothing."))
    return problems
