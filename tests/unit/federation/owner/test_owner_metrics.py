"""What an owner's agent tells Prometheus."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sherd.budget.amount import Amount
from sherd.budget.ledger import Ledger
from sherd.errors import UsageError
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.owner.owner_metrics import OwnerMetrics, serve_metrics

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Any:
    """A home with a ledger that has spent 1.5 of 2, and an empty journal."""
    made = SimpleNamespace(ledger=tmp_path / "ledger.sqlite", journal=tmp_path / "journal.sqlite")
    ledger = Ledger(made.ledger)
    ledger.set_limit("town people", Amount("2"))
    wanted = ledger.reserve(
        population="town people",
        amount=Amount("1.5"),
        method="dp-um",
        plan_hash="0" * 64,
        schema_hash="2" * 64,
    )
    ledger.charge(wanted, artefact_sha256="1" * 64)
    OwnerJournal(made.journal).close()
    return made


def scraped(home: Any) -> dict[tuple[str, ...], float]:
    """What Prometheus would store, by name and labels."""
    metrics = OwnerMetrics(home, silent=lambda: 7.0)
    with serve_metrics("127.0.0.1:0", metrics) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30)
    assert answer.status_code == 200
    return {
        (
            sample.name,
            *(value for _, value in sorted(sample.labels.items(), reverse=True)),
        ): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_budget_left_is_what_the_ledger_says(home: Any) -> None:
    """Spent and left, each kind by itself; what has no limit is left without end."""
    values = scraped(home)
    assert values["sherd_budget_left", "town people", "dp"] == 0.5
    assert values["sherd_budget_spent", "town people", "dp"] == 1.5
    assert values["sherd_budget_left", "town people", "looks"] == float("inf")
    assert values["sherd_aggregator_silent_seconds",] == 7.0
    assert values["sherd_owner_files_fit",] == 1.0


def test_rounds_are_counted_while_the_agent_holds_its_journal(home: Any) -> None:
    """The agent's own connection stays open, also within a transaction."""
    with closing(OwnerJournal(home.journal)) as journal:
        journal.note("r1", "asked", "what for")
        assert scraped(home)["sherd_owner_files_fit",] == 1.0


def test_a_damaged_ledger_is_told_and_the_rest_goes_on(home: Any) -> None:
    """An alert can be set on it; no number of a damaged ledger is told."""
    home.ledger.write_bytes(b"no database" * 1000)
    values = scraped(home)
    assert values["sherd_owner_files_fit",] == 0.0
    assert values["sherd_aggregator_silent_seconds",] == 7.0
    assert not [one for one in values if one[0].startswith("sherd_budget")]


@pytest.mark.parametrize("address", ["9470", ":9470", "127.0.0.1:", "127.0.0.1:99999", "a:b"])
def test_a_wrong_address_is_refused(home: Any, address: str) -> None:
    """With what an address is."""
    metrics = OwnerMetrics(home, silent=lambda: 0.0)
    with pytest.raises(UsageError, match="HOST:PORT"), serve_metrics(address, metrics):
        pass


def test_a_taken_address_is_refused(home: Any) -> None:
    """By name, without a traceback."""
    metrics = OwnerMetrics(home, silent=lambda: 0.0)
    with (
        serve_metrics("127.0.0.1:0", metrics) as port,
        pytest.raises(UsageError, match="nobody listens"),
        serve_metrics(f"127.0.0.1:{port}", metrics),
    ):
        pass
