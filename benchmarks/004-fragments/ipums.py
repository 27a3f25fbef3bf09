"""The IPUMS-like table in two or three fragments, as ``two.yaml`` and ``three.yaml`` say."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

from sherd.methods.fragmenting.constraints import Constraints
from sherd.tables.schema import Schema

FOLDER = Path(__file__).parent
_TYPES = {
    "region": "category", "statefip": "category", "age": "integer", "sex": "category",
    "marst": "category", "ind": "category", "weekly_earn": "number", "educ": "ordinal",
    "occ": "category", "hrswork": "integer", "famincome": "ordinal",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table, its schema, and how it is fragmented."""

    table: pa.Table
    schema: Schema
    constraints: Constraints
    fragments: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...]
    similar: tuple[str, ...]
    queries: tuple[tuple[str, int], ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What ``associate`` is called with."""
        return (
            self.table, self.schema, self.constraints, self.fragments, self.sizes, self.similar
        )  # fmt: skip


def case(name: str) -> Case:
    """``two`` or ``three``: the complete rows of the table and the committed settings."""
    frame = pd.read_csv(
        Path(os.environ["SHERD_DATA"]) / "ipums_like.csv.gz", keep_default_na=False, na_values=[""]
    )
    frame = frame.dropna(subset=["famincome"])
    order = {
        column: frame.groupby(column)[f"{column}_code"].first().sort_values().index.tolist()
        for column in ("educ", "famincome")
    }
    schema = Schema.from_data(
        {
            "attributes": {
                column: {"type": kind, **({"values": order[column]} if column in order else {})}
                for column, kind in _TYPES.items()
            }
        }
    )
    frame = frame[list(_TYPES)].astype({"statefip": str})
    given = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    queries = tuple((q["query"], q["ordered"]) for q in given["workload"])
    given["workload"] = [query for query, _ in queries]
    return Case(
        table=pa.Table.from_pandas(frame, preserve_index=False),
        schema=schema,
        constraints=Constraints.from_data(given),
        fragments=tuple(tuple(f) for f in given["fragments"]),
        sizes=tuple(given["sizes"]),
        similar=tuple(given["similar"]),
        queries=queries,
    )


def utilities(given: Case, place: np.ndarray) -> list[tuple[int, float]]:
    """For every query, how many of its attributes are ordered, and its utility.

    Utility is 1 - mean|with - real| / mean|without - real| over the rows of the answer. The
    weighted average is computed here directly: a group's tuples count equally in each of
    the association rows of the group. A row all of whose tuples were left out is answered as
    without the association.
    """
    from sqlglot import exp, parse_one

    kept = np.flatnonzero(place[0] >= 0)
    found = []
    for query, ordered in given.queries:
        tree = parse_one(query)
        by = tree.args["group"].expressions[0].name
        of = tree.find(exp.Avg).this.name
        at = {name: f for f, names in enumerate(given.fragments) for name in names}
        key = given.table.column(by).combine_chunks().dictionary_encode().indices.to_numpy()
        value = given.table.column(of).to_numpy().astype(float)
        mean = _mean(place[at[of], kept], value[kept])[place[at[of], kept]]
        share = _mean(place[at[by], kept], mean)[place[at[by], kept]]
        real = _mean(key, value)
        answered = np.bincount(key[kept], minlength=len(real)) > 0
        estimate = np.full(len(real), value.mean())
        estimate[answered] = _mean(key[kept], share)[np.flatnonzero(answered)]
        error = np.abs(estimate - real).mean()
        found.append((ordered, 1 - error / np.abs(value.mean() - real).mean()))
    return found


def _mean(groups: np.ndarray, values: np.ndarray) -> np.ndarray:
    count = np.bincount(groups)
    return np.bincount(groups, weights=values) / np.maximum(count, 1)
