"""The tables on which drawn records are measured, and how far a release is from them.

Adult without weights, and, where ``SHERD_DATA`` names the folder that has them, ACS 2018,
Census-Income KDD and ATUS. Labels are taken as public (their codebooks list them) and the domains
of numbers are those of the codebooks. Distances are total variation over combinations of
attributes, numbers in ten classes of equal frequency.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sherd
from sherd.tables.axis import Axis
from sherd.tables.coding import positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = dict[str, NDArray[np.int64]]

CLASSES = 10
MOST_COMBINATIONS = 150
"""Triples measured of a table; of more, so many are drawn by a fixed seed."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file, its numbers with their domains, its labelled columns, and the class."""

    file: str
    numbers: dict[str, tuple[int, int]]
    labels: tuple[str, ...]
    target: str


SOURCES = {
    "ACS 2018": Source(
        file="acs2018_gov.csv.gz",
        numbers={
            "age": (0, 99), "family_size": (1, 20), "children": (0, 19), "education_level": (0, 24),
            "salary": (0, 800_000), "hours_worked": (0, 99), "weeks_worked": (0, 52),
        },
        labels=(
            "sex", "race", "hispanic_origin", "citizenship", "nativity", "marital", "english_level",
            "economic_region",
        ),
        target="marital",
    ),
    "Census-Income KDD": Source(
        file="census_income_kdd.csv.gz",
        numbers={
            "age": (0, 90), "wage_per_hour": (0, 9999), "capital_gains": (0, 99_999),
            "weeks_worked_in_year": (0, 52), "num_persons_worked_for_employer": (0, 6),
        },
        labels=(
            "class_of_worker", "education", "marital_stat", "major_industry_code",
            "major_occupation_code", "race", "sex", "full_or_part_time_employment_stat",
            "tax_filer_stat", "citizenship", "income_class",
        ),
        target="income_class",
    ),
    "ATUS": Source(
        file="atus_cps_2003_2016.csv.gz",
        numbers={"year": (2003, 2016), "age": (15, 85), "hrswork": (0, 160), "hh_size": (1, 16)},
        labels=(
            "region", "sex", "race", "hispanic", "citizen", "marst", "educ", "labor_status",
            "class_worker", "famincome", "tenure", "hh_child",
        ),
        target="labor_status",
    ),
}  # fmt: skip


class PublicTable:
    """A table to release, its schema, and what a release's distance from it is measured by."""

    def __init__(self, table: pa.Table, schema: sherd.Schema, target: str) -> None:
        self.table, self.schema, self.target = table, schema, target
        self.names = table.column_names
        self.codes = self.coded(table)
        self.edges = {
            name: np.unique(np.quantile(values, np.arange(1, CLASSES) / CLASSES))
            for name, values in self.codes.items()
            if schema[name].type.measured
        }

    def coded(self, table: pa.Table) -> Codes:
        """Every column as positions on its axis."""
        return {n: positions(table.column(n), Axis.of(self.schema[n]))[0] for n in self.names}

    def sizes(self) -> dict[str, dict[str, Any]]:
        """How many positions every axis has, and whether they are numbers: for the peers."""
        return {
            name: {
                "size": Axis.of(self.schema[name]).steps + 1,
                "ordered": self.schema[name].type.measured,
            }
            for name in self.names
        }

    def distance(self, released: Codes, ways: int = 2) -> float:
        """The mean total variation distance of all combinations of some attributes."""
        real, drawn = ({n: self._classes(n, c[n]) for n in c} for c in (self.codes, released))
        sizes = {n: int(max(real[n].max(), drawn[n].max())) + 1 for n in self.names}
        found = []
        for names in self._combinations(ways):
            shares = []
            for columns in (real, drawn):
                index = np.zeros(len(columns[names[0]]), np.int64)
                for name in names:
                    index = index * sizes[name] + columns[name]
                cells = int(np.prod([sizes[name] for name in names]))
                shares.append(np.bincount(index, minlength=cells) / len(index))
            found.append(float(np.abs(shares[0] - shares[1]).sum() / 2))
        return float(np.mean(found))

    def _combinations(self, ways: int) -> list[tuple[str, ...]]:
        every = list(itertools.combinations(self.names, ways))
        if len(every) <= MOST_COMBINATIONS:
            return every
        chosen = np.random.default_rng(0).choice(len(every), MOST_COMBINATIONS, replace=False)
        return [every[i] for i in chosen]

    def _classes(self, name: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        if name not in self.edges:
            return values
        return np.searchsorted(self.edges[name], values, side="left")


def load(name: str, rows: int | None = None) -> PublicTable | None:
    """A table by its name, or some of its rows; None where its file is not there."""
    source = SOURCES[name]
    folder = os.environ.get("SHERD_DATA")
    if not folder or not (Path(folder) / source.file).exists():
        return None
    import pandas as pd

    names = [*source.numbers, *source.labels]
    frame = pd.read_csv(Path(folder) / source.file, usecols=names, low_memory=False)[names]
    if rows is not None:
        frame = frame.sample(min(rows, len(frame)), random_state=0)
    attributes: dict[str, Any] = {}
    columns: dict[str, Any] = {}
    for column, (low, high) in source.numbers.items():
        values = pd.to_numeric(frame[column], errors="coerce").fillna(low)
        columns[column] = values.clip(low, high).astype("int64").to_numpy()
        attributes[column] = {"type": "integer", "domain": [str(low), str(high)]}
    for column in source.labels:
        values = frame[column].astype("string").fillna("none").astype(str)
        columns[column] = values.to_numpy(object)
        attributes[column] = {"type": "category", "values": sorted(set(values))}
    schema = sherd.Schema.from_data({"attributes": attributes, "missing": "refuse"})
    return PublicTable(pa.table(columns), schema, source.target)
