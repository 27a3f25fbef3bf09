"""Noisy counts of generalised records against the true counts of the original.

Every record of the original is put into the released group it belongs to. What the release counted
less what is true must be discrete Laplace noise of the plan's rate: the audit works that out from
the stated specialisations by an account of its own, for each choice that was made costs a part of
epsilon that the counts then lack.

Notation: ε' = ε / (2 (d + h)) is the cost of a choice, d the measured attributes and h the
specialisations, twice where there are measured attributes; after c choices the counts' noise has
scale 2 / (ε − c ε').
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.auditing.noise.noise_test import ALPHA
from sherd.auditing.verdict.verdict_points import NOISE, percent
from sherd.tables.axis import Axis
from sherd.tables.coding import positions
from sherd.tables.schema import Missing
from sherd.verifying.check import Check
from sherd.verifying.generalised_records import MISSING, values_below
from sherd.verifying.noise_residuals import chance_of_less, grain_of, sizes_of_noise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.auditing.noise.evidence import Evidence
    from sherd.tables.schema import Attribute, Schema

LITTLE = 0.9 * ALPHA
"""The part of the false alarms that is spent on too little noise; the rest is for too much."""


def check(case: Case, evidence: Evidence) -> list[Check]:
    """Whether the released counts have the noise of the plan.

    Their sizes add up to what the likelihood of every scale depends on, and the chance of the sum
    is exact: so many counts cannot tell more of their scale, at this rate of false alarms.
    """
    del case
    counts = evidence.tables["data"].column(-1).to_numpy().astype(np.int64)
    apart = np.abs(counts - true_counts(evidence))
    many, scale = len(apart), count_scale(evidence)
    grain = grain_of(scale)
    total, scale = int(apart.sum()) // grain, scale / grain
    plain, halved = (sizes_of_noise("laplace", one) for one in (scale, scale / 2))
    how = "little" if chance_of_less(plain, many, total) <= LITTLE else ""
    if total and 1 - chance_of_less(plain, many, total - 1) <= ALPHA - LITTLE:
        how = "much"
    if how:
        detail = f"refuted: 'counts' has too {how} noise for its plan (p ≤ {ALPHA:g})"
        return [Check(name=NOISE, passed=False, detail=detail)]
    power = chance_of_less(halved, many, _most(plain, many))
    shown = f"noise halved would be found in {percent(power)} of releases"
    if power < 0.99:
        shown += f", the most that {many} counts can tell"
    if power < 0.5:
        return [Check(name=NOISE, passed=None, detail=f"not testable: {shown}")]
    detail = f"consistent with the plan; {shown} (false alarms: {percent(ALPHA)})"
    return [Check(name=NOISE, passed=True, detail=detail)]


def _most(sizes: NDArray[np.float64], many: int) -> int:
    """The largest sum of sizes that is too little noise; below 0 where none is."""
    low, high = -1, many * len(sizes)
    while low < high:
        middle = (low + high + 1) // 2
        if chance_of_less(sizes, many, middle) <= LITTLE:
            low = middle
        else:
            high = middle - 1
    return low


def count_scale(evidence: Evidence) -> float:
    """The scale of the noise on a count, after the choices that the facts state."""
    plan, schema = evidence.plan, evidence.schema
    measured = [n for n in _features(evidence) if schema[n].type.measured]
    h = int(plan["h"])
    steps = evidence.manifest["facts"]["specialisations"]
    made = sum(_cells(schema, name, plan) > 1 for name in measured)
    for place, step in enumerate(steps):
        made += 1
        wide = any(b - a > 1 for a, b in itertools.pairwise(step["edges"]))
        made += step["attribute"] in measured and place + 1 < h and wide
    choice = plan["epsilon"] / (2 * (len(measured) + h * (2 if measured else 1)))
    return float(2 / (plan["epsilon"] - made * choice))


def true_counts(evidence: Evidence) -> NDArray[np.int64]:
    """How many records of the original lie in each row of the released counts."""
    data, schema = evidence.tables["data"], evidence.schema
    steps = evidence.manifest["facts"]["specialisations"]
    index = np.zeros(evidence.original.num_rows, np.int64)
    total = 1
    for name in data.column_names[:-1]:
        labels = [str(label) for label in pc.unique(data.column(name)).to_pylist()]
        column = evidence.original.column(name)
        if schema[name].type.measured:
            edges = [step["edges"] for step in steps if step["attribute"] == name]
            part = _intervals(column, schema, name, edges, evidence.plan)
        else:
            part = _groups(column, schema[name], labels)
        index = index * len(labels) + part
        total *= len(labels)
    return np.bincount(index, minlength=total)


def _features(evidence: Evidence) -> list[str]:
    """The attributes that were generalised: all that are released but class and count."""
    target = evidence.plan.get("class_attribute")
    return [name for name in evidence.tables["data"].column_names[:-1] if name != target]


def _cells(schema: Schema, name: str, plan: Mapping[str, Any]) -> int:
    """The cells of a measured attribute's public grid, one for missing values included."""
    cells = min(int(plan["bins"]), Axis.of(schema[name]).steps + 1)
    return cells + (schema.missing_policy(name) is Missing.KEEP)


def _intervals(
    column: pa.ChunkedArray,
    schema: Schema,
    name: str,
    edges: Sequence[Sequence[int]],
    plan: Mapping[str, Any],
) -> NDArray[np.int64]:
    """The interval of the cut that each cell of a measured attribute lies in."""
    axis, size = Axis.of(schema[name]), _cells(schema, name, plan)
    keeps = schema.missing_policy(name) is Missing.KEEP
    place, gaps = positions(column, axis, schema.missing_values)
    code = place * (size - keeps) // (axis.steps + 1)
    if keeps:
        code[gaps] = size - 1
    cut = sorted({0, size, *itertools.chain.from_iterable(edges)})
    return np.searchsorted(cut, code, side="right") - 1


def _groups(
    column: pa.ChunkedArray, attribute: Attribute, labels: Sequence[str]
) -> NDArray[np.int64]:
    """The released label that each cell of a labelled attribute belongs to."""
    data = attribute.as_data()
    below = {v: i for i, label in enumerate(labels) for v in values_below(label, data)}
    # Missing cells hang at the root: they have a label of their own once that is divided.
    without = labels.index(MISSING) if MISSING in labels else 0
    texts = column.cast(pa.string()).combine_chunks().dictionary_encode()
    coded = pa.concat_arrays(texts.chunks) if isinstance(texts, pa.ChunkedArray) else texts
    table = np.array([*(below[str(v)] for v in coded.dictionary.to_pylist()), without], np.int64)
    indices = coded.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)
    rows: NDArray[np.int64] = table[indices.astype(np.int64)]
    return rows
