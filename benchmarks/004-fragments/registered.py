"""The registered cases of ``fresh.yaml``: their tables, their queries and what these are worth."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from ipums import FOLDER, case

from sherd.methods.fragmenting.constraints import Constraints
from sherd.tables.schema import Schema

MOST_VALUES, MOST_PAIRS = 100, 1000


@dataclass(frozen=True, kw_only=True)
class Query:
    """An aggregate by one or two keys; ``told`` is the coin of the setting ``half``."""

    form: str
    keys: tuple[str, ...]
    of: str | None
    told: bool

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes of the query."""
        return (*self.keys, self.of) if self.of else self.keys


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A table, how it is fragmented, and the queries it is judged by."""

    table: pa.Table
    schema: Schema
    constraints: tuple[tuple[str, ...], ...]
    fragments: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...]
    similar: tuple[str, ...]
    queries: tuple[Query, ...]
    weight: float

    def told(self, which: str) -> Constraints:
        """The constraints with the workload that is told: ``similar``, ``told`` or ``half``."""
        asked = [q for q in self.queries if which == "told" or (which == "half" and q.told)]
        workload = [
            {"attributes": list(q.attributes), "weight": self.weight / len(asked)} for q in asked
        ]
        return Constraints.from_data(
            {"constraints": [list(c) for c in self.constraints], "workload": workload}
        )

    def kind(self, query: Query) -> str:
        """q_os, q_as or q_ns."""
        ordered = sum(name in self.similar for name in query.attributes)
        return "os" if ordered == len(query.attributes) else "as" if ordered else "ns"


def registered(name: str, rules: dict[str, Any]) -> Registered:
    """A case of a registration, with the queries its rule leads to."""
    given = rules["cases"][name]
    if "file" in given:
        base = case(given["file"].removesuffix(".yaml"))
        table, schema = base.table, base.schema
        given = {**yaml.safe_load((FOLDER / given["file"]).read_text()), **given}
    else:
        read = {"acs": _acs, "adult": _adult}[name.partition("-")[0]]
        table, schema = read(given, rules["seed"])
    fragments = tuple(tuple(f) for f in given["fragments"])
    return Registered(
        table=table,
        schema=schema,
        constraints=tuple(tuple(c) for c in given["constraints"]),
        fragments=fragments,
        sizes=tuple(given["sizes"]),
        similar=tuple(given["similar"]),
        queries=_queries(table, fragments, tuple(given["numeric"]), rules),
        weight=rules["weight"],
    )


def _queries(
    table: pa.Table,
    fragments: tuple[tuple[str, ...], ...],
    numeric: tuple[str, ...],
    rules: dict[str, Any],
) -> tuple[Query, ...]:
    at = {name: f for f, names in enumerate(fragments) for name in names}
    values = {name: len(table.column(name).unique()) for name in at}
    keys = [name for name in at if values[name] <= MOST_VALUES]
    found: list[tuple[str, tuple[str, ...], str | None]] = [
        ("avg1", (a,), c) for a in keys for c in numeric if at[a] != at[c]
    ]
    pairs = list(combinations(keys, 2))
    found += [("count2", pair, None) for pair in pairs if at[pair[0]] != at[pair[1]]]
    triples = [
        ("avg2", (a, b), c)
        for a, b in pairs
        for c in numeric
        if c not in (a, b)
        and values[a] * values[b] <= MOST_PAIRS
        and len({at[a], at[b], at[c]}) == len(fragments)
    ]
    random = np.random.default_rng(rules["seed"])
    drawn = random.permutation(len(triples))[: rules["triples"]]
    found += [triples[i] for i in sorted(drawn)]
    coins = random.integers(0, 2, len(found)).astype(bool)
    return tuple(
        Query(form=form, keys=by, of=of, told=bool(coin))
        for (form, by, of), coin in zip(found, coins, strict=True)
    )


def _acs(given: dict[str, Any], seed: int) -> tuple[pa.Table, Schema]:
    frame = pd.read_csv(
        Path(os.environ["SHERD_DATA"]) / "acs2018_gov.csv.gz", keep_default_na=False, na_values=[""]
    )
    chosen = np.random.default_rng(seed).permutation(len(frame))[:90_000]
    frame = frame.iloc[np.sort(chosen)]
    return _typed(frame, given, {"education_level": None})


def _adult(given: dict[str, Any], _seed: int) -> tuple[pa.Table, Schema]:
    frame = pd.read_csv(
        Path(os.environ["SHERD_DATA"]) / "adult.csv", keep_default_na=False, na_values=["?"]
    ).dropna()
    order = frame.groupby("education")["education_num"].first().sort_values().index.tolist()
    return _typed(frame, given, {"education": order})


def _typed(
    frame: pd.DataFrame, given: dict[str, Any], ordered: dict[str, list[str] | None]
) -> tuple[pa.Table, Schema]:
    names = [name for fragment in given["fragments"] for name in fragment]
    types: dict[str, Any] = {name: {"type": "category"} for name in names}
    types |= {name: {"type": "integer"} for name in given["numeric"]}
    for name, order in ordered.items():
        listed = order or [str(value) for value in sorted(frame[name].unique())]
        types[name] = {"type": "ordinal", "values": listed}
    frame = frame[names].astype({n: str for n in names if n not in given["numeric"]})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return table, Schema.from_data({"attributes": types})


class Scorer:
    """Utility of every query of a case, for any association."""

    def __init__(self, given: Registered) -> None:
        self._given = given
        self._at = {name: f for f, names in enumerate(given.fragments) for name in names}
        names = {name for q in given.queries for name in q.keys}
        self._codes = {
            name: given.table.column(name).combine_chunks().dictionary_encode().indices
            .to_numpy().astype(np.int64)
            for name in names
        }  # fmt: skip
        self._values = {
            q.of: given.table.column(q.of).to_numpy().astype(float) for q in given.queries if q.of
        }

    def utilities(self, place: np.ndarray) -> np.ndarray:
        """The utility of every query under an association."""
        self._members = [_lists(of) for of in place]
        return np.array([self._utility(query, place) for query in self._given.queries])

    def _utility(self, query: Query, place: np.ndarray) -> float:
        codes = [self._codes[name] for name in query.keys]
        x = self._values[query.of] if query.of else np.ones(len(codes[0]))
        shape = [int(code.max()) + 1 for code in codes]
        if len(codes) == 1:
            codes.append(np.zeros_like(codes[0]))
            shape.append(1)
        ways = [self._at[name] for name in query.keys]
        ways = (ways * 2)[:2]
        index = codes[0] * shape[1] + codes[1]
        cells = shape[0] * shape[1]
        count = np.bincount(index, minlength=cells)
        real = np.bincount(index, weights=x, minlength=cells)
        of = self._at[query.of] if query.of else -1
        num, den = self._with(codes, ways, of, x, shape, place)
        num0, den0 = self._without(codes, ways, of, x, shape)
        if query.of is None:
            return float(1 - np.abs(num - real).mean() / np.abs(num0 - real).mean())
        rows = count > 0
        real = real[rows] / count[rows]
        without = num0[rows] / den0[rows]
        seen = den[rows] > 1e-9
        answer = np.where(seen, num[rows] / np.where(seen, den[rows], 1), without)
        return float(1 - np.abs(answer - real).mean() / np.abs(without - real).mean())

    def _with(self, codes, ways, of, x, shape, place):  # type: ignore[no-untyped-def]
        """Sums and weights of every cell: each association row spreads over its groups."""
        kept = np.flatnonzero(place[0] >= 0)
        one = np.ones(len(x))
        left, right, beside = one, one, one
        if of == ways[0]:
            left = x
        elif of == ways[1]:
            right = x
        elif of >= 0:
            groups = place[of, kept]
            beside = np.zeros(len(x))
            beside[kept] = (np.bincount(groups, weights=x[kept]) / np.bincount(groups).clip(1))[
                groups
            ]
        first, second = self._members[ways[0]], self._members[ways[1]]
        same = ways[0] == ways[1]
        return _spread(
            kept, place[ways[0]], place[ways[1]], *first, *second, codes[0], codes[1],
            left, right, beside, shape[0], shape[1], same,
        )  # fmt: skip

    def _without(self, codes, ways, of, x, shape):  # type: ignore[no-untyped-def]
        rows = len(x)
        if ways[0] == ways[1]:
            den = np.bincount(codes[0] * shape[1] + codes[1], minlength=shape[0] * shape[1])
            return den * (x.mean() if of >= 0 else 1.0), den
        sums = []
        counts = []
        for code, way, size in zip(codes, ways, shape, strict=True):
            counts.append(np.bincount(code, minlength=size))
            sums.append(np.bincount(code, weights=x if way == of else None, minlength=size))
        den = np.outer(*counts).ravel() / rows
        beside = x.mean() if of >= 0 and of not in ways else 1.0
        return np.outer(*sums).ravel() / rows * beside, den


def _lists(of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The members of every group one after the other, and where each group's start."""
    order = np.argsort(of, kind="stable")
    order = order[np.searchsorted(of[order], 0) :]
    start = np.zeros(int(of.max()) + 2, np.int64)
    np.cumsum(np.bincount(of[order]), out=start[1:])
    return order, start


@numba.njit(cache=True)
def _spread(  # type: ignore[no-untyped-def]
    kept, first, second, members1, start1, members2, start2, code1, code2,
    left, right, beside, rows, columns, same,
):  # fmt: skip
    num = np.zeros(rows * columns)
    den = np.zeros(rows * columns)
    for t in kept:
        g, h = first[t], second[t]
        for i in range(start1[g], start1[g + 1]):
            m = members1[i]
            if same:
                weight = 1.0 / (start1[g + 1] - start1[g])
                cell = code1[m] * columns + code2[m]
                num[cell] += weight * left[m] * beside[t]
                den[cell] += weight
                continue
            weight = 1.0 / ((start1[g + 1] - start1[g]) * (start2[h + 1] - start2[h]))
            for j in range(start2[h], start2[h + 1]):
                n = members2[j]
                cell = code1[m] * columns + code2[n]
                num[cell] += weight * left[m] * right[n] * beside[t]
                den[cell] += weight
    return num, den
