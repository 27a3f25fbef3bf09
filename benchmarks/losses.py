"""Information loss of many runs, kept apart by attribute so that every reading can be computed.

The papers print a distance (1/l)·sqrt(Σ (d_a/σ_a²)²). Dividing by a variance, and 1/l outside the
root, are the letter; σ_a and 1/l inside are other readings. All four follow from each attribute's
mean squared distance and σ_a.

"sigma, inside" is l times "sigma, outside", and so for the variance, so that a claim about which of
two losses is larger, or about their ratio, gets the same verdict from both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.tables.number_scale import scale_of

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.tables.schema import Schema

READINGS = ("sigma, outside", "sigma, inside", "variance, outside", "variance, inside")


@dataclass(frozen=True, kw_only=True)
class Original:
    """A table's attributes as numbers (ranks for labels), and their spread."""

    schema: Schema
    scales: dict[str, Any]
    numbers: dict[str, Any]
    sigma: dict[str, float]

    @classmethod
    def of(cls, table: pa.Table, schema: Schema, *, by_frequency: bool) -> Original:
        """The numbers of a table."""
        scales = {
            name: scale_of(schema[name], table.column(name), schema, by_frequency=by_frequency)
            for name in schema.protected
        }
        numbers = {n: scales[n].numbers(table.column(n), schema) for n in schema.protected}
        return cls(
            schema=schema,
            scales=scales,
            numbers=numbers,
            sigma={n: float(np.std(v, ddof=1)) or 1.0 for n, v in numbers.items()},
        )

    def squares(self, masked: pa.Table) -> dict[str, float]:
        """Each attribute's mean squared distance."""
        found = {}
        for name, before in self.numbers.items():
            after = self.scales[name].numbers(masked.column(name), self.schema)
            found[name] = float(np.mean((after - before) ** 2))
        return found

    def losses(self, squares: dict[str, float]) -> dict[str, float]:
        """The mean SSE in every reading."""
        count = len(squares)
        by_sigma = sum(s / self.sigma[n] ** 2 for n, s in squares.items())
        by_variance = sum(s / self.sigma[n] ** 4 for n, s in squares.items())
        return {
            "sigma, outside": by_sigma / count**2,
            "sigma, inside": by_sigma / count,
            "variance, outside": by_variance / count**2,
            "variance, inside": by_variance / count,
        }


def mean_losses(runs: list[dict[str, float]]) -> dict[str, float]:
    """The mean of several runs in every reading, and its standard error."""
    found = {r: float(np.mean([run[r] for run in runs])) for r in READINGS}
    for reading in READINGS:
        spread = [run[reading] for run in runs]
        found[error_of(reading)] = (
            float(np.std(spread, ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else 0.0
        )
    return found


def error_of(reading: str) -> str:
    """The name of a reading's standard error in a row."""
    return f"standard error, {reading}"
