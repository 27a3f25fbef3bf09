"""A driver of the tests: protects a table on a Spark cluster and compares it with memory.

    python spark_driver.py MASTER STAGING ROWS ROUNDS [METHOD]

It says every step as it begins, so that whoever started it can kill a worker just then.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pyarrow as pa

import sherd
from sherd.engines.spark_stages import in_its_own_partition, spark_session
from sherd.release.protect import Settings

WEIGHT = "we.ig`ht"
"""A name that Spark takes for a field of a structure, and for half a quotation."""

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": [0, 120]},
            "pay": {"type": "number", "domain": [0, 1000], "grid": "0.5"},
            "born": {"type": "date", "domain": ["1900-01-01", "2020-12-31"]},
            "town": {"type": "category", "values": ["a", "b", "c'\\", "d"]},
            "glad": {"type": "boolean"},
            WEIGHT: {"type": "number", "role": "weight"},
        },
        "missing": "keep",
    }
)
QUIET = 1e9
K = 7


def table_of(rows: int, seed: int) -> pa.Table:
    """A table with ties, a remainder and missing cells in every type."""
    rng = np.random.default_rng(seed)
    gone = rng.random((5, rows)) < 0.1
    days = (rng.integers(-25_000, 18_000, rows)).astype("datetime64[D]")
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 12, rows), mask=gone[0]),
            "pay": pa.array(rng.integers(0, 2000, rows) / 2, mask=gone[1]),
            "born": pa.array(days, mask=gone[2]),
            "town": pa.array(
                np.array(SCHEMA["town"].values)[rng.integers(0, 4, rows)], mask=gone[3]
            ),
            "glad": pa.array(rng.random(rows) < 0.3, mask=gone[4]),
            WEIGHT: pa.array(rng.random(rows)),
        }
    )


def one_noise(table: pa.Table, released: pa.Table) -> bool:
    """Whether all rows of a cluster have one value of ``pay``."""
    before, after = (np.asarray(t.column("pay").to_pandas(), float) for t in (table, released))
    present = np.flatnonzero(~np.isnan(before))
    ranked = present[np.argsort(before[present], kind="stable")]
    clusters = np.minimum(np.arange(len(ranked)) // K, len(ranked) // K - 1)
    pairs = np.unique(np.stack([clusters, after[ranked]]), axis=1)
    return int(clusters[-1]) + 1 == int(pairs.shape[1])


def counted_alike(source: Any, table: pa.Table) -> bool:
    """Whether releases from counts on the cluster are those from counts in memory."""
    seeded = Settings(seed=3)
    plans = (
        sherd.Plan(method="dp-graph", epsilon=1, choice="workload", workload=[["age", "town"]]),
        sherd.Plan(method="diffgen", epsilon=1, h=3, class_attribute="glad"),
    )
    return all(
        sherd.protect(source, SCHEMA, plan, ledger=None, settings=seeded).table.equals(
            sherd.protect(table, SCHEMA, plan, ledger=None, settings=seeded).table
        )
        for plan in plans
    )


def spread_evenly(session: Any, partitions: int = 16) -> bool:
    """Whether every number gets the partition that was meant for it, and none has two."""
    from pyspark.sql import functions

    numbers = session.range(4 * partitions)
    alone = in_its_own_partition(numbers["id"], partitions)
    at = functions.spark_partition_id().alias("at")
    found = numbers.repartition(partitions, alone).select("id", at).collect()
    return all(one.id % partitions == one.at for one in found)


def main(master: str, staging: str, rows: int, rounds: int, method: str = "dp-um") -> None:
    """Protect a table as often as asked for: ``pay`` with noise, all else as good as without."""
    session = spark_session(master)
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sherd.staging", staging)
    session.conf.set("spark.sherd.parts", "4")

    def told(step: str, done: int, _total: int) -> None:
        print(json.dumps({"step": step, "done": done}), flush=True)  # noqa: T201

    more: dict[str, Any] = {} if method in ("dp", "idp") else {"k": K, "guarantee": "paper"}
    plan = sherd.Plan(method=method, epsilon=QUIET, weights={"pay": 1 / QUIET}, **more)
    for number in range(rounds):
        table = table_of(rows, seed=number)
        source, kept = session.createDataFrame(table), Settings(keep_order=True)
        made = Settings(keep_order=True, progress=told)
        release: Any = sherd.protect(source, SCHEMA, plan, ledger=None, settings=made)
        found = release.collected.table
        plain = sherd.protect(table, SCHEMA, plan, ledger=None, settings=kept).table
        answer = {
            "same": found.drop_columns("pay").equals(plain.drop_columns("pay")),
            "rows": found.num_rows == rows == release.rows == release.table.count(),
            "one noise": not more or one_noise(table, found),
            "noisy": not found.equals(plain),
            "read again": release.table.toArrow().equals(release.table.toArrow()),
        }
        if not number:
            answer["counts"] = counted_alike(source, table)
            answer["spread"] = spread_evenly(session)
        print(json.dumps({"round": number, **answer}), flush=True)  # noqa: T201
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
