"""Residuals: what was added to true counts has exactly the declared noise.

Only somebody with the original can tell. Every histogram that a model's document states is
counted again on the stated cells and bins; what the release measured less what is true must be
noise of the declared kind and scale: over the size the declared noise has on average, its mean
size is 1 and its mean 0, up to what so many draws do. Noise left out, halved or doubled shows.

Notation: z residuals over the declared noise's mean size, m how many of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.tables.axis import Axis
from sherd.tables.coding import positions
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

SIGMAS = 5.0
"""Standard errors that mean and mean square may be off: a false alarm in a million."""

_SPREAD = {"gaussian": math.sqrt(math.pi / 2 - 1), "laplace": 1.0}
"""The deviation of a draw's size over its mean."""


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """Residuals of all measured counts over the noise's mean size, and what they come to.

    ``histograms`` are, for each, its attributes, its noise's scale and its residuals as they are.
    """

    kind: str
    standardised: NDArray[np.float64]
    histograms: tuple[tuple[tuple[str, ...], float, NDArray[np.int64]], ...] = ()

    @property
    def mean(self) -> float:
        """Their mean: 0 up to chance."""
        return float(self.standardised.mean())

    @property
    def mean_size(self) -> float:
        """Their mean size: 1 where the noise is the declared one."""
        return float(np.abs(self.standardised).mean())

    @property
    def slack(self) -> float:
        """How far the mean size may be from 1 by chance."""
        return SIGMAS * _SPREAD[self.kind] / math.sqrt(self.standardised.size)

    @property
    def as_declared(self) -> bool:
        """Whether the residuals are those of the declared noise."""
        most = SIGMAS * math.sqrt((1 + _SPREAD[self.kind] ** 2) / self.standardised.size)
        return abs(self.mean) <= most and abs(self.mean_size - 1) <= self.slack

    def check(self) -> Check:
        """The finding as a check of a release."""
        detail = (
            f"{self.standardised.size} counts differ from the true ones by {self.mean_size:.3f} "
            f"of what the declared noise does on average (1 ± {self.slack:.3f})"
        )
        return Check(name="noise on true counts", passed=self.as_declared, detail=detail)


def residuals(original: pa.Table, schema: Schema, document: Mapping[str, Any]) -> Residuals:
    """What measurements differ from the prepared original by, over the noise's mean size."""
    fine, binned, sizes = {}, {}, {}
    for one in document["attributes"]:
        name = one["name"]
        place, gaps = positions(original.column(name), Axis.of(schema[name]), schema.missing_values)
        cells = np.searchsorted(one["edges"], place, side="right") - 1
        cells[gaps] = len(one["edges"]) - 1
        fine[name], binned[name] = cells, np.array(one["bins"])[cells]
        sizes[name] = max(one["bins"]) + 1
    found: list[NDArray[np.float64]] = []
    parts: list[tuple[tuple[str, ...], float, NDArray[np.int64]]] = []
    for one in (*document["fine"], *document["marginals"]):
        single = len(parts) < len(document["fine"])
        index = np.zeros(original.num_rows, np.int64)
        for name in one["attributes"]:
            index = fine[name] if single else index * sizes[name] + binned[name]
        apart = np.array(one["counts"]) - np.bincount(index, minlength=len(one["counts"]))
        found.append(apart / _size(document["noise"], one))
        parts.append((tuple(one["attributes"]), float(Fraction(one["scale"])), apart))
    return Residuals(
        kind=document["noise"], standardised=np.concatenate(found), histograms=tuple(parts)
    )


def _size(kind: str, one: Mapping[str, Any]) -> float:
    """The mean size of a draw of discrete noise."""
    chances = sizes_of_noise(kind, float(Fraction(one["scale"])))
    return float(chances @ np.arange(len(chances)))


def sizes_of_noise(kind: str, scale: float) -> NDArray[np.float64]:
    """The chance of each size, from 0 on, of a draw of discrete noise."""
    places = np.arange(int((40 if kind == "laplace" else 12) * scale) + 13)
    weights = np.exp(-places / scale if kind == "laplace" else -((places / scale) ** 2) / 2)
    weights[1:] *= 2
    found: NDArray[np.float64] = weights / weights.sum()
    return found
