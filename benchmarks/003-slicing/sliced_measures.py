"""What releases of Adult look like and give away, for the figures of arul2019's section 5.

Slicing is the paper's fragmentation, generalisation is Mondrian, bucketisation is Anatomy. Every
release has the same l; occupation is sensitive, all other attributes are quasi-identifiers.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from learned import SENSITIVE, Task

from sherd.methods.slicing.attribute_codes import combined, encode
from sherd.methods.slicing.boxes import locate
from sherd.methods.slicing.bucket_pipeline import subset
from sherd.methods.slicing.column_layout import BUCKET
from sherd.methods.slicing.generalise import into_cells
from sherd.methods.slicing.membership_advantage import best_advantage
from sherd.methods.slicing.sensitive_values import quasi_identifiers, sensitive_codes
from sherd.randomness import Randomness
from sherd.release.plan import Plan
from sherd.verifying import verify_contents as verify

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.release.method import Outcome

COLUMNS = 3
METHODS = ("slicing, as printed", "slicing, regrouped", "generalisation", "bucketisation")


def parameters(method: str, l: int, **more: Any) -> dict[str, Any]:  # noqa: E741 - the field's name
    """The plan behind a line of the figures."""
    if method == "generalisation":
        return {"method": "mondrian", "k": l, "l": l, "boxes": "tight"}  # as the paper's baseline
    if method == "bucketisation":
        return {"method": "anatomy", "l": l}
    given = {"columns": COLUMNS, **more}
    return {"method": "slice", "l": l, "regroup": method.endswith("regrouped"), **given}


def distinct(table: pa.Table, names: list[str]) -> int:
    """How many different rows some fields have.

    >>> import pyarrow as pa
    >>> distinct(pa.table({"a": [1, 1, 2], "b": [3, 3, 3]}), ["a", "b"])
    2
    """
    return int(table.group_by(names).aggregate([]).num_rows)


def columns_of(plan: Plan, outcome: Outcome) -> list[tuple[pa.Table, list[str]]]:
    """The columns of a release: the attributes whose cells stay together, and where they are.

    A generalised record stays whole, so it is one column; bucketisation makes two.
    """
    if plan.method == "slice":
        return [(outcome.tables["data"], list(names)) for names in outcome.facts["columns"]]
    if plan.method == "mondrian":
        data = outcome.tables["data"]
        return [(data, data.column_names)]
    quasi = outcome.tables["quasi-identifiers"]
    names = [name for name in quasi.column_names if name != BUCKET]
    return [(quasi, names), (outcome.tables["sensitive"], [SENSITIVE])]


def column_sizes(plan: Plan, outcome: Outcome) -> dict[str, float]:
    """What "column size" may mean."""
    found = columns_of(plan, outcome)
    widths = [len(names) for _, names in found]
    values = [distinct(table, names) for table, names in found]
    return {
        "attributes of the largest column": float(max(widths)),
        "attributes a column": float(np.mean(widths)),
        "values of the largest column": float(max(values)),
        "values a column": float(np.mean(values)),
    }


def bucket_count(plan: Plan, outcome: Outcome) -> int:
    """How many buckets or classes a release has."""
    if plan.method == "mondrian":
        return int(next(f.value for f in outcome.findings if f.name == "classes"))
    table = outcome.tables["data" if plan.method == "slice" else "quasi-identifiers"]
    return distinct(table, [BUCKET])


def partition_rate(task: Task, method: str, l: int, seed: int) -> dict[str, float]:  # noqa: E741
    """What "tuple partition rate" may mean."""
    start = time.process_time()
    plan, outcome = task.released(Randomness.seeded(seed), **parameters(method, l))
    seconds = time.process_time() - start
    n = task.train.num_rows
    return {"buckets a record": bucket_count(plan, outcome) / n, "records a second": n / seconds}


def disclosed(
    task: Task,
    l: int,  # noqa: E741 - the field's name
    columns: int,
    frequency: int | None,
    seed: int,
) -> dict[str, float]:
    """How well members are told from others, records a bucket, and checks that fail."""
    more = {} if frequency is None else {"min_frequency": frequency}
    given = parameters("slicing, as printed", l, columns=columns, **more)
    plan, outcome = task.released(Randomness.seeded(seed), **given)
    value = next(f.value for f in outcome.findings if f.name == "membership advantage")
    checks = verify(outcome.tables, task.manifest(plan, outcome))
    return {
        "advantage": float(value),
        "bucket size": task.train.num_rows / bucket_count(plan, outcome),
        "failed checks": float(sum(check.passed is False for check in checks)),
    }


def other_advantages(task: Task, l: int, seed: int) -> dict[str, float]:  # noqa: E741
    """The same attack on the others: half of the records are released, the rest are not members.

    The score is the number of released records that a person's quasi-identifiers match.
    """
    randomness = Randomness.seeded(seed)
    plan = Plan(sensitive=[SENSITIVE], **parameters("generalisation", l))
    names = quasi_identifiers(plan, task.schema)
    coded = {name: encode(task.train[name], task.schema[name]) for name in names}
    order = randomness.permutation(task.train.num_rows)
    half = len(order) // 2
    inside, outside = order[:half], order[half : 2 * half]
    both = np.concatenate([inside, outside])
    codes, size = combined([c.codes[both] for c in coded.values()],
                           [c.size for c in coded.values()])  # fmt: skip
    twins = np.bincount(codes[:half], minlength=size)[codes]
    members = subset(coded, inside)
    sensitive = sensitive_codes(task.train, task.schema, plan).kept(inside)
    cells = into_cells(
        list(members.values()), k=l, l=l, tight=True, order=randomness.permutation(half),
        sensitive=sensitive,
    )  # fmt: skip
    rows = np.column_stack([coded[name].codes[outside] for name in names])
    found = locate(np.ascontiguousarray(rows), cells.low, cells.high)
    sizes = np.append(np.bincount(cells.of_row, minlength=cells.count), 0)  # −1: in no class
    return {
        "bucketisation": best_advantage(twins[:half].astype(float), twins[half:].astype(float)),
        "generalisation": best_advantage(sizes[cells.of_row].astype(float),
                                         sizes[found].astype(float)),
    }  # fmt: skip


def homogeneous(task: Task, k: int, seed: int) -> float:
    """The share of k-anonymous records in whose class everybody has the same sensitive value."""
    plan, outcome = task.released(Randomness.seeded(seed), method="mondrian", k=k, boxes="tight")
    names = list(quasi_identifiers(plan, task.schema))
    classes = outcome.tables["data"].group_by(names).aggregate(
        [(SENSITIVE, "count_distinct"), (SENSITIVE, "count")]
    )  # fmt: skip
    alone = classes[f"{SENSITIVE}_count_distinct"].to_numpy() == 1
    counts = classes[f"{SENSITIVE}_count"].to_numpy()
    return float(counts[alone].sum() / counts.sum())
