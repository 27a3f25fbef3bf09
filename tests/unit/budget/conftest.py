"""A ledger in a temporary folder, and what a release needs to pay."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from sherd.budget import Amount, Ledger, Reservation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAN = hashlib.sha256(b"plan").hexdigest()
SCHEMA = hashlib.sha256(b"schema").hexdigest()
ARTEFACT = hashlib.sha256(b"artefact").hexdigest()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A new ledger."""
    return Ledger(tmp_path / "data" / "ledger.db")


@pytest.fixture
def reserve(ledger: Ledger) -> Callable[..., Reservation]:
    """A short way to reserve from that ledger."""

    def reserving(
        amount: str,
        *,
        population: str = "people",
        note: str = "",
        staging: Path | None = None,
    ) -> Reservation:
        return ledger.reserve(
            population=population,
            amount=Amount(amount),
            plan_hash=PLAN,
            schema_hash=SCHEMA,
            method="dp",
            note=note,
            staging=staging,
        )

    return reserving


@pytest.fixture
def artefact() -> str:
    """The sha256 of the bytes ``artefact``."""
    return ARTEFACT
