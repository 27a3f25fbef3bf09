"""What a release says of itself: the manifest, of which nothing is computed from raw data."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sherd.release.bundle import ORDER_KEPT
from sherd.release.charging import told_population

if TYPE_CHECKING:
    from sherd.budget.entries import Entry, Reservation
    from sherd.guarantees import Guarantee
    from sherd.release.plan import Plan
    from sherd.release.protect import Settings
    from sherd.tables.schema import Schema


FORMAT = 2
"""The form of manifests."""

EARLIER_FORMAT = 1
"""The form of before, the same but for what promises name (``sherd.guarantees.guarantee``)."""


def manifest_of(
    schema: Schema,
    plan: Plan,
    guarantee: Guarantee,
    settings: Settings,
    reservation: Reservation | Entry | None,
) -> dict[str, Any]:
    """What a release says of itself; nothing computed from raw data.

    ``reservation`` is what is held for it or, where that came first, what was charged.
    """
    import numpy as np
    import pyarrow as pa

    from sherd import __version__
    from sherd.guarantees import Assumption

    # The hash is that of what is published: one over secret values could be guessed at.
    told = schema.published(names_values=Assumption.ORDER_FROM_DATA in guarantee.assumes)
    stamps = []
    if settings.seed is not None:
        stamps.append("reproducible: carries no guarantee")
    if settings.keep_order:
        stamps.append(ORDER_KEPT)
    # What costs no epsilon is counted in the ledger, but spends nothing there.
    spends = reservation is not None and reservation.measure != "none"
    budget: dict[str, Any] = {"recorded": spends}
    if reservation is not None and spends:
        account = told_population(reservation.population, schema, told)
        budget |= {"population": account, "spent": str(reservation.amount)}
    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "stamps": stamps,
        "guarantee": guarantee.as_data(),
        "plan": plan.as_data(),
        "plan_hash": plan.hash,
        "schema": told.as_data(),
        "schema_hash": told.hash,
        "budget": budget,
        "versions": {
            "sherd": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "pyarrow": pa.__version__,
        },
    }
