"""Whether a model was fitted by the settings that its measurements lead to.

How strongly a model is drawn towards independence is not chosen with the data in view: it is
3·(n/s)^⅔ for n records, where 1/s² is the sum of 1/sᵢ² over all that the model is fitted to, and
no deviation sᵢ of noise is less than one record. Earlier releases have a share of the records.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STRENGTH, POWER = 3, 2 / 3

EARLIER = (0.004, 0.016)
"""The strengths of earlier releases, for each record."""

LEAST_SHARE = 1e-6
LEAST_RIDGE, LEAST_RECORDS = 1e-5, 0.05


def variance_of(kind: str, scale: float) -> float:
    """The variance of discrete noise of a kind, Laplace or Gaussian."""
    if kind == "laplace":
        ratio = math.exp(-1 / scale)
        return 2 * ratio / (1 - ratio) ** 2
    if scale >= 4:  # as that of continuous noise, to more digits than a float holds
        return scale**2
    chances = [math.exp(-(x**2) / (2 * scale**2)) for x in range(60)]
    squares = math.fsum(x**2 * chance for x, chance in enumerate(chances))
    return 2 * squares / (2 * math.fsum(chances) - 1)


def check_settings(document: Mapping[str, Any], variances: Sequence[float]) -> Check:
    """Strength and limits of the fit are those of the records and of the noise fitted to."""
    fit, rows = document["fit"], document["rows"]
    beside = rows * math.sqrt(sum(1 / max(1.0, variance) for variance in variances))
    strengths = [STRENGTH * beside**POWER, *(share * rows for share in EARLIER)]
    passed = (
        set(fit) == {"strength", "least_share", "least_ridge", "gradient"}
        and all(type(value) in (int, float) for value in fit.values())
        and any(math.isclose(fit["strength"], one, rel_tol=1e-6) for one in strengths)
        and fit["least_share"] == LEAST_SHARE
        and math.isclose(fit["least_ridge"], max(LEAST_RIDGE, LEAST_RECORDS / rows), rel_tol=1e-9)
    )
    return Check(
        name="settings of the fit",
        passed=passed,
        detail="are those that records and noise lead to"
        if passed
        else "are not those that records and noise lead to",
    )
