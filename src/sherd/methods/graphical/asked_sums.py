"""Sums over records, asked of measured marginals: which of them decide, and what they say.

A count, a sum or a mean is a sum over records of what a record's cell decides. Where cells are
wider than the question, the weights are not known exactly: those that are least and greatest in
each cell bound the truth from both sides, and the interval covers what bins hide beside the noise.
A mean r solves Σ (x − r) = 0; its interval holds every r for which that sum cannot be told from 0
(Fieller).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import UsageError
from sherd.methods.graphical.cell_conditions import CellColumn, Truth, both, lowest
from sherd.methods.graphical.measuring import Noise
from sherd.methods.graphical.noise_intervals import SumEstimate, Weighted, estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.graphical.measured_queries import MeasuredAggregate
    from sherd.tables.schema import Schema

    Shares = NDArray[np.float64]
    Weights = tuple[Shares, Shares, Shares]

_SCANNED, _HALVINGS = 17, 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """A measured marginal: over the fine cells of one attribute, or over bins of several."""

    names: tuple[str, ...]
    counts: NDArray[np.int64]
    noise: Noise
    fine: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredModel:
    """What a release measured, as queries read it."""

    rows: int
    columns: Mapping[str, CellColumn]
    histograms: tuple[Histogram, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any], schema: Schema) -> MeasuredModel:
        """The model's document of a release."""
        columns = {one["name"]: CellColumn.of(one, schema) for one in document["attributes"]}
        found = []
        for fine, key in ((True, "fine"), (False, "marginals")):
            for one in document[key]:
                names = tuple(one["attributes"])
                held = [columns[name] for name in names]
                shape = [c.grid.size if fine else int(c.bins.max()) + 1 for c in held]
                found.append(
                    Histogram(
                        names=names,
                        counts=np.array(one["counts"], np.int64).reshape(shape),
                        noise=Noise(kind=document["noise"], scale=Fraction(one["scale"])),
                        fine=fine,
                    )
                )
        return cls(rows=int(document["rows"]), columns=columns, histograms=tuple(found))

    def holding(self, names: Sequence[str]) -> list[Histogram]:
        """The marginals that hold all of some attributes."""
        held = [one for one in self.histograms if set(names) <= set(one.names)]
        if not held:
            together = sorted({one.names for one in self.histograms if len(one.names) > 1})
            raise UsageError(
                f"no measured marginal holds {', '.join(names)} together",
                must="; ".join(", ".join(one) for one in together) or "one attribute at a time",
                do="ask about fewer attributes, measure them with --marginal, or count the drawn "
                "records in the data file, of which nobody knows the error",
            )
        return held


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedSum:
    """One number that is asked: conditions on the summed attribute, on others, and where from."""

    model: MeasuredModel
    column: CellColumn | None
    inside: Truth | None
    outside: Truth | None
    weighed: bool
    histograms: tuple[Histogram, ...]

    @classmethod
    def of(
        cls, model: MeasuredModel, one: MeasuredAggregate, conditions: Sequence[Truth]
    ) -> AskedSum:
        """The sum of an aggregate over the records that meet all conditions."""
        column = None if one.attribute is None else model.columns[one.attribute]
        inside = None if column is None else _present(column)
        outside = None
        for condition in conditions:
            if column is not None and condition.names == (column.name,):
                assert inside is not None
                inside = both(inside, condition, model.columns, either=False)
            elif outside is None:
                outside = condition
            else:
                outside = both(outside, condition, model.columns, either=False)
        wanted = {n for truth in (inside, outside) if truth is not None for n in truth.names}
        names = [name for name in model.columns if name in wanted]
        asked = cls(
            model=model,
            column=column,
            inside=inside,
            outside=outside,
            weighed=one.kind != "count",
            histograms=tuple(model.holding(names)),
        )
        return asked._from_the_best()

    @property
    def public(self) -> bool:
        """Whether nothing noisy is needed: every record counts."""
        certain = [t is None or bool((t.sure == 1).all()) for t in (self.inside, self.outside)]
        return all(certain) and not self.weighed

    def _from_the_best(self) -> AskedSum:
        """All marginals whose cells decide the question, or the one that leaves least open.

        Decided by public numbers: cells, weights and noise, never the counts.
        """
        middle = 0.0
        if self.weighed and self.column is not None:
            low, high = self.column.values()
            middle = float((low[0] + high[: self.column.grid.cells].max()) / 2)
        open_, sure = [], []
        for at, one in enumerate(self.histograms):
            least, _, most = self.weights(one, middle)
            gap = self.model.rows * float((most - least).mean())
            deviation = math.sqrt(one.noise.variance * float(np.square(most - most.mean()).sum()))
            open_.append((gap + deviation, at))
            if np.allclose(least, most, rtol=0, atol=1e-9 * max(1.0, float(np.abs(most).max()))):
                sure.append(one)
        best = (self.histograms[min(open_)[1]],)
        return replace(self, histograms=tuple(sure) or best)

    def weights(self, one: Histogram, centre: float) -> Weights:
        """The least, likely and greatest weight of a record of every cell: its x less a centre.

        Without x, every record that meets the conditions weighs 1.
        """
        columns = self.model.columns
        spread: list[Shares] = [np.ones(()), np.ones(()), np.ones(())]
        if self.column is not None and self.inside is not None:
            spread = list(self._inside(one, centre))
        if self.outside is None:
            return _shaped(spread, one)
        outer = self.outside if one.fine else self.outside.binned(columns)
        sure, likely, possible = outer.over(one.names)
        least, middle, most = spread
        return _shaped(
            [
                np.minimum(sure * least, possible * least),
                likely * middle,
                np.maximum(sure * most, possible * most),
            ],
            one,
        )

    def _inside(self, one: Histogram, centre: float) -> Weights:
        """What the summed attribute's own cells and conditions say, over a histogram's axes."""
        assert self.column is not None
        assert self.inside is not None
        truth, bins = self.inside, self.column.bins
        low, high = self.column.values()
        if not self.weighed:
            low, high, centre = np.ones_like(low), np.ones_like(high), 0.0
        low, high = low - centre, high - centre
        least = np.minimum(truth.sure * low, truth.possible * low)
        most = np.maximum(truth.sure * high, truth.possible * high)
        likely = truth.likely * (low + high) / 2
        if not one.fine:
            least, most = lowest(least, bins), -lowest(-most, bins)
            likely = np.bincount(bins, likely * self.column.within).astype(np.float64)
        axes = [-1 if name == self.column.name else 1 for name in one.names]
        return least.reshape(axes), likely.reshape(axes), most.reshape(axes)

    def _sums(self, centre: float) -> tuple[SumEstimate, SumEstimate, SumEstimate]:
        """The least, the likely and the greatest sum of x less a centre."""
        weights = [self.weights(one, centre) for one in self.histograms]
        found = []
        for side in range(3):
            parts = [
                Weighted(counts=one.counts, noise=one.noise, weights=weight[side])
                for one, weight in zip(self.histograms, weights, strict=True)
            ]
            found.append(estimate(parts, self.model.rows))
        return found[0], found[1], found[2]

    def total(self) -> tuple[float, float, float, float]:
        """A count or a sum, the noise's standard error, and its interval within what can be."""
        least, likely, most = self._sums(0.0)
        bottom, top = 0.0, float(self.model.rows)
        if self.weighed and self.column is not None:
            low, high = self.column.values()
            bottom, top = top * min(0.0, float(low.min())), top * max(0.0, float(high.max()))
        low_end, high_end = least.value - least.half, most.value + most.half
        low_end, high_end = (min(max(end, bottom), top) for end in (low_end, high_end))
        return likely.value, likely.deviation, low_end, high_end

    def average(self) -> tuple[float | None, float | None, float, float]:
        """A mean, the noise's standard error, and every value that the sums leave possible."""
        assert self.column is not None
        low, high = self.column.values()
        held = slice(self.column.grid.cells)
        bottom, top = float(low[held].min()), float(high[held].max())
        zero, one = self._sums(bottom)[1].value, self._sums(bottom + 1)[1].value
        number = zero - one  # Σ (x − b) − Σ (x − b − 1)
        value = bottom + zero / number if number > 0 else None
        inside = value is not None and bottom <= value <= top
        centres = [*np.linspace(bottom, top, _SCANNED), *([value] if inside else [])]
        kept = [centre for centre in centres if self._possible(centre)]
        if not kept:
            kept = [min(max(value, bottom), top) if value is not None else bottom]
        ends = (self._edge(min(kept), bottom, top, -1), self._edge(max(kept), bottom, top, 1))
        if value is None:
            return None, None, *ends
        return value, self._sums(value)[1].deviation / number, *ends

    def _possible(self, centre: float) -> bool:
        """Whether the records' mean cannot be told from a value."""
        least, _, most = self._sums(centre)
        return least.value - least.half <= 0 <= most.value + most.half

    def _edge(self, kept: float, bottom: float, top: float, side: int) -> float:
        """How far the possible values go on one side, found by halving."""
        width = (top - bottom) / (_SCANNED - 1)
        outside = min(max(kept + side * width, bottom), top)
        if self._possible(outside):
            return outside
        for _ in range(_HALVINGS):
            middle = (kept + outside) / 2
            kept, outside = (middle, outside) if self._possible(middle) else (kept, middle)
        return outside


def _present(column: CellColumn) -> Truth:
    """That an attribute is not missing."""
    there = np.ones(column.grid.size)
    there[column.grid.cells :] = 0
    return Truth(names=(column.name,), sure=there, likely=there, possible=there)


def _shaped(tables: Sequence[Shares], one: Histogram) -> Weights:
    least, likely, most = (np.broadcast_to(table, one.counts.shape) for table in tables)
    return least, likely, most
