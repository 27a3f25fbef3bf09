"""Attribute grouping: which quasi-identifiers depend on each other and share a column.

Notation: d1, d2 the numbers of values that occur, f the joint shares, the mean-square
contingency coefficient

    φ²(A, B) = 1 / (min(d1, d2) − 1) · Σ_ij (f_ij − f_i· f_·j)² / (f_i· f_·j),

0 for independent attributes, 1 where one determines the other. Attributes are points at
distance 1 − φ²; k-medoids finds the columns: PAM, or CLARA (PAM on samples of the
attributes) where there are many. The sensitive column is made first: the sensitive
attributes and the α − 1 quasi-identifiers most correlated with them.

Paper 003 asks for discretisation of continuous attributes and leaves it open: equal width
by default, equal frequency on request.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sherd.errors import MissingPartError, PlanError
from sherd.methods.slicing.column_layout import ColumnLayout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.slicing.attribute_codes import Coded
    from sherd.randomness import Randomness

BINS = 10
"""Bins of a measured attribute when correlations are measured."""

MANY = 100
"""More attributes than this are clustered by CLARA."""

_DRAWS = 5  # CLARA: Kaufman and Rousseeuw's five samples of 40 + 2k points
_CELLS = 2_000_000_000  # above so many row–pair steps correlations come from a row sample


def discretised(coded: Coded, how: Literal["width", "frequency"]) -> tuple[NDArray[np.int32], int]:
    """Few codes for an attribute: measured ones in bins, others as they are."""
    if not coded.type.measured or coded.size <= BINS:
        return coded.codes, coded.size
    first = 1 if coded.has_missing else 0
    if how == "width":
        numbers = _numbers(coded.values[first:])
        low, high = numbers[0], numbers[-1]
        bins = np.minimum((numbers - low) / ((high - low) or 1.0) * BINS, BINS - 1)
    else:
        below = np.cumsum(np.bincount(coded.codes, minlength=coded.size)[first:])
        bins = np.minimum((below - 1) * BINS // max(int(below[-1]), 1), BINS - 1)
    of_code = np.concatenate([np.zeros(first), bins.astype(np.int64) + first])
    return of_code.astype(np.int32)[coded.codes], BINS + first


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    """Measured values as numbers; they are all of one kind."""
    if isinstance(values[0], date):
        values = [_moment(value) for value in values]
    return np.array(values, dtype=np.float64)


def _moment(value: date) -> float:
    if not isinstance(value, datetime):
        return float(value.toordinal())
    return value.timestamp() if value.tzinfo else value.toordinal() * 86400.0 + value.hour * 3600


def phi_squared(one: NDArray[np.int32], d1: int, two: NDArray[np.int32], d2: int) -> float:
    """φ² of two coded attributes, over the rows and columns that occur.

    >>> sex = np.array([0, 1, 1, 1, 0, 0, 0, 1]); ill = np.array([0, 1, 1, 2, 1, 0, 0, 2])
    >>> round(phi_squared(sex, 2, ill, 3), 6)
    0.666667
    """
    from sherd.methods.slicing.pair_counts import count_pairs

    joint = count_pairs(
        np.ascontiguousarray(one, dtype=np.int32), d1, np.ascontiguousarray(two, dtype=np.int32), d2
    )
    shares = joint / max(len(one), 1)
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    shares = shares[rows > 0][:, columns > 0]
    expected = np.outer(rows[rows > 0], columns[columns > 0])
    least = min(expected.shape)
    if least < 2:
        return 0.0  # a constant attribute depends on nothing
    return float(((shares - expected) ** 2 / expected).sum() / (least - 1))


def clustered(
    distance: NDArray[np.float64], n_columns: int, randomness: Randomness, how: str
) -> NDArray[np.int64]:
    """The column of every attribute, by k-medoids over a matrix of distances."""
    n = len(distance)
    if n_columns >= n:
        return np.arange(n, dtype=np.int64)
    if n_columns == 1:
        return np.zeros(n, dtype=np.int64)
    if how == "pam" or (how == "auto" and n <= MANY):
        medoids = _pam(distance, n_columns)
        return np.asarray(np.argmin(distance[:, medoids], axis=1), dtype=np.int64)
    best: tuple[float, NDArray[np.int64]] | None = None
    for _ in range(_DRAWS):
        sample = np.sort(randomness.permutation(n)[: 40 + 2 * n_columns])
        medoids = sample[_pam(distance[np.ix_(sample, sample)], n_columns)]
        cost = float(distance[:, medoids].min(axis=1).sum())
        if best is None or cost < best[0]:
            best = cost, np.argmin(distance[:, medoids], axis=1)
    assert best is not None
    return best[1]


def _pam(distance: NDArray[np.float64], n_columns: int) -> NDArray[np.int64]:
    try:
        import kmedoids
    except ImportError:
        raise MissingPartError(
            "attribute grouping needs the package 'kmedoids'",
            do="install sherd[slicing], or give the groups",
        ) from None
    result = kmedoids.pam(np.ascontiguousarray(distance), n_columns, init="build")
    return np.asarray(result.medoids, dtype=np.int64)


def grouped_layout(
    coded: Mapping[str, Coded],
    quasi: Sequence[str],
    sensitive: Sequence[str],
    sensitive_codes: Sequence[tuple[NDArray[np.int32], int]],
    *,
    n_columns: int,
    alpha: int,
    discretise: Literal["width", "frequency"],
    clustering: str,
    randomness: Randomness,
) -> ColumnLayout:
    """The columns of a sliced table, worked out from the table itself."""
    check_numbers(n_columns, alpha, len(quasi))
    points = {name: discretised(coded[name], discretise) for name in quasi}
    n = len(next(iter(points.values()))[0])
    pairs = max(len(quasi) * (len(quasi) - 1) // 2, 1)
    if pairs * n > _CELLS:
        sample = randomness.permutation(n)[: max(_CELLS // pairs, 1000)]
        points = {name: (codes[sample], size) for name, (codes, size) in points.items()}
        sensitive_codes = [(codes[sample], size) for codes, size in sensitive_codes]
    rest = list(quasi)
    beside: list[str] = []
    if alpha > 1:
        ties = {
            name: max(phi_squared(*points[name], *other) for other in sensitive_codes)
            for name in rest
        }
        beside = sorted(rest, key=lambda name: -ties[name])[: alpha - 1]
        rest = [name for name in rest if name not in beside]
    if n_columns == 2 or n_columns - 1 >= len(rest):
        place = np.arange(len(rest)) if n_columns > 2 else np.zeros(len(rest), dtype=np.int64)
    else:
        distance = np.zeros((len(rest), len(rest)))
        for i, one in enumerate(rest):
            for j in range(i + 1, len(rest)):
                far = 1.0 - phi_squared(*points[one], *points[rest[j]])
                distance[i, j] = distance[j, i] = max(far, 0.0)
        place = clustered(distance, n_columns - 1, randomness, clustering)
    columns = [
        tuple(name for name, where in zip(rest, place, strict=True) if where == column)
        for column in dict.fromkeys(place.tolist())
    ]
    return ColumnLayout(columns=(*columns, (*beside, *sensitive)), sensitive=tuple(sensitive))


def check_numbers(n_columns: int, alpha: int, n_quasi: int) -> None:
    """Raise where the quasi-identifiers do not suffice for the columns asked for."""
    if alpha - 1 >= n_quasi:
        raise PlanError(
            "the 'alpha' parameter is too large",
            must=f"at most {n_quasi}, to leave a quasi-identifier outside the sensitive column",
            got=str(alpha),
        )
    if n_columns - 1 > n_quasi - (alpha - 1):
        raise PlanError(
            "there are more columns than attributes to fill them",
            must=f"at most {n_quasi - alpha + 2} columns",
            got=str(n_columns),
        )
