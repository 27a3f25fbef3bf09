"""The papers' information loss: the mean sum of squared errors, in its four readings.

Notation: l attributes, d_a the distance of the original and the masked value of attribute a
(difference of numbers, or of ranks for labels), σ_a the standard deviation of attribute a in
the original, n records.

Both papers define mean SSE = (1/n) Σ dist², with dist = (1/l)·sqrt(Σ (d_a/σ_a²)²) as printed.
Dividing a distance by a variance depends on the unit it is measured in, so σ_a is taken for
what was meant (``sigma="sigma"``); ``sigma="variance"`` computes what is printed.
``root="outside"`` has 1/l outside the root, as printed, so the loss is Σ …/l²;
``root="inside"`` has it inside, so the loss is the mean over the attributes.

>>> import pyarrow as pa
>>> from sherd.tables.schema import Schema
>>> schema = Schema.from_data({"attributes": {"a": {"type": "number"}, "b": {"type": "number"}}})
>>> before, after = pa.table({"a": [0, 2], "b": [0, 4]}), pa.table({"a": [1, 2], "b": [0, 0]})
>>> mean_sse(before, after, schema)     # ((1/1)² + (4/2)²) / 2² / 2 records
0.625
>>> mean_sse(before, after, schema, root="inside")
1.25
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sherd.errors import TableError, UsageError
from sherd.tables.number_scale import scale_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

Sigma = Literal["sigma", "variance"]
Root = Literal["outside", "inside"]


@dataclass(frozen=True, kw_only=True)
class SquaredError:
    """A mean SSE with the reading it was computed by and what each attribute adds to it."""

    value: float
    by_attribute: Mapping[str, float]
    sigma: Sigma
    root: Root
    by_frequency: bool

    @property
    def variant(self) -> str:
        """The reading in words, to be printed beside every loss.

        >>> SquaredError(value=0, by_attribute={}, sigma="sigma", root="outside",
        ...              by_frequency=False).variant
        'distance (1/l)·sqrt(Σ (d/σ)²), categories in declared order'
        """
        divisor = "σ" if self.sigma == "sigma" else "σ²"
        outer = f"(1/l)·sqrt(Σ (d/{divisor})²)"
        inner = f"sqrt((1/l)·Σ (d/{divisor})²)"
        order = "order of frequency" if self.by_frequency else "declared order"
        return f"distance {outer if self.root == 'outside' else inner}, categories in {order}"


def mean_sse(original: pa.Table, masked: pa.Table, schema: Schema, **reading: Any) -> float:
    """The mean SSE of a masked table whose row i is the original's row i.

    ``reading`` says how the measure is read, as for ``squared_error``.
    """
    return squared_error(original, masked, schema, **reading).value


def squared_error(
    original: pa.Table,
    masked: pa.Table,
    schema: Schema,
    *,
    sigma: Sigma = "sigma",
    root: Root = "outside",
    by_frequency: bool = False,
    attributes: Sequence[str] | None = None,
) -> SquaredError:
    """The mean SSE with each attribute's part; ``attributes`` are the protected ones if None.

    A cell missing on both sides is at distance 0, on one side at the width of the attribute.
    An attribute that is constant in the original has no σ: its distances count as they are.
    """
    if sigma not in ("sigma", "variance") or root not in ("outside", "inside"):
        raise UsageError(
            "this reading of the mean SSE is unknown",
            must="sigma 'sigma' or 'variance', root 'outside' or 'inside'",
            got=f"sigma {sigma!r}, root {root!r}",
        )
    if original.num_rows != masked.num_rows:
        raise TableError(
            "the two tables differ in their number of rows",
            must="a masked record for every original one",
            got=f"{original.num_rows} and {masked.num_rows}",
        )
    if attributes is None:
        attributes = schema.protected
    parts = {}
    for name in attributes:
        scale = scale_of(schema[name], original.column(name), schema, by_frequency=by_frequency)
        before = scale.numbers(original.column(name), schema)
        after = scale.numbers(masked.column(name), schema)
        parts[name] = mean_square(before, after, sigma=sigma)
    factor = 1 / len(parts) if root == "inside" else 1 / len(parts) ** 2
    shares = {name: part * factor for name, part in parts.items()}
    return SquaredError(
        value=float(sum(shares.values())),
        by_attribute=shares,
        sigma=sigma,
        root=root,
        by_frequency=by_frequency,
    )


def mean_square(
    before: NDArray[np.float64], after: NDArray[np.float64], *, sigma: Sigma = "sigma"
) -> float:
    """One attribute's mean of (d/σ)², cells as numbers with NaN for missing.

    >>> mean_square(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    0.5
    """
    present = before[~np.isnan(before)]
    if not present.size:
        return 0.0
    spread = float(np.std(present)) or 1.0
    divisor = spread if sigma == "sigma" else spread**2
    distance = after - before
    gaps = np.isnan(distance)
    if gaps.any():
        both = np.isnan(before) & np.isnan(after)
        distance[gaps] = float(present.max() - present.min())
        distance[both] = 0.0
    distance /= divisor
    return float(np.mean(np.square(distance, out=distance)))
