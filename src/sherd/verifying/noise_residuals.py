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
    """Residuals of all measured counts over the noise's mean size, and what they come to."""

    kind: str
    standardised: NDArray[np.float64]

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
    found = []
    for one in document["fine"]:
        (name,) = one["attributes"]
        true = np.bincount(fine[name], minlength=len(one["counts"]))
        found.append((np.array(one["counts"]) - true) / _size(document["noise"], one))
    for one in document["marginals"]:
        index = np.zeros(original.num_rows, np.int64)
        for name in one["attributes"]:
            index = index * sizes[name] + binned[name]
        true = np.bincount(index, minlength=len(one["counts"]))
        found.append((np.array(one["counts"]) - true) / _size(document["noise"], one))
    return Residuals(kind=document["noise"], standardised=np.concatenate(found))


def _size(kind: str, one: Mapping[str, Any]) -> float:
    """The mean size of a draw of discrete noise."""
    scale = float(Fraction(one["scale"]))
    if kind == "laplace":
        ratio = math.exp(-1 / scale)
        return 2 * ratio / (1 - ratio**2)
    places = np.arange(-int(12 * scale) - 12, int(12 * scale) + 13)
    weights = np.exp(-((places / scale) ** 2) / 2)
    return float((weights * np.abs(places)).sum() / weights.sum())
