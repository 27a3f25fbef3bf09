"""``model.json``: everything that was measured, with its noise, and the model fitted to it.

Analysts compute their own errors from it, and ``sherd verify`` re-checks it. Counts are the
noisy whole numbers as they were drawn, noise is given exactly, shares of the model to nine
digits. Attributes are named; bins are those of the fine cells ``edges`` begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.methods.graphical.fitting import LEAST_SHARE
from sherd.methods.graphical.learning import least_ridge, strength_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sherd.methods.graphical.learning import Learned
    from sherd.methods.graphical.measuring import Measurement

FORMAT = 1
"""The version of the document's form."""


def document(learned: Learned) -> dict[str, Any]:
    """What a release says of its model."""
    design = learned.design
    names = [grid.name for grid in design.grids]
    fitted, factors = learned.model.fitted, learned.model.factors
    singles = len(names)
    fitted_to = [learned.measured[i] for i in learned.used] or learned.fine
    place = {i: singles + at for at, i in enumerate(learned.used)}
    return {
        "format": FORMAT,
        "rows": learned.rows,
        "noise": design.kind,
        "total": str(design.total),
        "spent": str(learned.spent),
        "choice": {
            "kind": design.choice,
            "rate": None if learned.rate is None else str(learned.rate),
            "picks": learned.picks,
        },
        "attributes": [
            {
                "name": grid.name,
                "edges": list(grid.edges),
                "missing": grid.keeps_missing,
                "bins": list(one.bins),
                "within": _numbers(one.within),
                "start": _numbers(start),
            }
            for grid, one, start in zip(design.grids, learned.binnings, learned.start, strict=True)
        ],
        "fit": {
            "strength": strength_of([one.request.noise for one in fitted_to], learned.rows),
            "least_share": LEAST_SHARE,
            "least_ridge": least_ridge(learned.rows),
            "gradient": float(f"{learned.model.gradient:.9g}"),
        },
        "fine": [
            {**_measured(one, names), "model": _numbers(fitted[i]), "factor": _numbers(factors[i])}
            for i, one in enumerate(learned.fine)
        ],
        "marginals": [
            {
                **_measured(one, names),
                "model": _numbers(fitted[place[i]]) if i in place else None,
                "factor": _numbers(factors[place[i]]) if i in place else None,
            }
            for i, one in enumerate(learned.measured)
        ],
    }


def _measured(one: Measurement, names: list[str]) -> dict[str, Any]:
    return {
        "attributes": [names[a] for a in one.request.marginal.attributes],
        "scale": str(one.request.noise.scale),
        "counts": one.counts.ravel().tolist(),
    }


def _numbers(table: NDArray[np.float64]) -> list[float]:
    """Numbers to nine significant digits: far below the noise, and short."""
    return [float(f"{value:.9g}") for value in table.ravel()]
