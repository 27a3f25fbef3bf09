"""A run that does not come to its start; what takes several processes is in end_to_end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sherd
from sherd.budget.amount import Amount
from sherd.errors import (
    BudgetError,
    ConnectionFailedError,
    MissingPartError,
    PeerError,
    PolicyError,
    UsageError,
)
from sherd.secure.engine.link import make_key
from sherd.secure.party import PartySettings, take_part
from sherd.secure.party.party_run import _address, _Ready
from sherd.secure.party.run_budget import RunBudget

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_policy_is_checked_before_anything_else(files: Callable[..., Path]) -> None:
    """A plan above the party's own limit is refused; no data is read."""
    with pytest.raises(PolicyError, match="more than this party's policy"):
        take_part(PartySettings.load(files(most_epsilon=0.5)), ledger=None)


def test_a_party_that_computes_needs_the_engine(files: Callable[..., Path]) -> None:
    """It says so before anything is reserved; one that does not compute needs none."""
    pytest.importorskip("numpy", minversion="2")  # with SPU there is numpy 1.26
    with pytest.raises(MissingPartError, match=r"sherd\[joint\]"):
        take_part(PartySettings.load(files()), ledger=None)


def test_a_failed_start_frees_the_reservation(files: Callable[..., Path], tmp_path: Path) -> None:
    """The fragment is not there, or the others are not: nothing stays reserved or is charged."""
    ledger = sherd.Ledger(tmp_path / "ledger.db")
    settings = PartySettings.load(files("abc", compute=["b", "c"], timeout=0.5))
    with pytest.raises(UsageError):
        take_part(settings, ledger=ledger)
    (tmp_path / "t.csv").write_text("id,age,job,income\nr1,4,a,low\n")
    (tmp_path / "a.key").unlink()
    for name in "abc":
        make_key(tmp_path, name)
    with pytest.raises(ConnectionFailedError, match="agreed keys: b, c"):
        take_part(settings, ledger=ledger)
    assert ledger.reservations() == []
    assert ledger.entries() == []


def test_a_run_is_charged_once_under_its_name(files: Callable[..., Path], tmp_path: Path) -> None:
    """Started again it costs nothing; another run with the same plan does."""
    ledger = sherd.Ledger(tmp_path / "ledger.db")
    settings = PartySettings.load(files())
    first, second = "1" * 64, "2" * 64
    for known, name in [(None, first), (first, first), (None, first), (None, second)]:
        with RunBudget(settings, ledger, known) as budget:
            assert len(ledger.reservations()) == (ledger.charge_of(name) is None or known is None)
            budget.pay(name)
    charges = [one for one in ledger.entries() if one.kind == "charge"]
    assert [one.plan_hash for one in charges] == [first, second]
    # There is nothing yet to be paid for; a run's name is no artefact.
    assert {one.artefact for one in charges} == {""}
    assert ledger.reservations() == []
    assert ledger.verify() == 2


def test_a_run_beyond_the_limit_does_not_begin(files: Callable[..., Path], tmp_path: Path) -> None:
    """The second run of a plan is refused before any data is read; nothing more is charged."""
    ledger = sherd.Ledger(tmp_path / "ledger.db")
    settings = PartySettings.load(files(population="people"))
    ledger.set_limit("people", Amount(1))
    with RunBudget(settings, ledger, None) as budget:
        budget.pay("1" * 64)
    with pytest.raises(BudgetError, match="does not allow"), RunBudget(settings, ledger, None):
        pass
    assert ledger.account("people").left == Amount(0)


@pytest.mark.parametrize("data", [None, [], {"run": "r"}, {"run": "s", "compute": None}])
def test_a_party_that_has_not_charged_this_run_is_not_waited_for(data: object) -> None:
    """It says something else, or names another run."""
    assert _Ready.from_data({"run": "r", "compute": "h:1"}, "r").compute == "h:1"
    with pytest.raises(PeerError, match="has charged its ledger"):
        _Ready.from_data(data, "r")


@pytest.mark.parametrize("told", [None, 7, "nowhere", "host:99999"])
def test_addresses_of_others_are_judged(told: object) -> None:
    """Where a computing party says it computes must be an address."""
    assert _address("127.0.0.1:80") == "127.0.0.1:80"
    with pytest.raises(PeerError, match="an address to compute at"):
        _address(told)
